use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use ::http::header::CONNECTION;
use ::http::{HeaderMap, Response};
use bytes::Buf;
use http_body::Body;
use pin_project_lite::pin_project;
use tokio::time::{Sleep, sleep};

use crate::deadline::Deadline;
use crate::retry::Release;

/// Reads the body of a losing response to its end, within bounds, so that its connection serves the next attempt.
///
/// An HTTP/1 connection carries one response after the other (RFC 9112 §9.3): one that is dropped with its body unread
/// is closed, and the attempt that follows pays for a new one, with its handshakes, at the moment in which the server
/// can afford it least. Given to [`RetryLayerBuilder::release`](crate::retry::RetryLayerBuilder::release) or
/// [`StackBuilder::release`](crate::stack::StackBuilder::release), it reads what is left of the body while the retry
/// waits.
///
/// The wait does not grow by it. Where the body takes longer than the wait, the attempt follows as soon as the body has
/// ended or a bound is reached; the body is dropped then, and its connection with it.
///
/// - [`max_bytes`](Self::max_bytes): 64 KiB. A body that announces more is dropped at once.
/// - [`max_time`](Self::max_time): 100 ms, and never more than half of what is left before the call's deadline. The
///   timer is made only when the body makes it wait.
///
/// A response that says `connection: close` is dropped at once. An error of the body ends the drain and goes nowhere,
/// since nobody asked for this body. The drain is of no use where the connection cannot be used again, but does no harm
/// there: over HTTP/2, it ends the stream without a reset.
///
/// A client takes a connection back in a task of its own. With a backoff of zero the next attempt may come before that.
///
/// Dropping the call drops the body.
///
/// ```
/// use std::time::Duration;
/// use tower_composure::{HttpPolicy, RetryLayer, http::DrainBody};
///
/// let layer = RetryLayer::builder(HttpPolicy::new())
///     .release(DrainBody::new().max_time(Duration::from_millis(50)))
///     .build()?;
/// # let _ = layer;
/// # Ok::<(), tower_composure::ConfigError>(())
/// ```
#[derive(Debug, Clone, Copy)]
pub struct DrainBody {
    max_bytes: usize,
    max_time: Duration,
}

impl DrainBody {
    /// Up to 64 KiB and 100 ms.
    ///
    /// ```
    /// use tower_composure::http::DrainBody;
    /// use tower_composure::{HttpPolicy, Stack};
    ///
    /// let stack = Stack::builder(HttpPolicy::new()).release(DrainBody::new()).build()?;
    /// # Ok::<(), tower_composure::BoxError>(())
    /// ```
    pub const fn new() -> Self {
        Self {
            max_bytes: 64 * 1024,
            max_time: Duration::from_millis(100),
        }
    }

    /// The most bytes that are read. Default 64 KiB; with 0, only a body that turns out empty is read to its end.
    ///
    /// ```
    /// use tower_composure::http::DrainBody;
    ///
    /// let drain = DrainBody::new().max_bytes(8 * 1024);
    /// ```
    #[must_use]
    pub const fn max_bytes(mut self, bytes: usize) -> Self {
        self.max_bytes = bytes;
        self
    }

    /// The most time that is spent. Default 100 ms; with zero, only what the body gives in one poll. `Duration::MAX`
    /// is no bound but the call's deadline.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tower_composure::http::DrainBody;
    ///
    /// let drain = DrainBody::new().max_time(Duration::from_millis(20));
    /// ```
    #[must_use]
    pub const fn max_time(mut self, time: Duration) -> Self {
        self.max_time = time;
        self
    }
}

impl Default for DrainBody {
    fn default() -> Self {
        Self::new()
    }
}

impl<B: Body> Release<Response<B>> for DrainBody {
    type Future = Draining<B>;

    fn release(&self, response: Response<B>) -> Option<Draining<B>> {
        let (parts, body) = response.into_parts();
        let announced = usize::try_from(body.size_hint().lower()).unwrap_or(usize::MAX);
        if body.is_end_stream() || announced > self.max_bytes || is_closing(&parts.headers) {
            return None;
        }
        // What is left is for the attempt too.
        let left = Deadline::current().and_then(|deadline| deadline.remaining().checked_div(2));
        Some(Draining {
            body,
            bytes_left: self.max_bytes,
            time: self.max_time.min(left.unwrap_or(Duration::MAX)),
            timer: None,
        })
    }
}

/// Whether the server closes the connection after this response (RFC 9112 §9.6).
fn is_closing(headers: &HeaderMap) -> bool {
    for value in headers.get_all(CONNECTION) {
        let text = value.to_str().unwrap_or_default();
        for option in text.as_bytes().split(|byte| *byte == b',') {
            if option.trim_ascii().eq_ignore_ascii_case(b"close") {
                return true;
            }
        }
    }
    false
}

pin_project! {
    /// The future of a [`DrainBody`]. Dropping it drops the body.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)] async fn main() -> Result<(), tower_composure::BoxError> {
    /// use http::Response;
    /// use http_body_util::StreamBody;
    /// use tower_composure::http::{DrainBody, Draining};
    /// use tower_composure::retry::Release;
    ///
    /// // Nothing to wait for where the body is empty.
    /// let response = Response::new(http_body_util::Empty::<&'static [u8]>::new());
    /// let draining: Option<Draining<_>> = DrainBody::new().release(response);
    /// if let Some(draining) = draining {
    ///     draining.await;
    /// }
    /// # Ok(()) }
    /// ```
    #[must_use = "futures do nothing unless polled"]
    pub struct Draining<B> {
        #[pin]
        body: B,
        bytes_left: usize,
        time: Duration,
        timer: Option<Pin<Box<Sleep>>>,
    }
}

/// A body that is always ready would hold its thread, and an empty frame counts against no bound in bytes: after this
/// many frames in one poll, others have their turn.
const FRAMES_A_POLL: u32 = 64;

impl<B: Body> Future for Draining<B> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let mut this = self.project();
        for _ in 0..FRAMES_A_POLL {
            let frame = match this.body.as_mut().poll_frame(cx) {
                Poll::Ready(Some(Ok(frame))) => frame,
                Poll::Ready(Some(Err(_)) | None) => return Poll::Ready(()),
                Poll::Pending => return poll_timer(*this.time, this.timer, cx),
            };
            let read = frame.data_ref().map_or(0, Buf::remaining);
            match this.bytes_left.checked_sub(read) {
                Some(left) => *this.bytes_left = left,
                None => return Poll::Ready(()),
            }
        }
        cx.waker().wake_by_ref();
        poll_timer(*this.time, this.timer, cx)
    }
}

/// The half that does not depend on the body, kept apart so that it is compiled once.
fn poll_timer(
    time: Duration,
    timer: &mut Option<Pin<Box<Sleep>>>,
    cx: &mut Context<'_>,
) -> Poll<()> {
    if time.is_zero() {
        return Poll::Ready(());
    }
    timer
        .get_or_insert_with(|| Box::pin(sleep(time)))
        .as_mut()
        .poll(cx)
}

impl<B> fmt::Debug for Draining<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Draining").finish_non_exhaustive()
    }
}
