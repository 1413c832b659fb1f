//! The cells of a thread.
//!
//! None of them has a destructor, because such a thread local is cheaper to reach. The [`Frame`] says which of the
//! handles are in scope: most calls do not look at them, and a retry hides its caller's from what runs below by changing
//! that word alone. A guard swaps its value in and swaps the old one back when it is dropped, also by a panic.
//!
//! Inlined, because the code that enters a scope is generic and so compiled in a user's crate.

use std::cell::Cell;
use std::time::Duration;

use tokio::time::Instant;

use super::deadline_scope::{Mark, Span};
use super::frame::{Frame, Signals};
use super::handles::Handles;
use crate::attempt::Attempt;
use crate::circuit_breaker::{NO_TIME, Notes};
use crate::clock;
use crate::deadline::{Deadline, Expired};
use crate::report::CallReport;

pub(crate) struct Cells {
    pub(super) frame: Cell<Frame>,
    pub(super) handles: Handles,
    // What the deadline counts from, and how far it is from there.
    pub(super) start: Cell<Option<Instant>>,
    pub(super) span: Cell<Span>,
    // What the breaker in scope has lent beside its handle.
    pub(super) notes: Cell<Notes>,
    // When the attempt began, and the deadline from above that breaker, where it counts attempts.
    pub(super) began: Cell<u64>,
    pub(super) outer: Cell<u64>,
    // The two below travel upwards: written below, read by the layers above in the same poll. The report counts where
    // the signals say so.
    pub(super) signals: Cell<Signals>,
    report: Cell<CallReport>,
}

thread_local! {
    static CELLS: Cells = const {
        Cells {
            frame: Cell::new(Frame::EMPTY),
            handles: Handles::EMPTY,
            start: Cell::new(None),
            span: Cell::new(Span::NONE),
            notes: Cell::new(Notes::NONE),
            began: Cell::new(NO_TIME),
            outer: Cell::new(NO_TIME),
            signals: Cell::new(Signals::NONE),
            report: Cell::new(CallReport::EMPTY),
        }
    };
}

/// Reaches the cells; where the thread's locals are gone, nothing.
#[inline]
pub(super) fn cells<R>(at: impl FnOnce(&Cells) -> R) -> Option<R> {
    CELLS.try_with(at).ok()
}

#[inline]
pub(crate) fn frame() -> Frame {
    cells(|cells| cells.frame.get()).unwrap_or(Frame::EMPTY)
}

#[inline]
pub(super) fn set_frame(frame: Frame) {
    cells(|cells| cells.frame.set(frame));
}

/// What is noted on the permit in scope.
#[inline]
pub(crate) fn notes() -> Notes {
    cells(|cells| cells.notes.get()).unwrap_or(Notes::NONE)
}

#[inline]
pub(crate) fn set_notes(notes: Notes) {
    cells(|cells| cells.notes.set(notes));
}

/// When the attempt began that the breaker in scope measures, where it counts attempts.
pub(crate) fn began() -> u64 {
    cells(|cells| cells.began.get()).unwrap_or(NO_TIME)
}

/// The deadline from above the breaker in scope, on its own clock, where it counts attempts.
pub(crate) fn outer_deadline() -> u64 {
    cells(|cells| cells.outer.get()).unwrap_or(NO_TIME)
}

pub(crate) fn set_began(began: u64) {
    cells(|cells| cells.began.set(began));
}

/// The deadline in scope; where there is none, one that never comes.
#[inline]
pub(crate) fn deadline() -> Deadline {
    let deadline = cells(|cells| cells.span.get().from(cells.start.get()));
    deadline.unwrap_or(Deadline::never())
}

/// Whether a call that is repeated below the deadline in scope runs into the same instant again, wherever it is repeated.
pub(crate) fn is_absolute() -> bool {
    cells(|cells| cells.span.get().has(Mark::Absolute)).unwrap_or(false)
}

/// What is left before the deadline in scope. Without one nobody looks at the clock.
#[inline]
pub(crate) fn time_left() -> Option<Duration> {
    cells(|cells| cells.start.get())
        .flatten()
        .and_then(|_| left_before(deadline()))
}

#[cold]
fn left_before(deadline: Deadline) -> Option<Duration> {
    let at = deadline.instant();
    at.map(|_| deadline.remaining_at(clock::now()))
}

/// Whether a future above, in this very poll, ends the call at this deadline.
pub(crate) fn is_watched(of: Deadline) -> bool {
    cells(|cells| cells.span.get().is_watched()).unwrap_or(false) && deadline() == of
}

/// Whether a future above ends the call in this very poll, or with the next tick: a process that was stopped during a
/// wait may wake up after the deadline.
#[inline]
pub(crate) fn is_over() -> bool {
    cells(|cells| cells.span.get().is_watched()).unwrap_or(false) && deadline().has_passed()
}

#[inline]
pub(crate) fn attempt() -> Option<Attempt> {
    frame().attempt()
}

#[inline]
fn signals() -> Signals {
    cells(|cells| cells.signals.get()).unwrap_or(Signals::NONE)
}

/// The deadline that passed in the poll that just ended, if one did.
#[inline]
pub(crate) fn expired() -> Option<Expired> {
    signals().expired()
}

pub(crate) fn mark_expired(expired: Expired) {
    cells(|cells| cells.signals.set(cells.signals.get().with_expired(expired)));
}

/// Tells the layers above whether a timer for the end of an attempt runs that wakes whoever polls them now. The last
/// word counts: the retry above hears from its attempt's deadline after whatever runs below that.
pub(crate) fn set_has_timer(timer: bool) {
    cells(|cells| cells.signals.set(cells.signals.get().with_timer(timer)));
}

/// Whether a call that is pending has left such a timer.
pub(crate) fn has_timer() -> bool {
    signals().has_timer()
}

/// Tells the layers above that a call has succeeded at its first attempt, which is all there is to tell.
#[inline]
pub(crate) fn publish_success(attempt: Attempt) {
    cells(|cells| cells.signals.set(Signals::success(attempt)));
}

/// The same of a call whose attempt is in this frame, below its retry.
#[inline]
pub(crate) fn publish_success_in(below: Frame) {
    cells(|cells| cells.signals.set(Signals::success_in(below)));
}

/// Leaves a report for the layers above.
pub(crate) fn publish(report: CallReport) {
    cells(|cells| {
        let signals = cells.signals.get().ended(report.last_attempt());
        cells.signals.set(signals);
        cells.report.set(report);
    });
}

/// The report that a retry below left in the poll that just ended.
pub(crate) fn published() -> Option<CallReport> {
    cells(|cells| {
        let signals = cells.signals.get();
        if signals.has_report() {
            Some(cells.report.get())
        } else {
            signals.attempt().map(CallReport::success)
        }
    })
    .flatten()
}

/// Whether there is such a report, of more than a success, and it is so.
#[inline]
pub(crate) fn has_published(is_so: impl FnOnce(&CallReport) -> bool) -> bool {
    cells(|cells| cells.signals.get().has_report() && is_so(&cells.report.get())).unwrap_or(false)
}

/// The last attempt of the retry that left a report in the poll that just ended.
#[inline]
pub(crate) fn published_attempt() -> Option<Attempt> {
    signals().attempt()
}

/// Clears what an earlier poll left behind. Whoever reads a signal does this before the poll that it reads about.
#[inline]
pub(crate) fn clear_signals() {
    cells(|cells| cells.signals.set(Signals::NONE));
}
