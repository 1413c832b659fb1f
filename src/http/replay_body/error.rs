use std::error::Error;
use std::fmt;

use crate::see;

/// A body that could not be sent whole, and so was not sent to its end. What a [`ReplayBody`](super::ReplayBody) ends
/// with instead of ending early.
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
    pub const fn is_superseded(&self) -> bool {
        self.superseded
    }

    /// Finds it in an error or its sources, under any number of boxes.
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
