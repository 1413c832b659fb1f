use crate::attempt::Attempt;

/// What is noted on a permit, in one word, so that lending it is cheap: the generation of its admission, and in the
/// bits below it, where a mask fits into an instruction, independent facts of the call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Notes(u64);

/// How long the call or its attempts take is measured.
const MEASURED: u64 = 1;
/// It is a probe.
const PROBE: u64 = 1 << 1;
/// The breaker counts attempts.
const COUNTS_ATTEMPTS: u64 = 1 << 2;
/// An attempt has started whose outcome nobody has reported.
const OUTSTANDING: u64 = 1 << 3;
/// The retry has reported an attempt.
const REPORTED: u64 = 1 << 4;
/// The retry found that the breaker has moved on, and has no outcome left to return.
const STOPPED: u64 = 1 << 5;
/// Nothing is left to count.
const SETTLED: u64 = 1 << 6;
/// The breaker itself is with the retry below, until that gives it back.
const ENTRUSTED: u64 = 1 << 7;

/// What the call is, as far as whoever asks for a permit knows.
const ATTEMPT_SHIFT: u32 = 8;

/// A generation has 53 bits.
const GENERATION_SHIFT: u32 = ATTEMPT_SHIFT + Attempt::FACTS.count_ones();

impl Notes {
    /// Of no admission.
    pub(crate) const NONE: Self = Self(SETTLED);

    #[inline]
    pub(super) const fn of(generation: u64) -> Self {
        Self(generation << GENERATION_SHIFT)
    }

    #[inline]
    pub(super) const fn generation(self) -> u64 {
        self.0 >> GENERATION_SHIFT
    }

    /// The same, of a call whose first attempt this is.
    #[inline]
    pub(crate) const fn of_call(self, attempt: Attempt) -> Self {
        Self(self.0 | attempt.facts() << ATTEMPT_SHIFT)
    }

    /// The first attempt of the call.
    #[inline]
    pub(super) const fn attempt(self) -> Attempt {
        Attempt::first_of(self.0 >> ATTEMPT_SHIFT)
    }

    /// The same, of a call with more to it.
    pub(super) const fn with(self, is_probe: bool, counts_attempts: bool, measured: bool) -> Self {
        let probe = if is_probe { PROBE } else { 0 };
        let counts = if counts_attempts { COUNTS_ATTEMPTS } else { 0 };
        let measured = if measured { MEASURED } else { 0 };
        Self(self.0 | probe | counts | measured)
    }

    /// The same, of a call whose retry has the breaker.
    #[inline]
    pub(super) const fn entrusted(self) -> Self {
        Self(self.0 | ENTRUSTED)
    }

    #[inline]
    pub(crate) const fn is_entrusted(self) -> bool {
        self.0 & ENTRUSTED != 0
    }

    /// The retry has given the breaker back.
    #[inline]
    pub(super) const fn given_back(self) -> Self {
        Self(self.0 & !ENTRUSTED)
    }

    #[inline]
    pub(super) const fn is_probe(self) -> bool {
        self.0 & PROBE != 0
    }

    #[inline]
    pub(crate) const fn counts_attempts(self) -> bool {
        self.0 & COUNTS_ATTEMPTS != 0
    }

    #[inline]
    pub(super) const fn has_reported(self) -> bool {
        self.0 & REPORTED != 0
    }

    #[inline]
    pub(super) const fn is_stopped(self) -> bool {
        self.0 & STOPPED != 0
    }

    #[inline]
    pub(super) const fn is_settled(self) -> bool {
        self.0 & SETTLED != 0
    }

    /// Whether a success is the first word on this call, and nothing is known that makes it special.
    #[inline]
    pub(super) const fn is_plain(self) -> bool {
        self.0 & (PROBE | MEASURED | REPORTED | STOPPED | SETTLED) == 0
    }

    /// Whether the retry has already counted how the call ended.
    pub(super) const fn is_counted(self) -> bool {
        self.0 & (REPORTED | OUTSTANDING) == REPORTED
    }

    #[inline]
    pub(super) const fn started(self) -> Self {
        Self(self.0 | OUTSTANDING)
    }

    /// An attempt has been reported. A probe makes one attempt, so its permit is settled with it.
    pub(super) const fn reported(self) -> Self {
        let settled = if self.is_probe() { SETTLED } else { 0 };
        Self(self.0 & !OUTSTANDING | REPORTED | settled)
    }

    pub(super) const fn stopped(self) -> Self {
        Self(self.0 | STOPPED)
    }

    #[inline]
    pub(super) const fn settled(self) -> Self {
        Self(self.0 | SETTLED)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::circuit_breaker::state::GENERATION_MASK;
    use crate::effect::Effect;

    const PLAIN: Notes = Notes::of(GENERATION_MASK);

    /// Probe, counts attempts, has reported, stopped, settled, plain, counted, entrusted.
    const fn facts(notes: Notes) -> [bool; 8] {
        [
            notes.is_probe(),
            notes.counts_attempts(),
            notes.has_reported(),
            notes.is_stopped(),
            notes.is_settled(),
            notes.is_plain(),
            notes.is_counted(),
            notes.is_entrusted(),
        ]
    }

    fn set(facts: [u8; 8]) -> [bool; 8] {
        facts.map(|fact| fact == 1)
    }

    #[test]
    fn each_fact_is_one_of_its_own() {
        let probe = PLAIN.with(true, false, false);
        let counting = PLAIN.with(false, true, false);
        for (notes, told) in [
            (PLAIN, [0, 0, 0, 0, 0, 1, 0, 0]),
            (probe, [1, 0, 0, 0, 0, 0, 0, 0]),
            (counting, [0, 1, 0, 0, 0, 1, 0, 0]),
            (PLAIN.with(false, false, true), [0, 0, 0, 0, 0, 0, 0, 0]),
            (PLAIN.started(), [0, 0, 0, 0, 0, 1, 0, 0]),
            (counting.reported(), [0, 1, 1, 0, 0, 0, 1, 0]),
            (counting.reported().started(), [0, 1, 1, 0, 0, 0, 0, 0]),
            (counting.started().reported(), [0, 1, 1, 0, 0, 0, 1, 0]),
            (probe.reported(), [1, 0, 1, 0, 1, 0, 1, 0]),
            (PLAIN.stopped(), [0, 0, 0, 1, 0, 0, 0, 0]),
            (PLAIN.settled(), [0, 0, 0, 0, 1, 0, 0, 0]),
            (PLAIN.entrusted(), [0, 0, 0, 0, 0, 1, 0, 1]),
            (PLAIN.entrusted().settled(), [0, 0, 0, 0, 1, 0, 0, 1]),
            (PLAIN.entrusted().given_back(), [0, 0, 0, 0, 0, 1, 0, 0]),
            (Notes::NONE, [0, 0, 0, 0, 1, 0, 0, 0]),
        ] {
            assert_eq!(facts(notes), set(told), "{notes:?}");
        }
        let all = PLAIN
            .with(true, true, true)
            .started()
            .reported()
            .stopped()
            .settled()
            .entrusted();
        assert_eq!(all.generation(), GENERATION_MASK);
        assert_eq!(all.given_back().entrusted(), all);
        let attempt = Attempt::first(Effect::Write).with_key(true);
        assert_eq!(facts(all.of_call(attempt)), facts(all));
        assert_eq!(all.of_call(attempt).generation(), GENERATION_MASK);
        assert_eq!(all.of_call(attempt).attempt(), attempt);
        assert_eq!(all.attempt(), Attempt::first(Effect::Read));
    }

    #[test]
    fn what_is_noted_twice_is_noted() {
        for note in [
            Notes::started,
            Notes::reported,
            Notes::stopped,
            Notes::settled,
            Notes::entrusted,
            Notes::given_back,
        ] {
            let noted = note(PLAIN.with(true, true, true));
            assert_eq!(note(noted), noted);
        }
        let probe = PLAIN.with(true, true, true);
        assert_eq!(probe.with(true, true, true), probe);
    }
}
