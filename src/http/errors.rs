//! What the errors of HTTP clients say.

use std::error::Error;

use hyper_util::client::legacy;

use crate::policy::recognise;
use crate::see;
use crate::verdict::Verdict;

/// The verdict on an error, by the types in its chain; what nobody recognises is `Unknown`.
pub(super) fn verdict(error: &(dyn Error + 'static)) -> Verdict {
    let mut connecting = false;
    for link in see::chain(error) {
        if let Some(verdict) = recognise(link) {
            return verdict;
        }
        connecting |= link
            .downcast_ref::<legacy::Error>()
            .is_some_and(legacy::Error::is_connect);
    }
    if connecting {
        // Nothing was sent.
        Verdict::REFUSED
    } else {
        Verdict::UNKNOWN
    }
}
