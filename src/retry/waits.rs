//! The waits of a call, its hints and what is held in them.

use std::pin::Pin;
use std::task::Context;
use std::time::Duration;

use tokio::time::{Sleep, sleep};

use crate::budget::Withdrawal;
use crate::rare::Rare;
use crate::report::CallReport;
use crate::verdict::Hint;

/// Nothing, in most calls, and after a retry at once.
pub(super) struct Waits(Rare<Box<Waited>>);

#[derive(Default)]
struct Waited {
    /// What the last answer asked for.
    hint: Option<Hint>,
    once_spent: bool,
    last: Duration,
    sum: Duration,
    timer: Option<Pin<Box<Sleep>>>,
    // Goes back unless it is spent.
    token: Option<Withdrawal>,
    /// How long after the call the attempt began, where an observer wants to know.
    attempt_began: Duration,
}

impl Waits {
    pub(super) const NONE: Self = Self(Rare::NONE);

    #[inline]
    pub(super) const fn is_some(&self) -> bool {
        self.0.is_some()
    }

    /// An attempt has ended with this hint or none.
    #[inline]
    pub(super) fn note(&mut self, hint: Option<Hint>) {
        if hint.is_some() || self.is_some() {
            self.waited().hint = hint;
        }
    }

    /// A retry is going to be made after this wait. Its end is fixed here, so that letting go of the losing response
    /// does not lengthen it. Without a wait there is no timer, since one of tokio's ends at its next tick at the soonest,
    /// and the token comes back.
    #[inline]
    pub(super) fn begin(&mut self, wait: Duration, token: Withdrawal) -> Withdrawal {
        if wait.is_zero() && !self.is_some() {
            return token;
        }
        self.begin_slowly(wait, token)
    }

    fn begin_slowly(&mut self, wait: Duration, token: Withdrawal) -> Withdrawal {
        let waited = self.waited();
        waited.once_spent |= waited.hint.is_some_and(Hint::is_once);
        waited.last = wait;
        waited.sum = waited.sum.saturating_add(wait);
        if wait.is_zero() {
            return token;
        }
        waited.timer = Some(Box::pin(sleep(wait)));
        waited.token = Some(token);
        Withdrawal::NOTHING
    }

    /// Whether the wait goes on.
    #[inline]
    pub(super) fn are_over(&mut self, cx: &mut Context<'_>) -> bool {
        self.0.as_mut().is_none_or(|waited| waited.is_over(cx))
    }

    /// Puts a token away until its retry starts.
    #[inline]
    pub(super) fn keep(&mut self, token: Withdrawal) {
        if !token.is_nothing() {
            self.waited().token = Some(token);
        }
    }

    /// The token of the retry that starts.
    #[inline]
    pub(super) fn take_token(&mut self) -> Withdrawal {
        let token = self.0.as_mut().and_then(|waited| waited.token.take());
        token.unwrap_or(Withdrawal::NOTHING)
    }

    /// The attempt that follows begins so long after the call.
    pub(super) fn attempt_begins(&mut self, after: Duration) {
        self.waited().attempt_began = after;
    }

    /// How long after the call the attempt began. The first one begins with it.
    pub(super) fn attempt_began(&self) -> Duration {
        let waited = self.0.as_ref();
        waited.map_or(Duration::ZERO, |waited| waited.attempt_began)
    }

    /// No retry follows: the token goes back.
    pub(super) fn end(&mut self) {
        if let Some(waited) = self.0.as_mut() {
            waited.timer = None;
            waited.token = None;
        }
    }

    /// The wait before the last attempt.
    pub(super) fn last(&self) -> Duration {
        self.0.as_ref().map_or(Duration::ZERO, |waited| waited.last)
    }

    /// Whether a retry has been made of a hint that allows one.
    pub(super) fn have_spent_once(&self) -> bool {
        self.0.as_ref().is_some_and(|waited| waited.once_spent)
    }

    /// Adds them to a report.
    pub(super) fn add_to(&self, report: &mut CallReport) {
        if let Some(waited) = self.0.as_ref() {
            report.verdict = report.verdict.with_hint(waited.hint);
            report.backoff = waited.sum;
        }
    }

    #[cold]
    fn waited(&mut self) -> &mut Waited {
        self.0.get_or_insert_with(Box::default)
    }
}

impl Waited {
    fn is_over(&mut self, cx: &mut Context<'_>) -> bool {
        let sleeps = |timer: &mut Pin<Box<Sleep>>| timer.as_mut().poll(cx).is_pending();
        if self.timer.as_mut().is_some_and(sleeps) {
            return false;
        }
        self.timer = None;
        true
    }
}
