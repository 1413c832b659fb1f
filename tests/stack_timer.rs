//! The preset: one timer serves the deadlines of the attempt and of the call, and neither is ever missed for it.
#![cfg(not(loom))]
#![allow(clippy::unwrap_used, reason = "the helpers of tests are tests too")]

#[path = "support/says.rs"]
mod says;
mod support;

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use says::{Dependency, Says, exceeded};
use support::{Script, Step};
use tokio::task::JoinHandle;
use tokio_test::{assert_pending, task};
use tower::{BoxError, Layer, Service, ServiceExt, service_fn};
use tower_composure::retry::Release;
use tower_composure::stack::{KeyLayer, NoKey, StackBuilder};
use tower_composure::{Backoff, DeadlineLayer, Effect, Stack, Verdict};

const MS: Duration = Duration::from_millis(1);

/// The first attempt ends at 300 ms, and the call in the second one, at 500 ms.
fn builder() -> StackBuilder<Says> {
    Stack::builder(Says(Effect::Read))
        .backoff(Backoff::none())
        .attempt_deadline(300 * MS)
        .call_deadline(500 * MS)
}

fn hanging() -> Dependency {
    Script::new([Step::Hang])
}

#[tokio::test(start_paused = true)]
async fn a_call_that_moves_to_another_task_ends_in_time() {
    // Polled by one task before the attempt's deadline, after it, or both, and by another one from then on.
    for polled_at in [[0, 0], [0, 299], [0, 300], [0, 499]] {
        let script = hanging();
        let service = builder().build().unwrap().layer(script.clone());
        let mut call = task::spawn(service.oneshot(1));
        let mut now = 0;
        for at in polled_at {
            tokio::time::advance((at - now) * MS).await;
            assert_pending!(call.poll());
            now = at;
        }
        let error = tokio::spawn(call.into_inner()).await.unwrap().unwrap_err();
        assert!(exceeded(&error).is_call());
        assert_eq!(script.age(), 500 * MS, "polled at {polled_at:?}");
        assert_eq!(script.in_flight(), 0);
    }
}

/// A key layer that polls what is below it once, and leaves the rest to a task of its own.
#[derive(Clone)]
struct Leaving<S>(S);

#[derive(Clone)]
struct LeavingLayer;

impl KeyLayer for LeavingLayer {}

impl<S> Layer<S> for LeavingLayer {
    type Service = Leaving<S>;

    fn layer(&self, inner: S) -> Leaving<S> {
        Leaving(inner)
    }
}

enum Left<F: Future> {
    Here(Option<Pin<Box<F>>>),
    There(JoinHandle<F::Output>),
}

impl<F: Future<Output: Send> + Send + 'static> Future for Left<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        if let Self::Here(future) = &mut *self {
            let mut future = future.take().unwrap();
            if let Poll::Ready(output) = future.as_mut().poll(cx) {
                return Poll::Ready(output);
            }
            *self = Self::There(tokio::spawn(future));
        }
        let Self::There(task) = &mut *self else {
            unreachable!("it has just been left");
        };
        Poll::Ready(ready!(Pin::new(task).poll(cx)).unwrap())
    }
}

impl<S, Req> Service<Req> for Leaving<S>
where
    S: Service<Req, Response: Send, Error: Send, Future: Send + 'static>,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = Left<S::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.0.poll_ready(cx)
    }

    fn call(&mut self, request: Req) -> Self::Future {
        Left::Here(Some(Box::pin(self.0.call(request))))
    }
}

#[tokio::test(start_paused = true)]
async fn a_timer_that_wakes_another_task_is_not_leant_on() {
    assert!(NoKey.is_transparent() && !LeavingLayer.is_transparent());
    #[cfg(feature = "http")]
    assert!(tower_composure::IdempotencyKeyLayer::new().is_transparent());
    let script = hanging();
    let stack = builder().idempotency_key(LeavingLayer).build().unwrap();
    let call = stack.layer(script.clone()).oneshot(1);
    let error = call.await.unwrap_err();
    assert!(exceeded(&error).is_call());
    assert_eq!(script.age(), 500 * MS);
}

/// Never ends, and has a call below a deadline under way that wakes nobody: its timer is not one to lean on.
struct Elsewhere(Pin<Box<dyn Future<Output = Result<(), BoxError>> + Send>>);

impl Elsewhere {
    fn new() -> Self {
        let hanging = service_fn(|()| std::future::pending::<Result<(), BoxError>>());
        Self(Box::pin(
            DeadlineLayer::attempt(250 * MS).layer(hanging).oneshot(()),
        ))
    }
}

impl Future for Elsewhere {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        let mut cx = Context::from_waker(Waker::noop());
        let _ = self.0.as_mut().poll(&mut cx);
        Poll::Pending
    }
}

struct ReleasedElsewhere;

impl Release<Verdict> for ReleasedElsewhere {
    type Future = Elsewhere;

    fn release(&self, _: Verdict) -> Option<Elsewhere> {
        Some(Elsewhere::new())
    }
}

#[tokio::test(start_paused = true)]
async fn the_timer_of_what_runs_between_attempts_is_not_leant_on() {
    let failing = Step::Ok(Verdict::REFUSED).after(200 * MS);
    let script: Dependency = Script::new([failing, Step::Hang]);
    let stack = builder().release(ReleasedElsewhere).build().unwrap();
    let error = stack.layer(script.clone()).oneshot(1).await.unwrap_err();
    assert!(exceeded(&error).is_call());
    assert_eq!(script.age(), 500 * MS);
    assert_eq!(script.calls(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_timer_below_the_attempt_is_not_leant_on() {
    let elsewhere = service_fn(|()| async {
        Elsewhere::new().await;
        Ok::<_, BoxError>(())
    });
    let clock = hanging();
    // The attempt ends with the call, and leaves that to it.
    let stack = Stack::builder(Effect::Read)
        .attempt_deadline(500 * MS)
        .call_deadline(500 * MS);
    let call = stack.build().unwrap().layer(elsewhere).oneshot(());
    let error = call.await.unwrap_err();
    assert!(exceeded(&error).is_call());
    assert_eq!(clock.age(), 500 * MS);
}
