//! What the binaries share: a service that is ready at once, one call of it, and the cases of contention.

use std::future::{Future, Ready, ready};
use std::hint::black_box;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use tower::Service;

pub mod contention;

/// An error that no call here ever has.
#[derive(Debug, Clone, Copy)]
pub struct Never;

impl std::fmt::Display for Never {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("never")
    }
}

impl std::error::Error for Never {}

/// The bare inner service: it answers at once with what it was asked.
#[derive(Debug, Clone, Copy)]
pub struct Bare;

impl Service<u64> for Bare {
    type Response = u64;
    type Error = Never;
    type Future = Ready<Result<u64, Never>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Never>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, number: u64) -> Self::Future {
        ready(Ok(black_box(number)))
    }
}

/// One call: `poll_ready`, `call`, and polls until it is ready, which is one where nothing is contended.
#[inline]
pub fn call<S: Service<u64>>(service: &mut S, number: u64) {
    let mut cx = Context::from_waker(Waker::noop());
    while service.poll_ready(&mut cx).is_pending() {}
    let mut future = pin!(service.call(number));
    loop {
        if let Poll::Ready(outcome) = future.as_mut().poll(&mut cx) {
            let _ = black_box(outcome.is_ok());
            return;
        }
    }
}

/// One call through a breaker that wraps futures and not services.
#[inline]
pub fn drive<F, T, E>(future: F)
where
    F: Future<Output = Result<T, E>>,
{
    let mut cx = Context::from_waker(Waker::noop());
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(outcome) = future.as_mut().poll(&mut cx) {
            let _ = black_box(outcome.is_ok());
            return;
        }
    }
}

/// The future of a call that is ready at once.
#[inline]
pub fn answer(number: u64) -> Ready<Result<u64, Never>> {
    ready(Ok(black_box(number)))
}
