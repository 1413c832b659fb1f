use std::fmt;
use std::sync::Arc;

use tokio::time::Instant;
use tower_layer::Layer;

use super::schedule::{self, Window};
use super::service::FaultService;
use crate::clock;
use crate::error::ConfigError;
use crate::rng::Random;

/// Plays a schedule of faults over a service. See the [module](crate::fault).
///
/// The schedule lives in the layer: all services made from it and all their clones share its beginning and its chance.
pub struct FaultLayer<Req, Res, E> {
    shared: Arc<Shared<Req, Res, E>>,
}

pub(super) struct Shared<Req, Res, E> {
    windows: Vec<Window<Req, Res, E>>,
    origin: Instant,
    random: Random,
}

impl<Req, Res, E> Shared<Req, Res, E> {
    /// The window that meets a call now.
    pub(super) fn meets(&self) -> Option<&Window<Req, Res, E>> {
        let elapsed = clock::now().saturating_duration_since(self.origin);
        schedule::meets(&self.windows, elapsed, || self.random.draw())
    }
}

/// Builds a [`FaultLayer`]. From [`FaultLayer::builder`].
#[derive(Debug)]
#[must_use = "a builder does nothing until it is built"]
pub struct FaultLayerBuilder<Req, Res, E> {
    windows: Vec<Window<Req, Res, E>>,
    seed: Option<u64>,
}

impl<Req, Res, E> FaultLayer<Req, Res, E> {
    /// Starts with no window.
    pub const fn builder() -> FaultLayerBuilder<Req, Res, E> {
        FaultLayerBuilder {
            windows: Vec::new(),
            seed: None,
        }
    }
}

impl<Req, Res, E> FaultLayerBuilder<Req, Res, E> {
    /// Adds a window. Where several cover a moment, the first one whose rate draws the call applies.
    pub fn window(mut self, window: Window<Req, Res, E>) -> Self {
        self.windows.push(window);
        self
    }

    /// Makes chance repeatable.
    pub const fn seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// Builds the layer; its windows are counted from now.
    ///
    /// # Errors
    ///
    /// Where a rate is no share, or a window does not start before its end.
    pub fn build(self) -> Result<FaultLayer<Req, Res, E>, ConfigError> {
        for window in &self.windows {
            window.validate()?;
        }
        Ok(FaultLayer {
            shared: Arc::new(Shared {
                windows: self.windows,
                origin: clock::now(),
                random: Random::new(self.seed),
            }),
        })
    }
}

impl<Req, Res, E, S> Layer<S> for FaultLayer<Req, Res, E> {
    type Service = FaultService<S, Req, Res, E>;

    fn layer(&self, inner: S) -> Self::Service {
        FaultService::new(inner, Arc::clone(&self.shared))
    }
}

impl<Req, Res, E> Clone for FaultLayer<Req, Res, E> {
    fn clone(&self) -> Self {
        Self {
            shared: Arc::clone(&self.shared),
        }
    }
}

impl<Req, Res, E> fmt::Debug for FaultLayer<Req, Res, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FaultLayer")
            .field("windows", &self.shared.windows)
            .finish_non_exhaustive()
    }
}
