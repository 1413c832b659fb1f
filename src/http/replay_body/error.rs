use std::error::Error;
use std::fmt;

use crate::see;

/// A body that could not be sent whole, and so was not sent to its end. What a [`ReplayBody`](super::ReplayBody) ends
/// with instead of ending early.
///
/// ```
/// use tower_composure::BoxError;
/// use tower_composure::http::replay_body::ReplayBodyError;
///
/// /// Not worth a line in the log: a newer attempt has taken over.
/// fn is_expected(error: &BoxError) -> bool {
///     ReplayBodyError::find(&**error).is_some_and(ReplayBodyError::is_superseded)
/// }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReplayBodyError {
    superseded: bool,
}

impl ReplayBodyError {
    /// More than the bound has passed, or the stream has failed.
    pub(super) const LOST: Self = Self { superseded: false };

    /// A newer attempt reads the stream.
    pub(super) const SUPERSEDED: Self = Self { superseded: true };

    /// Whether a newer attempt has taken the stream over. Otherwise a part of it is lost: more than the bound had
    /// passed, or the stream had failed.
    ///
    /// ```
    /// use tower_composure::http::replay_body::ReplayBodyError;
    ///
    /// fn reason(error: &ReplayBodyError) -> &'static str {
    ///     if error.is_superseded() { "a newer attempt" } else { "a part is lost" }
    /// }
    /// ```
    pub const fn is_superseded(&self) -> bool {
        self.superseded
    }

    /// Finds it in an error or its sources, under any number of boxes.
    ///
    /// ```
    /// use tower_composure::http::replay_body::ReplayBodyError;
    ///
    /// assert!(ReplayBodyError::find(&std::io::Error::other("reset")).is_none());
    /// ```
    pub fn find<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a Self> {
        see::find(error)
    }
}

impl fmt::Display for ReplayBodyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.superseded {
            "a newer attempt has taken over the request body"
        } else {
            "a part of the request body is lost"
        })
    }
}

impl Error for ReplayBodyError {}
