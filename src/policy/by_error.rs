//! What the type of an error says.

use std::error::Error;
use std::io;

use super::Policy;
use crate::attempt::Attempt;
use crate::circuit_breaker::BreakerOpen;
use crate::deadline::DeadlineExceeded;
use crate::effect::Effect;
use crate::see;
use crate::verdict::Verdict;

/// A constant policy: every request has this effect, every response is a success, every error is what its type says.
impl<Req, Res, E: 'static> Policy<Req, Res, E> for Effect {
    fn effect(&self, _: &Req) -> Effect {
        *self
    }

    fn classify(&self, _: &Attempt, outcome: Result<&Res, &E>) -> Verdict {
        match outcome {
            Ok(_) => Verdict::Success,
            Err(error) => see::error(error).map_or(Verdict::UNKNOWN, verdict_of_error),
        }
    }
}

/// The verdict on an error of any protocol, by the types in its chain; what nobody recognises is `Unknown`.
fn verdict_of_error(error: &(dyn Error + 'static)) -> Verdict {
    see::chain(error)
        .find_map(recognise)
        .unwrap_or(Verdict::UNKNOWN)
}

/// What this crate knows of one link of the chain.
pub(crate) fn recognise(error: &(dyn Error + 'static)) -> Option<Verdict> {
    if error.is::<BreakerOpen>() {
        // It was not called, and calling it again will be refused again.
        return Some(Verdict::Rejected);
    }
    if let Some(exceeded) = error.downcast_ref::<DeadlineExceeded>() {
        return Some(if exceeded.is_before_call() {
            Verdict::REFUSED
        } else {
            Verdict::UNKNOWN
        });
    }
    match error.downcast_ref::<io::Error>()?.kind() {
        // Nobody listens there: the request was never sent.
        io::ErrorKind::ConnectionRefused => Some(Verdict::REFUSED),
        _ => None,
    }
}
