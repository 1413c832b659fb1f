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
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)] async fn main() -> Result<(), tower_composure::BoxError> {
/// use tower::{ServiceBuilder, ServiceExt};
/// use tower_composure::fault::{FaultLayer, Window};
///
/// let down = Window::always().respond_with(|_: &u64| Err("down"));
/// let service = ServiceBuilder::new()
///     .layer(FaultLayer::builder().window(down).build()?)
///     .service_fn(|id: u64| async move { Ok::<u64, &str>(id) });
/// assert_eq!(service.oneshot(7).await, Err("down"));
/// # Ok(()) }
/// ```
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
///
/// ```
/// use tower_composure::fault::{FaultLayer, FaultLayerBuilder, Window};
///
/// let builder: FaultLayerBuilder<u64, u64, &str> = FaultLayer::builder().window(Window::always().rate(0.1).hang()).seed(7);
/// let layer = builder.build()?;
/// # Ok::<(), tower_composure::BoxError>(())
/// ```
#[derive(Debug)]
#[must_use = "a builder does nothing until it is built"]
pub struct FaultLayerBuilder<Req, Res, E> {
    windows: Vec<Window<Req, Res, E>>,
    seed: Option<u64>,
}

impl<Req, Res, E> FaultLayer<Req, Res, E> {
    /// Starts with no window.
    ///
    /// ```
    /// use tower_composure::fault::FaultLayer;
    ///
    /// let harmless = FaultLayer::<u64, u64, std::io::Error>::builder().build()?;
    /// # Ok::<(), tower_composure::BoxError>(())
    /// ```
    pub const fn builder() -> FaultLayerBuilder<Req, Res, E> {
        FaultLayerBuilder {
            windows: Vec::new(),
            seed: None,
        }
    }
}

impl<Req, Res, E> FaultLayerBuilder<Req, Res, E> {
    /// Adds a window. Where several cover a moment, the first one whose rate draws the call applies.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tower_composure::fault::{FaultLayer, Window};
    ///
    /// let slow = Window::always().latency(Duration::from_millis(300));
    /// let layer = FaultLayer::<u64, u64, &str>::builder().window(slow).build()?;
    /// # Ok::<(), tower_composure::BoxError>(())
    /// ```
    pub fn window(mut self, window: Window<Req, Res, E>) -> Self {
        self.windows.push(window);
        self
    }

    /// Makes chance repeatable.
    ///
    /// ```
    /// use tower_composure::fault::{FaultLayer, Window};
    ///
    /// let layer = FaultLayer::<u64, u64, &str>::builder().window(Window::always().rate(0.1).hang()).seed(7).build()?;
    /// # Ok::<(), tower_composure::BoxError>(())
    /// ```
    pub const fn seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// Builds the layer; its windows are counted from now.
    ///
    /// # Errors
    ///
    /// Where a rate is no share, or a window does not start before its end.
    ///
    /// ```
    /// use tower_composure::fault::{FaultLayer, Window};
    ///
    /// let error = FaultLayer::<u64, u64, &str>::builder().window(Window::always().rate(1.5)).build().unwrap_err();
    /// assert_eq!(error.setting(), "rate");
    /// ```
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
