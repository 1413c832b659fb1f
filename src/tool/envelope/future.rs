use std::convert::Infallible;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use pin_project_lite::pin_project;

use super::ending::{Ending, How, Settings};
use super::layer::Config;
use crate::attempt::Attempt;
use crate::circuit_breaker::BreakerOpen;
use crate::deadline::DeadlineExceeded;
use crate::policy::Policy;
use crate::tool::shape::Reading;
use crate::tool::{ToolCall, ToolPolicy, ToolResponse};
use crate::{context, see};

pin_project! {
    /// The future of an [`EnvelopeService`](super::EnvelopeService).
    ///
    /// Dropping it drops the inner future.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)] async fn main() -> Result<(), tower_composure::BoxError> {
    /// use serde_json::json;
    /// use tower::{Layer, Service, ServiceExt};
    /// use tower_composure::tool::envelope::EnvelopeFuture;
    /// use tower_composure::tool::{EnvelopeLayer, ToolCall, tool_fn};
    /// use tower_composure::{BoxError, ToolPolicy};
    ///
    /// let tool = tool_fn(|_: ToolCall| async { Ok::<_, BoxError>(json!({"status": "ok"})) });
    /// let mut service = EnvelopeLayer::new(ToolPolicy::new()).layer(tool);
    /// let future: EnvelopeFuture<_, _, _> = service.ready().await?.call(ToolCall::new("charge"));
    /// assert_eq!(future.await?["status"], "ok");
    /// # Ok(()) }
    /// ```
    #[must_use = "futures do nothing unless polled"]
    pub struct EnvelopeFuture<Fut, E, F> {
        #[pin]
        state: State<Fut, E>,
        config: Arc<Config<F>>,
        attempt: Attempt,
        check_with: Option<Arc<str>>,
    }
}

pin_project! {
    #[project = StateProj]
    enum State<Fut, E> {
        // Polling the inner future.
        Called {
            #[pin]
            inner: Fut,
        },
        // The inner service failed to become ready; it was not called.
        Unready { error: Option<E> },
    }
}

impl<Fut, E, F> EnvelopeFuture<Fut, E, F> {
    pub(super) const fn called(
        inner: Fut,
        config: Arc<Config<F>>,
        attempt: Attempt,
        check_with: Option<Arc<str>>,
    ) -> Self {
        Self {
            state: State::Called { inner },
            config,
            attempt,
            check_with,
        }
    }

    pub(super) const fn unready(
        error: E,
        config: Arc<Config<F>>,
        attempt: Attempt,
        check_with: Option<Arc<str>>,
    ) -> Self {
        Self {
            state: State::Unready { error: Some(error) },
            config,
            attempt,
            check_with,
        }
    }
}

impl<Fut, E, F> Future for EnvelopeFuture<Fut, E, F>
where
    Fut: Future<Output = Result<ToolResponse, E>>,
    E: 'static,
    ToolPolicy<F>: Policy<ToolCall, ToolResponse, E>,
{
    type Output = Result<ToolResponse, Infallible>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let (outcome, called) = match this.state.project() {
            StateProj::Called { inner } => {
                context::clear_signals();
                (ready!(inner.poll(cx)), true)
            }
            StateProj::Unready { error } => match error.take() {
                Some(error) => {
                    context::clear_signals();
                    (Err(error), false)
                }
                None => return Poll::Pending,
            },
        };
        let attempt = context::published_attempt().unwrap_or(*this.attempt);
        let told = told(
            this.config,
            attempt,
            outcome,
            called,
            this.check_with.as_ref(),
        );
        Poll::Ready(Ok(told))
    }
}

/// A success as it is, and an envelope for everything else.
fn told<E: 'static, F>(
    config: &Config<F>,
    attempt: Attempt,
    outcome: Result<ToolResponse, E>,
    called: bool,
    check_with: Option<&Arc<str>>,
) -> ToolResponse
where
    ToolPolicy<F>: Policy<ToolCall, ToolResponse, E>,
{
    let verdict = config.policy.classify(&attempt, outcome.as_ref());
    let outcome = match outcome {
        Ok(map) if verdict.is_success() => return map,
        outcome => outcome,
    };
    let how = match &outcome {
        Ok(map) if config.policy.read(map) == Reading::Handled => How::Handled,
        Ok(map) => How::of_map(&config.policy, map),
        Err(_) if !called => How::NotReady,
        Err(error) => of_error(error),
    };
    let ending = Ending {
        how,
        verdict,
        effect: attempt.effect(),
        report: context::published(),
    };
    if let (Ok(map), false) = (&outcome, ending.needs_envelope()) {
        return map.clone();
    }
    let settings = Settings {
        retry_after: config.retry_after,
        check_with,
    };
    ending.envelope(&config.policy, &settings)
}

/// What the type of an error says.
fn of_error<E: 'static>(error: &E) -> How<'_> {
    let Some(error) = see::error(error) else {
        return How::Error;
    };
    if let Some(open) = BreakerOpen::find(error) {
        How::BreakerOpen(open.remaining())
    } else if let Some(exceeded) = DeadlineExceeded::find(error) {
        How::Deadline {
            called: !exceeded.is_before_call(),
        }
    } else {
        How::Error
    }
}

impl<Fut, E, F> fmt::Debug for EnvelopeFuture<Fut, E, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EnvelopeFuture").finish_non_exhaustive()
    }
}
