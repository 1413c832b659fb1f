//! What the benchmarks share: an inner service that is ready at once, one call of a service, and the peers.

use std::future::{Future, Ready, ready};
use std::hint::black_box;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use tower::Service;

pub mod peers;

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

    #[inline]
    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Never>> {
        Poll::Ready(Ok(()))
    }

    /// The compiler is not to know that this cannot fail: it would drop what the layers do about failures.
    #[inline]
    fn call(&mut self, number: u64) -> Self::Future {
        let fails = black_box(false);
        ready(if fails {
            Err(Never)
        } else {
            Ok(black_box(number))
        })
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
            let Ok(response) = outcome else {
                panic!("the inner service never fails");
            };
            black_box(response);
            return;
        }
        std::hint::spin_loop();
    }
}
