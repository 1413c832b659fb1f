//! What the benchmarks share: inner services that are ready at once, one call of a service, the peers, and the cases.

use std::future::{Future, Ready, ready};
use std::hint::black_box;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Waker};

use tower::Service;

pub mod cases;
pub mod peers;
pub mod seatbelt_peers;

/// What a client of an HTTP API sends.
pub type HttpRequest = http::Request<&'static str>;

/// A request with six headers, as a client of a payment API might send it.
#[must_use]
pub fn http_request(method: http::Method) -> HttpRequest {
    http::Request::builder()
        .method(method)
        .uri("https://payments.example/v1/orders/17/charges")
        .header("accept", "application/json")
        .header("content-type", "application/json")
        .header("authorization", "Bearer 0123456789abcdef0123456789abcdef")
        .header("user-agent", "agent/1.0")
        .header(
            "traceparent",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        )
        .header("x-request-id", "7d444840-9dc0-11d1-b245-5ffdce74fad2")
        .body("{}")
        .expect("a valid request")
}

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

impl Service<HttpRequest> for Bare {
    type Response = http::Response<()>;
    type Error = Never;
    type Future = Ready<Result<http::Response<()>, Never>>;

    #[inline]
    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Never>> {
        Poll::Ready(Ok(()))
    }

    #[inline]
    fn call(&mut self, request: HttpRequest) -> Self::Future {
        black_box(&request);
        let fails = black_box(false);
        ready(if fails {
            Err(Never)
        } else {
            Ok(black_box(http::Response::new(())))
        })
    }
}

/// Clones each request once more and drops the clone: what any retry pays that may have to send it again.
#[derive(Debug, Clone, Copy)]
pub struct Cloning;

impl Service<HttpRequest> for Cloning {
    type Response = http::Response<()>;
    type Error = Never;
    type Future = Ready<Result<http::Response<()>, Never>>;

    #[inline]
    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Never>> {
        Poll::Ready(Ok(()))
    }

    #[inline]
    fn call(&mut self, request: HttpRequest) -> Self::Future {
        let kept = black_box(request.clone());
        let outcome = Bare.call(request);
        drop(kept);
        outcome
    }
}

/// Fails every other time that it or one of its clones is asked, the first time included. A retry may ask a clone.
#[derive(Debug, Clone, Copy)]
pub struct FailsFirst {
    failed: &'static AtomicBool,
}

impl FailsFirst {
    /// One that has not been asked yet. Leaks a byte.
    #[must_use]
    #[expect(clippy::new_without_default, reason = "it leaks")]
    pub fn new() -> Self {
        Self {
            failed: Box::leak(Box::default()),
        }
    }
}

impl Service<u64> for FailsFirst {
    type Response = u64;
    type Error = Never;
    type Future = Ready<Result<u64, Never>>;

    #[inline]
    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Never>> {
        Poll::Ready(Ok(()))
    }

    #[inline]
    fn call(&mut self, number: u64) -> Self::Future {
        let fails = !self.failed.load(Ordering::Relaxed);
        self.failed.store(fails, Ordering::Relaxed);
        ready(if fails {
            Err(Never)
        } else {
            Ok(black_box(number))
        })
    }
}

/// One call: `poll_ready`, `call`, and polls until it is ready, which is one where nothing is contended.
#[inline]
pub fn call<R, S: Service<R>>(service: &mut S, request: R) {
    let mut cx = Context::from_waker(Waker::noop());
    while service.poll_ready(&mut cx).is_pending() {}
    let mut future = pin!(service.call(request));
    loop {
        if let Poll::Ready(outcome) = future.as_mut().poll(&mut cx) {
            let Ok(response) = outcome else {
                panic!("no call fails");
            };
            black_box(response);
            return;
        }
        std::hint::spin_loop();
    }
}
