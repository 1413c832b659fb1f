//! The deploy and the load: every number of it, and everything that the seed decides.

use std::fmt;
use std::time::Duration;

use tokio::time::Instant;

/// The length of a bin in which arrivals are counted, whatever the scale.
pub(crate) const BIN: Duration = Duration::from_millis(100);

/// A deploy under load. Times are the deploy's own; [`scaled`](Self::scaled) makes real ones of them.
#[derive(Debug, Clone)]
pub(crate) struct Scenario {
    pub(crate) seed: u64,
    pub(crate) sessions: u32,
    /// Calls a second, over all sessions.
    pub(crate) rate: u32,
    /// By how much every duration is divided, of the load and of the clients alike.
    pub(crate) scale: u32,
    pub(crate) before: Duration,
    pub(crate) outage: Duration,
    pub(crate) after: Duration,
    /// How many of 1000 charges are committed but never answered.
    pub(crate) lost_per_mille: u64,
    /// Whether some 503s say when to come back.
    pub(crate) retry_after: bool,
}

impl Default for Scenario {
    fn default() -> Self {
        Self {
            seed: 42,
            sessions: 200,
            rate: 40,
            scale: 10,
            before: Duration::from_secs(10),
            outage: Duration::from_secs(30),
            after: Duration::from_secs(20),
            lost_per_mille: 30,
            retry_after: false,
        }
    }
}

/// A charge that a session makes at its planned instant, whatever became of the others.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Call {
    pub(crate) order: u32,
    /// Real time since the start of the run.
    pub(crate) starts: Duration,
    pub(crate) in_outage: bool,
}

impl Scenario {
    /// A time of the deploy, in real time.
    pub(crate) fn scaled(&self, time: Duration) -> Duration {
        time / self.scale
    }

    /// The whole deploy, in its own time.
    pub(crate) fn length(&self) -> Duration {
        self.before + self.outage + self.after
    }

    /// From when until when the API is down, in real time since the start of a run.
    pub(crate) fn down(&self) -> (Duration, Duration) {
        let start = self.scaled(self.before);
        (start, start + self.scaled(self.outage))
    }

    /// How many calls a run makes.
    pub(crate) fn calls(&self) -> u32 {
        self.rate * u32::try_from(self.length().as_secs()).unwrap_or(u32::MAX)
    }

    /// The requests in a bin when nothing fails and nothing is retried.
    pub(crate) fn normal_bin(&self) -> f64 {
        f64::from(self.rate * self.scale) * BIN.as_secs_f64()
    }

    /// Every call, each with an order of its own.
    ///
    /// A session calls once an interval. Its phase is a seeded point in its own part of the interval, so that sessions
    /// share the time evenly and yet not in step.
    pub(crate) fn plan(&self) -> impl Iterator<Item = Call> {
        let (down, up) = self.down();
        (0..self.calls()).map(move |nth| {
            let session = nth % self.sessions;
            let at = f64::from(nth) + self.chance(Dice::Phase, session, 0);
            let starts = Duration::from_secs_f64(at / f64::from(self.rate * self.scale));
            Call {
                order: nth + 1,
                starts,
                in_outage: (down..up).contains(&starts),
            }
        })
    }

    /// Whether the answer to the `nth` request for this order is lost. The same in every run, so that all clients meet
    /// the same bad luck.
    pub(crate) fn loses_answer(&self, order: u32, nth: u32) -> bool {
        self.roll(Dice::Loss, order, nth) % 1000 < self.lost_per_mille
    }

    /// What the `Retry-After` of the 503 to this request says, in seconds: one in four has one.
    pub(crate) fn retry_after(&self, order: u32, nth: u32) -> Option<u64> {
        match self.roll(Dice::RetryAfter, order, nth) % 8 {
            wait @ 1..=2 if self.retry_after => Some(wait),
            _ => None,
        }
    }

    /// A number from 0 up to 1.
    fn chance(&self, dice: Dice, a: u32, b: u32) -> f64 {
        let bits = u32::try_from(self.roll(dice, a, b) >> 32).unwrap_or(0);
        f64::from(bits) / (f64::from(u32::MAX) + 1.0)
    }

    /// Chance without a state: a hash, so that it depends on no order of events. The finaliser of `SplitMix64`.
    fn roll(&self, dice: Dice, a: u32, b: u32) -> u64 {
        [u64::from(a), u64::from(b), dice as u64]
            .into_iter()
            .fold(self.seed, |state, word| {
                let mut z = (state ^ word).wrapping_add(0x9E37_79B9_7F4A_7C15);
                z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
                z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
                z ^ (z >> 31)
            })
    }
}

/// What a roll is for, so that no two questions share an answer.
#[derive(Debug, Clone, Copy)]
enum Dice {
    Phase,
    Loss,
    RetryAfter,
}

impl fmt::Display for Scenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "A deploy takes a payment API down for {:?} of {:?}, at {} calls/s from {} sessions (seed {}).",
            self.scaled(self.outage),
            self.scaled(self.length()),
            self.rate * self.scale,
            self.sessions,
            self.seed,
        )?;
        if self.scale > 1 {
            write!(
                f,
                "\nEvery duration is divided by {}; --full takes the deploy's own.",
                self.scale
            )?;
        }
        Ok(())
    }
}

/// The time.
#[expect(
    clippy::disallowed_methods,
    reason = "a load over real sockets runs on the real clock; this is where it is read"
)]
pub(crate) fn now() -> Instant {
    Instant::now()
}
