//! What can be sent, shared, moved and cloned, and that nothing is asked for that is not needed.
#![cfg(not(loom))]

use std::cell::Cell;
use std::marker::PhantomData;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use static_assertions::assert_impl_all;
use tower::util::BoxCloneService;
use tower::{Layer, Service, ServiceExt};
use tower_composure::budget::{BudgetFuture, BudgetService, Withdrawal};
use tower_composure::circuit_breaker::{
    CircuitBreakerFuture, CircuitBreakerService, CircuitMetrics, Transition,
};
use tower_composure::context::{Keyed, Reported, Scoped};
use tower_composure::deadline::{DeadlineFuture, DeadlineService};
use tower_composure::retry::{
    CloneRequest, DropResponse, NothingToWaitFor, RetryFuture, RetryService,
};
use tower_composure::stack::{GuardedFuture, NoKey, StackService};
use tower_composure::{
    Attempt, BoxError, BreakerOpen, Budget, BudgetLayer, CallContext, CallReport, CircuitBreaker,
    CircuitBreakerLayer, ConfigError, Deadline, DeadlineExceeded, DeadlineLayer, Effect, Hint,
    IdempotencyKey, RetryLayer, RetrySwitch, Stack, StopReason, Verdict,
};

type Ready = std::future::Ready<Result<u32, BoxError>>;

/// A service that is everything.
#[derive(Clone, Copy)]
struct Plain;

impl Service<u32> for Plain {
    type Response = u32;
    type Error = BoxError;
    type Future = Ready;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, number: u32) -> Ready {
        std::future::ready(Ok(number))
    }
}

// Layers and handles.
assert_impl_all!(RetryLayer<Effect>: Send, Sync, Unpin, Clone);
assert_impl_all!(BudgetLayer: Send, Sync, Unpin, Clone);
assert_impl_all!(DeadlineLayer: Send, Sync, Unpin, Clone);
assert_impl_all!(CircuitBreakerLayer<Effect>: Send, Sync, Unpin, Clone);
assert_impl_all!(Stack<Effect>: Send, Sync, Unpin, Clone);
assert_impl_all!(Budget: Send, Sync, Unpin, Clone);
assert_impl_all!(CircuitBreaker: Send, Sync, Unpin, Clone);
assert_impl_all!(RetrySwitch: Send, Sync, Unpin, Clone);
assert_impl_all!(CallContext: Send, Sync, Unpin, Clone);
assert_impl_all!(IdempotencyKey: Send, Sync, Unpin, Clone);
assert_impl_all!(Withdrawal: Send, Sync, Unpin);
#[cfg(feature = "http")]
const _: () = {
    use tower_composure::http::{Dialect, Refined};
    type Refine = fn(&http::Response<()>, Verdict) -> Verdict;
    assert_impl_all!(tower_composure::HttpPolicy: Send, Sync, Unpin, Clone);
    assert_impl_all!(Refined<Refine>: Send, Sync, Unpin, Clone);
    assert_impl_all!(Dialect: Send, Sync, Unpin, Clone);
};

#[cfg(feature = "metrics")]
assert_impl_all!(tower_composure::MetricsObserver: Send, Sync, Unpin);
#[cfg(feature = "tracing")]
assert_impl_all!(tower_composure::TracingObserver: Send, Sync, Unpin, Copy);

// Values and errors.
assert_impl_all!(Attempt: Send, Sync, Unpin, Copy);
assert_impl_all!(Effect: Send, Sync, Unpin, Copy);
assert_impl_all!(Verdict: Send, Sync, Unpin, Copy);
assert_impl_all!(Hint: Send, Sync, Unpin, Copy);
assert_impl_all!(Deadline: Send, Sync, Unpin, Copy);
assert_impl_all!(CallReport: Send, Sync, Unpin, Copy);
assert_impl_all!(StopReason: Send, Sync, Unpin, Copy);
assert_impl_all!(CircuitMetrics: Send, Sync, Unpin, Copy);
assert_impl_all!(Transition: Send, Sync, Unpin, Copy);
assert_impl_all!(ConfigError: Send, Sync, Unpin, std::error::Error);
assert_impl_all!(BreakerOpen: Send, Sync, Unpin, std::error::Error);
assert_impl_all!(DeadlineExceeded: Send, Sync, Unpin, std::error::Error);

// Services and futures are what the inner ones are.
assert_impl_all!(RetryService<Plain, Effect, CloneRequest>: Send, Sync, Unpin, Clone);
assert_impl_all!(BudgetService<Plain>: Send, Sync, Unpin, Clone);
assert_impl_all!(DeadlineService<Plain>: Send, Sync, Unpin, Clone);
assert_impl_all!(CircuitBreakerService<Plain, Effect>: Send, Sync, Unpin, Clone);
assert_impl_all!(StackService<Plain, Effect, NoKey>: Send, Sync, Unpin, Clone);
assert_impl_all!(RetryFuture<Plain, Effect, CloneRequest, u32>: Send, Sync, Unpin);
assert_impl_all!(BudgetFuture<Ready>: Send, Sync, Unpin);
assert_impl_all!(DeadlineFuture<Ready>: Send, Sync, Unpin);
assert_impl_all!(GuardedFuture<Ready, Effect, u32>: Send, Sync, Unpin);
assert_impl_all!(CircuitBreakerFuture<Ready, Effect, u32>: Send, Sync, Unpin);
assert_impl_all!(Scoped<Ready>: Send, Sync, Unpin);
assert_impl_all!(Keyed<Ready>: Send, Sync, Unpin);
assert_impl_all!(Reported<Ready>: Send, Sync, Unpin);
assert_impl_all!(DropResponse: Send, Sync, Unpin, Copy);
assert_impl_all!(NothingToWaitFor: Send, Sync, Unpin);

/// The bodies: what is sent, shared and moved of them depends on the body they wrap as little as can be.
#[cfg(feature = "http")]
mod bodies {
    use std::io;
    use std::marker::PhantomPinned;

    use bytes::Bytes;
    use http::{Request, Response};
    use http_body::{Body, Frame};
    use http_body_util::Full;
    use http_body_util::combinators::UnsyncBoxBody;
    use static_assertions::{assert_impl_all, assert_not_impl_any};
    use tower_composure::http::collect_body::{CollectBodyFuture, CollectBodyService};
    use tower_composure::http::replay_body::{ReplayBodyError, ReplayBodyService};
    use tower_composure::http::{
        CollectBodyLayer, CollectedBody, DrainBody, Draining, ReplayBody, ReplayBodyLayer,
        ReplayRequest,
    };
    use tower_composure::retry::{RetryFuture, RetryService};
    use tower_composure::stack::{NoKey, StackService};
    use tower_composure::{BoxError, HttpPolicy};

    type Unsync = UnsyncBoxBody<Bytes, io::Error>;
    type Client = tower::util::BoxCloneService<
        Request<ReplayBody<Unsync>>,
        Response<CollectedBody<Unsync>>,
        BoxError,
    >;

    assert_impl_all!(ReplayBodyLayer: Send, Sync, Unpin, Copy);
    assert_impl_all!(ReplayBodyService<u32>: Send, Sync, Unpin, Clone);
    assert_impl_all!(ReplayRequest: Send, Sync, Unpin, Copy);
    assert_impl_all!(ReplayBodyError: Send, Sync, Unpin, std::error::Error);
    assert_impl_all!(CollectBodyLayer: Send, Sync, Unpin, Clone);
    assert_impl_all!(CollectBodyService<u32>: Send, Sync, Unpin, Clone);
    assert_impl_all!(DrainBody: Send, Sync, Unpin, Copy);

    // A retry that clones could not see that the body is lost.
    assert_not_impl_any!(ReplayBody<Full<Bytes>>: Clone);
    assert_impl_all!(ReplayBody<Unsync>: Send, Unpin, Body);
    assert_impl_all!(ReplayBody<Full<Bytes>>: Send, Sync, Unpin, Body);
    assert_impl_all!(CollectedBody<Unsync>: Send, Unpin, Body);
    assert_impl_all!(CollectedBody<Full<Bytes>>: Send, Sync, Unpin, Body);
    assert_impl_all!(Draining<Unsync>: Send, Unpin);
    assert_impl_all!(CollectBodyFuture<super::Ready, Unsync>: Send, Unpin);
    assert_impl_all!(RetryService<Client, HttpPolicy, ReplayRequest, DrainBody>: Send, Clone);
    assert_impl_all!(
        RetryFuture<Client, HttpPolicy, ReplayRequest, Request<ReplayBody<Unsync>>, DrainBody>: Send
    );
    assert_impl_all!(StackService<Client, HttpPolicy, NoKey, ReplayRequest, DrainBody>: Send, Clone);

    /// A body that is bound to its place and its thread.
    struct Bound(
        #[expect(dead_code, reason = "for its traits")] *const u8,
        PhantomPinned,
    );

    impl Body for Bound {
        type Data = Bytes;
        type Error = io::Error;

        fn poll_frame(
            self: std::pin::Pin<&mut Self>,
            _: &mut std::task::Context<'_>,
        ) -> std::task::Poll<Option<Result<Frame<Bytes>, io::Error>>> {
            std::task::Poll::Ready(None)
        }
    }

    assert_impl_all!(ReplayBody<Bound>: Unpin, Body);
    assert_impl_all!(CollectedBody<Bound>: Body);
    assert_impl_all!(Draining<Bound>: Future);
}

/// A request that is neither `Clone` nor `Sync`.
struct Stream(PhantomData<Cell<u8>>);

fn stream() -> Stream {
    Stream(PhantomData)
}

/// What a router asks of a service.
fn shared<T: Send + Sync + Clone + 'static>(service: T) -> T {
    service
}

/// What does not replay asks for no copy of the request, and carries no trait of it around.
#[tokio::test]
async fn case_076_layers_that_do_not_replay_take_any_request() {
    let service = tower::service_fn(|_: Stream| async { Ok::<_, BoxError>(1) });
    let service = CircuitBreakerLayer::new(CircuitBreaker::default(), Effect::Write).layer(
        DeadlineLayer::call(Duration::from_secs(1)).layer(BudgetLayer::default().layer(service)),
    );
    let boxed = BoxCloneService::new(shared(service));
    assert_eq!(boxed.oneshot(stream()).await.unwrap(), 1);
}

/// A service that is bound to its thread, as is its future.
#[derive(Clone)]
struct Local(Rc<Cell<u32>>);

impl Service<u32> for Local {
    type Response = u32;
    type Error = BoxError;
    type Future = std::pin::Pin<Box<dyn Future<Output = Result<u32, BoxError>>>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, number: u32) -> Self::Future {
        let count = Rc::clone(&self.0);
        Box::pin(async move {
            count.set(count.get() + number);
            Ok(count.get())
        })
    }
}

#[tokio::test]
async fn a_service_of_one_thread_can_be_wrapped() {
    let local = Local(Rc::new(Cell::new(1)));
    let service = Stack::builder(Effect::Read).build().unwrap().layer(local);
    assert_eq!(service.clone().oneshot(2).await.unwrap(), 3);
    assert_eq!(service.oneshot(2).await.unwrap(), 5);
}

#[tokio::test]
async fn a_stack_can_be_boxed() {
    let stack = Stack::builder(Effect::Read).build().unwrap();
    let boxed: BoxCloneService<u32, u32, BoxError> = BoxCloneService::new(stack.layer(Plain));
    assert_eq!(boxed.oneshot(7).await.unwrap(), 7);
}

#[cfg(feature = "tool")]
mod tool {
    use std::convert::Infallible;
    use std::future::{Pending, Ready};

    use serde_json::Value;
    use static_assertions::assert_impl_all;
    use tower::util::BoxCloneSyncService;
    use tower_composure::tool::envelope::{EnvelopeFuture, EnvelopeService};
    use tower_composure::tool::shape::{Failure, Reading};
    use tower_composure::tool::{
        EnvelopeLayer, ToolCall, ToolFn, ToolFnFuture, ToolKeyFuture, ToolKeyLayer, ToolKeyService,
        ToolMarks, ToolPolicy, ToolResponse, ToolSet, ToolSetBuilder, ToolSetFuture,
    };

    type Plain = ToolFn<fn(ToolCall) -> Ready<Result<Value, Infallible>>>;
    type Boxed = BoxCloneSyncService<ToolCall, ToolResponse, Infallible>;

    assert_impl_all!(ToolCall: Send, Sync, Unpin, Clone);
    assert_impl_all!(ToolMarks: Send, Sync, Unpin, Clone);
    assert_impl_all!(ToolPolicy: Send, Sync, Unpin, Clone);
    assert_impl_all!(ToolKeyLayer: Send, Sync, Unpin, Clone);
    assert_impl_all!(EnvelopeLayer: Send, Sync, Unpin, Clone);
    assert_impl_all!(Failure<'static>: Send, Sync, Unpin, Copy);
    assert_impl_all!(Reading<'static>: Send, Sync, Unpin, Copy);
    assert_impl_all!(Plain: Send, Sync, Unpin, Clone);
    assert_impl_all!(ToolSet<Boxed>: Send, Sync, Unpin, Clone);
    assert_impl_all!(ToolSetBuilder<Boxed>: Send, Sync, Unpin);
    assert_impl_all!(ToolKeyService<Plain>: Send, Sync, Unpin, Clone);
    assert_impl_all!(EnvelopeService<Plain, ToolMarks>: Send, Sync, Unpin, Clone);
    assert_impl_all!(ToolFnFuture<Pending<()>>: Send, Sync, Unpin);
    assert_impl_all!(ToolKeyFuture<Pending<()>>: Send, Sync, Unpin);
    assert_impl_all!(ToolSetFuture<Boxed>: Send);
    assert_impl_all!(EnvelopeFuture<Pending<()>, Infallible, ToolMarks>: Send, Sync, Unpin);

    #[cfg(feature = "http")]
    mod http {
        use super::*;
        use tower_composure::tool::HttpOperation;
        use tower_composure::tool::operation::{HttpTool, HttpToolFuture};

        assert_impl_all!(HttpOperation: Send, Sync, Unpin, Clone);
        assert_impl_all!(HttpTool<Boxed>: Send, Sync, Unpin, Clone);
        assert_impl_all!(HttpToolFuture<Pending<()>>: Send, Sync, Unpin);
    }
}
