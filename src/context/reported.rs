use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use pin_project_lite::pin_project;

use super::cells;
use crate::report::CallReport;

pin_project! {
    /// A call together with its report. From [`CallReport::of`].
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)] async fn main() -> Result<(), tower_composure::BoxError> {
    /// use tower_composure::CallReport;
    /// use tower_composure::context::Reported;
    ///
    /// let future: Reported<_> = CallReport::of(async { 7 });
    /// assert_eq!(future.await, (7, None)); // no retry layer ran in it
    /// # Ok(()) }
    /// ```
    #[must_use = "futures do nothing unless polled"]
    pub struct Reported<F> {
        #[pin]
        call: F,
    }
}

impl<F> Reported<F> {
    pub(crate) fn new(call: F) -> Self {
        Self { call }
    }
}

impl<F: Future> Future for Reported<F> {
    type Output = (F::Output, Option<CallReport>);

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        cells::clear_signals();
        let output = ready!(self.project().call.poll(cx));
        Poll::Ready((output, cells::published()))
    }
}

impl<F> fmt::Debug for Reported<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reported").finish_non_exhaustive()
    }
}
