//! Which fault meets a call. Pure: elapsed time and randomness come in as arguments.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::error::ConfigError;

/// A while in which some calls meet a fault.
///
/// ```
/// use std::time::Duration;
/// use tower_composure::fault::{FaultLayer, Window};
///
/// let second = Duration::from_secs(1);
/// let layer = FaultLayer::<u64, u64, &str>::builder()
///     .window(Window::between(10 * second, 40 * second).respond_with(|_| Err("down")))
///     .window(Window::always().rate(0.03).lose_answer())
///     .build()?;
/// # Ok::<(), tower_composure::BoxError>(())
/// ```
pub struct Window<Req, Res, E> {
    start: Duration,
    end: Duration,
    rate: f64,
    latency: Duration,
    kind: Kind<Req, Res, E>,
}

/// What happens to a call beside being late.
pub(super) enum Kind<Req, Res, E> {
    /// It goes through.
    Pass,
    /// The service does not see it, and there is never an answer.
    Hang,
    /// The service carries it out, and there is never an answer.
    LoseAnswer,
    /// The service does not see it, and this is the answer.
    Answer(Answer<Req, Res, E>),
}

type Answer<Req, Res, E> = Arc<dyn Fn(&Req) -> Result<Res, E> + Send + Sync>;

impl<Req, Res, E> Window<Req, Res, E> {
    /// From `start` until before `end`, counted from when the layer is built. `Duration::MAX` has no end.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tower_composure::fault::Window;
    ///
    /// let window = Window::<u64, u64, &str>::between(Duration::from_secs(10), Duration::from_secs(40));
    /// ```
    pub const fn between(start: Duration, end: Duration) -> Self {
        Self {
            start,
            end,
            rate: 1.0,
            latency: Duration::ZERO,
            kind: Kind::Pass,
        }
    }

    /// From the beginning, without an end.
    ///
    /// ```
    /// use tower_composure::fault::Window;
    ///
    /// let window = Window::<u64, u64, &str>::always().hang();
    /// ```
    pub const fn always() -> Self {
        Self::between(Duration::ZERO, Duration::MAX)
    }

    /// The share of calls that meet the fault, 0 to 1. Default 1.
    ///
    /// ```
    /// use tower_composure::fault::Window;
    ///
    /// let window = Window::<u64, u64, &str>::always().rate(1.0 / 30.0).lose_answer();
    /// ```
    #[must_use]
    pub const fn rate(mut self, rate: f64) -> Self {
        self.rate = rate;
        self
    }

    /// How long the call is held before anything else happens to it. Default zero.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tower_composure::fault::Window;
    ///
    /// let window = Window::<u64, u64, &str>::always().latency(Duration::from_millis(300));
    /// ```
    #[must_use]
    pub const fn latency(mut self, latency: Duration) -> Self {
        self.latency = latency;
        self
    }

    /// The service does not see the call, and there is never an answer.
    ///
    /// ```
    /// use tower_composure::fault::Window;
    ///
    /// let window = Window::<u64, u64, &str>::always().rate(0.01).hang();
    /// ```
    #[must_use]
    pub fn hang(mut self) -> Self {
        self.kind = Kind::Hang;
        self
    }

    /// The service carries the call out, and its answer never comes.
    ///
    /// ```
    /// use tower_composure::fault::Window;
    ///
    /// let window = Window::<u64, u64, &str>::always().rate(0.03).lose_answer();
    /// ```
    #[must_use]
    pub fn lose_answer(mut self) -> Self {
        self.kind = Kind::LoseAnswer;
        self
    }

    /// The service does not see the call; this answers it.
    ///
    /// ```
    /// use tower_composure::fault::Window;
    ///
    /// let window = Window::always().respond_with(|id: &u64| if *id == 7 { Ok(0) } else { Err("down") });
    /// ```
    #[must_use]
    pub fn respond_with<F>(mut self, answer: F) -> Self
    where
        F: Fn(&Req) -> Result<Res, E> + Send + Sync + 'static,
    {
        self.kind = Kind::Answer(Arc::new(answer));
        self
    }

    pub(super) const fn latency_of(&self) -> Duration {
        self.latency
    }

    pub(super) const fn kind(&self) -> &Kind<Req, Res, E> {
        &self.kind
    }

    pub(super) fn validate(&self) -> Result<(), ConfigError> {
        if !(0.0..=1.0).contains(&self.rate) {
            let reason = format!("{} is not between 0 and 1", self.rate);
            return Err(ConfigError::new("rate", reason));
        }
        if self.start >= self.end {
            let reason = format!("{:?} is not before its end {:?}", self.start, self.end);
            return Err(ConfigError::new("window", reason));
        }
        Ok(())
    }

    fn covers(&self, elapsed: Duration) -> bool {
        self.start <= elapsed && elapsed < self.end
    }

    fn draws(&self, random: u64) -> bool {
        // A float has fewer bits than the word, so the share is exact to 2^-53, and 1 is always.
        #[expect(
            clippy::cast_precision_loss,
            reason = "the lowest bits of a random word do not matter"
        )]
        let share = random as f64 / u64::MAX as f64;
        self.rate > share || self.rate >= 1.0
    }
}

#[cfg(feature = "http")]
impl<A, B: Default, E> Window<::http::Request<A>, ::http::Response<B>, E> {
    /// The service does not see the call; an empty response of this status answers it.
    ///
    /// ```
    /// use http::{Request, Response, StatusCode};
    /// use tower_composure::fault::Window;
    ///
    /// let window = Window::<Request<()>, Response<()>, std::io::Error>::always().status(StatusCode::SERVICE_UNAVAILABLE);
    /// ```
    #[must_use]
    pub fn status(self, status: ::http::StatusCode) -> Self {
        self.respond_with(move |_| {
            let mut response = ::http::Response::new(B::default());
            *response.status_mut() = status;
            Ok(response)
        })
    }
}

/// The first window that meets a call at this time, `draw` giving uniform words.
pub(super) fn meets<Req, Res, E>(
    windows: &[Window<Req, Res, E>],
    elapsed: Duration,
    draw: impl Fn() -> u64,
) -> Option<&Window<Req, Res, E>> {
    windows
        .iter()
        .find(|window| window.covers(elapsed) && window.draws(draw()))
}

impl<Req, Res, E> fmt::Debug for Window<Req, Res, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.kind {
            Kind::Pass => "pass",
            Kind::Hang => "hang",
            Kind::LoseAnswer => "lose_answer",
            Kind::Answer(_) => "answer",
        };
        f.debug_struct("Window")
            .field("start", &self.start)
            .field("end", &self.end)
            .field("rate", &self.rate)
            .field("latency", &self.latency)
            .field("kind", &kind)
            .finish()
    }
}
