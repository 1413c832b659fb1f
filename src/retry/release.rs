use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

/// Lets go of a response that a retry replaces.
///
/// The retry calls it when the retry has been decided, before the wait, so that whatever the response holds, a
/// connection or a permit, is free for the attempt that follows. What it returns runs inside the wait, which does not
/// grow by it: where it takes longer than the wait, the attempt follows as soon as it is over. Nothing bounds it but
/// itself and the call's deadline, so a strategy has a bound of its own.
///
/// It is called, and its future polled, with the call's context in scope. Dropping that future must let go of the
/// response. A losing error is dropped; the last outcome of a call goes to the caller untouched.
///
/// A strategy that tells a session of its own that its answer will not be read:
///
/// ```
/// use tower_composure::retry::Release;
/// use tower_composure::{Effect, RetryLayer};
///
/// struct Answer { session: Session }
/// struct Session;
///
/// impl Session {
///     async fn close(self) {}
/// }
///
/// struct CloseSession;
///
/// impl Release<Answer> for CloseSession {
///     type Future = std::pin::Pin<Box<dyn Future<Output = ()> + Send>>;
///
///     fn release(&self, answer: Answer) -> Option<Self::Future> {
///         Some(Box::pin(answer.session.close()))
///     }
/// }
///
/// let layer = RetryLayer::builder(Effect::Read).release(CloseSession).build()?;
/// # let _ = layer;
/// # Ok::<(), tower_composure::ConfigError>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot release responses of type `{Res}`",
    label = "a retry cannot let go of these responses with it",
    note = "`DropResponse` releases any response, `http::DrainBody` an `http::Response` with a body"
)]
pub trait Release<Res> {
    /// Completes when the response has been let go of.
    type Future: Future<Output = ()>;

    /// Takes the response. `None` where there is nothing to wait for.
    ///
    /// ```
    /// use tower_composure::retry::{DropResponse, Release};
    ///
    /// assert!(DropResponse.release("an answer").is_none());
    /// ```
    fn release(&self, response: Res) -> Option<Self::Future>;
}

/// Drops a losing response. The default.
///
/// ```
/// use tower_composure::retry::{DropResponse, Release};
///
/// assert!(DropResponse.release("an answer").is_none()); // nothing to wait for
/// ```
#[derive(Debug, Clone, Copy, Default)]
pub struct DropResponse;

impl<Res> Release<Res> for DropResponse {
    type Future = NothingToWaitFor;

    #[inline]
    fn release(&self, response: Res) -> Option<NothingToWaitFor> {
        drop(response);
        None
    }
}

/// The future of [`DropResponse`]. There is none, and no call has room for one.
///
/// ```
/// use tower_composure::retry::{DropResponse, NothingToWaitFor, Release};
///
/// let future: Option<NothingToWaitFor> = DropResponse.release("an answer");
/// assert_eq!((future.is_none(), size_of_val(&future)), (true, 0));
/// ```
#[derive(Debug)]
pub enum NothingToWaitFor {}

impl Future for NothingToWaitFor {
    type Output = ();

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        match *self {}
    }
}
