//! Looking at an error of any type, and into its sources.
//!
//! `BoxError` is not an `Error` itself, so a trait over all errors cannot be written without leaving out what most
//! tower stacks return. [`Any`] over the handful of types that occur needs no more than `E: 'static`.

use std::any::Any;
use std::error::Error;
use std::io;

use crate::circuit_breaker::BreakerOpen;
use crate::deadline::DeadlineExceeded;

/// A source chain longer than this is a loop, or as good as one.
const MAX_DEPTH: usize = 64;

/// The error behind a value of any of the known types.
pub(crate) fn error<E: 'static>(error: &E) -> Option<&(dyn Error + 'static)> {
    let any: &dyn Any = error;
    if let Some(boxed) = any.downcast_ref::<Box<dyn Error + Send + Sync>>() {
        return Some(&**boxed);
    }
    if let Some(boxed) = any.downcast_ref::<Box<dyn Error + Send>>() {
        return Some(&**boxed);
    }
    if let Some(boxed) = any.downcast_ref::<Box<dyn Error>>() {
        return Some(&**boxed);
    }
    known::<io::Error>(any)
        .or_else(|| known::<DeadlineExceeded>(any))
        .or_else(|| known::<BreakerOpen>(any))
        .or_else(|| known_to_http(any))
        .or_else(|| known_to_reqwest(any))
}

#[inline]
fn known<T: Error + 'static>(any: &dyn Any) -> Option<&(dyn Error + 'static)> {
    any.downcast_ref::<T>().map(|error| error as _)
}

#[cfg(feature = "http")]
#[inline]
fn known_to_http(any: &dyn Any) -> Option<&(dyn Error + 'static)> {
    known::<hyper_util::client::legacy::Error>(any)
        .or_else(|| known::<hyper::Error>(any))
        .or_else(|| known::<http::Error>(any))
        .or_else(|| known_to_http2(any))
}

#[cfg(feature = "http2")]
#[inline]
fn known_to_http2(any: &dyn Any) -> Option<&(dyn Error + 'static)> {
    known::<h2::Error>(any)
}

#[cfg(all(feature = "http", not(feature = "http2")))]
#[inline]
fn known_to_http2(_: &dyn Any) -> Option<&(dyn Error + 'static)> {
    None
}

#[cfg(not(feature = "http"))]
#[inline]
fn known_to_http(_: &dyn Any) -> Option<&(dyn Error + 'static)> {
    None
}

#[cfg(feature = "reqwest")]
#[inline]
fn known_to_reqwest(any: &dyn Any) -> Option<&(dyn Error + 'static)> {
    known::<reqwest::Error>(any)
}

#[cfg(not(feature = "reqwest"))]
#[inline]
fn known_to_reqwest(_: &dyn Any) -> Option<&(dyn Error + 'static)> {
    None
}

/// An error and its sources, the outermost first.
pub(crate) fn chain<'e>(error: &'e (dyn Error + 'static)) -> Chain<'e> {
    Chain {
        next: Some(error),
        left: MAX_DEPTH,
    }
}

/// Not a chain of adapters, each of which would be compiled for each type that is looked for.
pub(crate) struct Chain<'e> {
    next: Option<&'e (dyn Error + 'static)>,
    left: usize,
}

impl<'e> Iterator for Chain<'e> {
    type Item = &'e (dyn Error + 'static);

    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        let error = self.next.take()?;
        // The source of an io::Error is its payload's source: without this step the payload itself is skipped.
        self.next = match error
            .downcast_ref::<io::Error>()
            .and_then(io::Error::get_ref)
        {
            Some(payload) => Some(payload as _),
            None => error.source(),
        };
        Some(error)
    }
}

/// The first error of a type in a chain.
pub(crate) fn find<'e, T: Error + 'static>(error: &'e (dyn Error + 'static)) -> Option<&'e T> {
    chain(error).find_map(|error| error.downcast_ref())
}
