use std::fmt;

/// Makes a copy of a request before it is sent, for the attempt that may follow.
///
/// Only a retry asks this, so a breaker or a deadline over a request that cannot be copied needs nothing. Where it
/// returns `None` the call makes one attempt, and a failure is reported with
/// [`StopReason::NotReplayable`](crate::StopReason::NotReplayable).
///
/// ```
/// use tower_composure::retry::Replay;
/// use tower_composure::{Effect, RetryLayer};
///
/// struct Upload { bytes: Vec<u8> }
///
/// struct UpTo(usize);
///
/// impl Replay<Upload> for UpTo {
///     fn replay(&self, upload: &Upload) -> Option<Upload> {
///         (upload.bytes.len() <= self.0).then(|| Upload { bytes: upload.bytes.clone() })
///     }
/// }
///
/// let layer = RetryLayer::builder(Effect::IdempotentWrite).replay(UpTo(64 * 1024)).build()?;
/// # let _ = layer;
/// # Ok::<(), tower_composure::ConfigError>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot copy requests of type `{Req}` for a retry",
    label = "a retry over this service cannot send such a request again",
    note = "`CloneRequest`, the default, needs `{Req}: Clone`; give another strategy to `RetryLayerBuilder::replay` or `StackBuilder::replay`",
    note = "for streamed bodies there are `http::ReplayRequest` and its layer, for `reqwest::Request` `http::reqwest::TryCloneRequest`, for a closure `retry::replay_fn`"
)]
pub trait Replay<Req> {
    /// A copy that is the same as the request in everything, or nothing.
    ///
    /// ```
    /// use tower_composure::retry::{Replay, replay_fn};
    ///
    /// let small_ones = replay_fn(|request: &String| (request.len() < 1024).then(|| request.clone()));
    /// assert!(small_ones.replay(&"x".repeat(2000)).is_none());
    /// ```
    fn replay(&self, request: &Req) -> Option<Req>;

    /// Whether the copy can still be sent. Asked when a retry is decided, because what is read while it is sent, a
    /// streamed body, is not known before. Default yes.
    ///
    /// Where it says no, the call ends with its last outcome and
    /// [`StopReason::NotReplayable`](crate::StopReason::NotReplayable).
    ///
    /// ```
    /// use tower_composure::retry::{CloneRequest, Replay};
    ///
    /// assert!(CloneRequest.is_replayable(&"a request"));
    /// ```
    fn is_replayable(&self, copy: &Req) -> bool {
        let _ = copy;
        true
    }
}

/// Copies a request with `Clone`. The default.
///
/// ```
/// use tower_composure::retry::{CloneRequest, Replay};
///
/// assert_eq!(CloneRequest.replay(&"a request"), Some("a request"));
/// ```
#[derive(Debug, Clone, Copy, Default)]
pub struct CloneRequest;

// So that the message above is shown, and not one about `Clone`.
#[diagnostic::do_not_recommend]
impl<Req: Clone> Replay<Req> for CloneRequest {
    fn replay(&self, request: &Req) -> Option<Req> {
        Some(request.clone())
    }
}

/// A replay strategy from a closure.
///
/// ```
/// use tower_composure::{Effect, RetryLayer, retry::replay_fn};
///
/// struct Upload { bytes: Vec<u8> }
///
/// let layer = RetryLayer::builder(Effect::IdempotentWrite)
///     .replay(replay_fn(|upload: &Upload| {
///         (upload.bytes.len() <= 64 * 1024).then(|| Upload { bytes: upload.bytes.clone() })
///     }))
///     .build()?;
/// # let _ = layer;
/// # Ok::<(), tower_composure::ConfigError>(())
/// ```
pub fn replay_fn<Req, F>(copy: F) -> ReplayFn<F>
where
    F: Fn(&Req) -> Option<Req>,
{
    ReplayFn { copy }
}

/// A replay strategy from a closure. Made by [`replay_fn`].
///
/// ```
/// use tower_composure::retry::{ReplayFn, replay_fn};
/// use tower_composure::{Effect, RetryLayer};
///
/// let copy: ReplayFn<_> = replay_fn(|request: &String| Some(request.clone()));
/// let layer = RetryLayer::builder(Effect::Read).replay(copy).build()?;
/// # Ok::<(), tower_composure::BoxError>(())
/// ```
#[derive(Clone, Copy)]
pub struct ReplayFn<F> {
    copy: F,
}

impl<Req, F> Replay<Req> for ReplayFn<F>
where
    F: Fn(&Req) -> Option<Req>,
{
    fn replay(&self, request: &Req) -> Option<Req> {
        (self.copy)(request)
    }
}

impl<F> fmt::Debug for ReplayFn<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReplayFn").finish_non_exhaustive()
    }
}
