//! A world to hold the promises in: a stack in any order, a service that follows a script, and callers who give up.

use std::fmt;
use std::time::Duration;

use proptest::prelude::*;
use tower_composure::{Effect, Hint, Verdict};

/// A layer of the stack. The outermost comes first.
#[derive(Clone, Copy, PartialEq)]
pub enum Part {
    CallDeadline(u64),
    AttemptDeadline(u64),
    Budget,
    Breaker,
    Retry(Retry),
    Limit(usize),
}

#[derive(Clone, Copy, PartialEq)]
pub struct Retry {
    pub attempts: u32,
    pub backoff: u64,
    pub nested: bool,
    pub honours_keys: bool,
}

/// What the service does with one attempt.
#[derive(Clone, Copy, PartialEq)]
pub struct Act {
    pub takes: u64,
    pub does: Does,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Does {
    Respond(Verdict),
    Fail(Verdict),
    Hang,
    PanicInCall,
    PanicInPoll,
}

/// When a caller gives up.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Patience {
    Endless,
    /// Drops the future after this many polls that were pending; after none, unpolled.
    Polls(u32),
    /// Drops it after this many milliseconds, the wait for readiness included.
    Millis(u64),
}

#[derive(Clone, PartialEq)]
pub struct Caller {
    pub at: u64,
    pub effect: Effect,
    pub keyed: bool,
    pub patience: Patience,
    /// One for each attempt; the last one again and again.
    pub acts: Vec<Act>,
}

#[derive(Clone)]
pub struct World {
    pub parts: Vec<Part>,
    /// Of the budget, in thousandths of a token.
    pub ratio: u32,
    pub burst: u32,
    /// What the breaker counts: attempts, or calls.
    pub counts_attempts: bool,
    /// The breaker is half-open when the first call comes.
    pub half_open: bool,
    pub callers: Vec<Caller>,
    /// How long the service is not ready, one for each time that it is asked.
    pub stalls: Vec<u64>,
    /// When the clock leaps, and how far: a process that was stopped.
    pub leaps: Vec<(u64, u64)>,
    /// The observer panics at every so many-th event.
    pub observer_panics: Option<u32>,
    pub seed: u64,
}

impl World {
    pub fn has(&self, part: impl Fn(&Part) -> bool) -> bool {
        self.parts.iter().any(part)
    }

    /// One caller who waits, and whom the service answers like this.
    pub fn of(parts: Vec<Part>, effect: Effect, acts: Vec<Act>) -> Self {
        let caller = Caller {
            at: 0,
            effect,
            keyed: false,
            patience: Patience::Endless,
            acts,
        };
        Self {
            parts,
            ratio: 0,
            burst: 1,
            counts_attempts: false,
            half_open: false,
            callers: vec![caller],
            stalls: Vec::new(),
            leaps: Vec::new(),
            observer_panics: None,
            seed: 0,
        }
    }

    /// The least of the call deadlines that stand above every retry.
    pub fn outer_deadline(&self) -> Option<u64> {
        let above = self.parts.iter().take_while(|part| !part.is_retry());
        above.filter_map(Part::call_deadline).min()
    }
}

impl Part {
    pub const fn is_retry(&self) -> bool {
        matches!(self, Self::Retry(_))
    }

    const fn call_deadline(&self) -> Option<u64> {
        match self {
            Self::CallDeadline(limit) => Some(*limit),
            _ => None,
        }
    }
}

impl Retry {
    pub const AT_ONCE: Self = Self {
        attempts: 2,
        backoff: 0,
        nested: false,
        honours_keys: false,
    };
}

impl Act {
    /// What it says of itself, where it says anything.
    pub const fn verdict(&self) -> Option<Verdict> {
        match self.does {
            Does::Respond(verdict) | Does::Fail(verdict) => Some(verdict),
            _ => None,
        }
    }
}

fn any_hint() -> impl Strategy<Value = Option<Hint>> {
    let hint = (0..400_u64, any::<bool>(), any::<bool>()).prop_map(|(wait, exact, once)| {
        let wait = Duration::from_millis(wait);
        let hint = if exact {
            Hint::exactly(wait)
        } else {
            Hint::after(wait)
        };
        if once { hint.once() } else { hint }
    });
    prop_oneof![6 => Just(None), 4 => hint.prop_map(Some), 1 => Just(Some(Hint::never()))]
}

fn any_act() -> impl Strategy<Value = Act> {
    let verdict = prop_oneof![
        2 => Just(Verdict::Success),
        1 => Just(Verdict::Fault),
        1 => Just(Verdict::Rejected),
        4 => Just(Verdict::THROTTLED),
        4 => Just(Verdict::REFUSED),
        4 => Just(Verdict::UNKNOWN),
    ];
    let says = (verdict, any_hint(), any::<bool>()).prop_map(|(verdict, hint, responds)| {
        let verdict = verdict.with_hint(hint);
        if responds || verdict.is_success() {
            Does::Respond(verdict)
        } else {
            Does::Fail(verdict)
        }
    });
    let does = prop_oneof![
        24 => says,
        2 => Just(Does::Hang),
        1 => Just(Does::PanicInCall),
        1 => Just(Does::PanicInPoll),
    ];
    let takes = prop_oneof![2 => Just(0), 2 => 1..300_u64];
    (takes, does).prop_map(|(takes, does)| Act { takes, does })
}

fn any_caller() -> impl Strategy<Value = Caller> {
    let effect = prop_oneof![
        1 => Just(Effect::Read),
        1 => Just(Effect::IdempotentWrite),
        2 => Just(Effect::Write),
    ];
    let patience = prop_oneof![
        2 => Just(Patience::Endless),
        1 => (0..6_u32).prop_map(Patience::Polls),
        1 => (0..1000_u64).prop_map(Patience::Millis),
    ];
    (
        prop_oneof![1 => Just(0), 1 => 0..1500_u64],
        effect,
        any::<bool>(),
        patience,
        prop::collection::vec(any_act(), 1..5),
    )
        .prop_map(|(at, effect, keyed, patience, acts)| Caller {
            at,
            effect,
            keyed,
            patience,
            acts,
        })
}

fn any_retry() -> impl Strategy<Value = Part> {
    (
        1..5_u32,
        prop_oneof![Just(0), 1..200_u64],
        any::<bool>(),
        any::<bool>(),
    )
        .prop_map(|(attempts, backoff, nested, honours_keys)| {
            Part::Retry(Retry {
                attempts,
                backoff,
                nested,
                honours_keys,
            })
        })
}

fn any_part() -> impl Strategy<Value = Part> {
    prop_oneof![
        1 => (1..1500_u64).prop_map(Part::CallDeadline),
        1 => (1..500_u64).prop_map(Part::AttemptDeadline),
        2 => Just(Part::Budget),
        1 => Just(Part::Breaker),
        2 => any_retry(),
        1 => (1..4_usize).prop_map(Part::Limit),
    ]
}

/// Any layers in any order, several of a kind and none.
pub fn any_parts() -> impl Strategy<Value = Vec<Part>> {
    prop::collection::vec(any_part(), 0..8)
}

/// The same, around one retry.
pub fn one_retry() -> impl Strategy<Value = Vec<Part>> {
    let others = || {
        any_parts().prop_map(|mut parts| {
            parts.retain(|part| !part.is_retry());
            parts
        })
    };
    (others(), any_retry(), others())
        .prop_map(|(above, retry, below)| [above, vec![retry], below].concat())
}

prop_compose! {
    /// A world around this stack.
    pub fn any_world(parts: impl Strategy<Value = Vec<Part>>)(
        parts in parts,
        (ratio, burst) in (0..600_u32, 1..6_u32),
        (counts_attempts, half_open) in any::<(bool, bool)>(),
        callers in prop::collection::vec(any_caller(), 1..7),
        stalls in prop::collection::vec(prop_oneof![3 => Just(0), 1 => 1..400_u64], 0..8),
        leaps in prop::collection::vec((0..1000_u64, 1..800_u64), 0..3),
        observer_panics in prop::option::of(1..4_u32),
        seed in any::<u64>(),
    ) -> World {
        World {
            parts, ratio, burst, counts_attempts, half_open, callers, stalls, leaps, observer_panics, seed,
        }
    }
}

/// The script, as somebody would tell it.
impl fmt::Debug for World {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\nstack: {:?}", self.parts)?;
        write!(
            f,
            "\nbudget: ratio 0.{:03}, burst {}",
            self.ratio, self.burst
        )?;
        let counts = if self.counts_attempts {
            "attempts"
        } else {
            "calls"
        };
        let state = if self.half_open {
            "half-open"
        } else {
            "closed"
        };
        write!(f, "\nbreaker: {state}, counts {counts}")?;
        write!(f, "\nnot ready for: {:?} ms", self.stalls)?;
        write!(f, "\nclock leaps (at, by): {:?} ms", self.leaps)?;
        write!(f, "\nobserver panics every: {:?}", self.observer_panics)?;
        for (number, caller) in self.callers.iter().enumerate() {
            write!(f, "\ncaller {number}: {caller:?}")?;
        }
        writeln!(f, "\nseed: {}", self.seed)
    }
}

impl fmt::Debug for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::CallDeadline(limit) => write!(f, "call {limit} ms"),
            Self::AttemptDeadline(limit) => write!(f, "attempt {limit} ms"),
            Self::Budget => f.write_str("budget"),
            Self::Breaker => f.write_str("breaker"),
            Self::Limit(most) => write!(f, "limit {most}"),
            Self::Retry(retry) => {
                write!(f, "retry {} every {} ms", retry.attempts, retry.backoff)?;
                if retry.nested {
                    f.write_str(", nested")?;
                }
                if retry.honours_keys {
                    f.write_str(", honours keys")?;
                }
                Ok(())
            }
        }
    }
}

impl fmt::Debug for Caller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at {} ms, {:?}", self.at, self.effect)?;
        if self.keyed {
            f.write_str(" with a key")?;
        }
        match self.patience {
            Patience::Endless => {}
            Patience::Polls(polls) => write!(f, ", drops after {polls} polls")?,
            Patience::Millis(wait) => write!(f, ", drops after {wait} ms")?,
        }
        write!(f, ": {:?}", self.acts)
    }
}

impl fmt::Debug for Act {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.takes > 0 {
            write!(f, "after {} ms ", self.takes)?;
        }
        match self.does {
            Does::Respond(verdict) => write!(f, "responds {verdict:?}"),
            Does::Fail(verdict) => write!(f, "fails {verdict:?}"),
            Does::Hang => f.write_str("hangs"),
            Does::PanicInCall => f.write_str("panics in call"),
            Does::PanicInPoll => f.write_str("panics in poll"),
        }
    }
}
