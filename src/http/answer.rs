//! What a response says: its status, and the headers with which a server speaks of retries.

use std::time::Duration;

use ::http::{HeaderMap, HeaderName, Response, StatusCode};

use super::policy::Rules;
use super::retry_after;
use crate::attempt::Attempt;
use crate::verdict::{Hint, Verdict};

/// What servers call the word on whether to retry: some by the first name, Stripe by the second.
const SHOULD_RETRY: [HeaderName; 2] = [
    HeaderName::from_static("x-should-retry"),
    HeaderName::from_static("stripe-should-retry"),
];

impl Rules {
    /// Whether a response is a success, as one look at it tells: no status has a meaning of its own, and nothing is noted
    /// beside the response.
    #[inline]
    pub(super) fn is_plain_success<B>(&self, response: &Response<B>) -> bool {
        response.status().as_u16() < 400
            && self.statuses.is_empty()
            && response.extensions().is_empty()
    }

    pub(super) fn of_head(
        &self,
        attempt: Attempt,
        status: StatusCode,
        headers: &HeaderMap,
    ) -> Verdict {
        let known = self.statuses.iter().find(|(known, _)| *known == status);
        let verdict = known.map_or_else(|| of_status(status), |(_, verdict)| *verdict);
        if verdict.is_success() {
            return verdict;
        }
        let wall = || (self.wall)();
        let wait = retry_after::delay(headers, &wall);
        let retry = should_retry(headers);
        let verdict = if known.is_some() {
            verdict
        } else if (status == StatusCode::PAYLOAD_TOO_LARGE && wait.is_some())
            || (status == StatusCode::CONFLICT && self.conflict_in_progress && attempt.keyed())
        {
            Verdict::THROTTLED
        } else if retry == Some(true)
            && may_be_lifted(verdict, status)
            && attempt.effect().is_repeatable()
        {
            // The server does not say that nothing was done, so for a write it changes nothing.
            Verdict::UNKNOWN
        } else {
            verdict
        };
        if retry == Some(false) {
            return verdict.with_hint(Some(Hint::never()));
        }
        let wait = wait.or_else(|| {
            let mut longest = None;
            for dialect in &self.dialects {
                longest = longest.max(dialect.delay(verdict, headers, &wall));
            }
            longest
        });
        let once = verdict.hint().is_some_and(Hint::is_once);
        verdict.with_hint(wait.map(|wait| {
            let hint = Hint::after(wait);
            if once { hint.once() } else { hint }
        }))
    }
}

fn of_status(status: StatusCode) -> Verdict {
    const ONCE: Verdict = Verdict::Throttled {
        hint: Some(Hint::after(Duration::ZERO).once()),
    };
    match status.as_u16() {
        100..=399 => Verdict::Success,
        408 | 502 | 503 | 504 => Verdict::UNKNOWN,
        421 | 425 => ONCE,
        429 => Verdict::THROTTLED,
        400..=499 => Verdict::Rejected,
        _ => Verdict::Fault,
    }
}

/// Whether a server can say that this is worth a retry after all. What is the request's own fault stays so.
fn may_be_lifted(verdict: Verdict, status: StatusCode) -> bool {
    verdict == Verdict::Fault || status == StatusCode::CONFLICT
}

/// What the server says of a retry, where it does. One `false` is enough.
fn should_retry(headers: &HeaderMap) -> Option<bool> {
    let mut said = None;
    for name in SHOULD_RETRY {
        for value in headers.get_all(name) {
            match retry_after::text(value.as_bytes()) {
                Some("false") => return Some(false),
                Some("true") => said = Some(true),
                _ => {}
            }
        }
    }
    said
}
