use std::fmt;
use std::sync::Arc;

use http::{HeaderName, HeaderValue, Method};
use tower_layer::Layer;

use super::{IdempotencyKey, IdempotencyKeyService};
use crate::observer::{Observer, Watch};

/// How a key is written into its header.
///
/// ```
/// use tower_composure::{IdempotencyKeyLayer, KeyFormat};
///
/// let layer = IdempotencyKeyLayer::new().format(KeyFormat::Structured);
/// # let _ = layer;
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum KeyFormat {
    /// As it is: what deployed APIs take.
    #[default]
    Raw,
    /// As a structured-field string in quotes: what the IETF draft asks for (§2.1; RFC 9651 §4.1.6).
    Structured,
}

impl KeyFormat {
    /// The header's value. Every key is printable ASCII, so there is always one.
    pub(super) fn value(self, key: &IdempotencyKey) -> Option<HeaderValue> {
        match self {
            Self::Raw => HeaderValue::from_str(key.as_str()).ok(),
            Self::Structured => {
                let mut quoted = String::with_capacity(key.as_str().len().saturating_add(2));
                quoted.push('"');
                for character in key.as_str().chars() {
                    if matches!(character, '"' | '\\') {
                        quoted.push('\\');
                    }
                    quoted.push(character);
                }
                quoted.push('"');
                HeaderValue::try_from(quoted).ok()
            }
        }
    }
}

/// Makes the key of a request that has none.
///
/// A closure is one, see [`IdempotencyKeyLayer::key_fn`].
///
/// ```
/// use tower_composure::IdempotencyKey;
/// use tower_composure::idempotency_key::{MakeKey, RandomKey};
///
/// let order = |order: &u64| IdempotencyKey::new(format!("order-{order}")).unwrap_or_else(|_| RandomKey.make_key(order));
/// assert_eq!(order.make_key(&7).as_str(), "order-7");
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` makes no idempotency keys for requests of type `{Req}`",
    label = "makes no keys for these requests",
    note = "`RandomKey` does for any request, and so does a closure `Fn(&{Req}) -> IdempotencyKey`"
)]
pub trait MakeKey<Req> {
    /// A key for this request.
    ///
    /// ```
    /// use http::Request;
    /// use tower_composure::IdempotencyKey;
    /// use tower_composure::idempotency_key::{MakeKey, RandomKey};
    ///
    /// let key: IdempotencyKey = RandomKey.make_key(&Request::new(()));
    /// ```
    fn make_key(&self, request: &Req) -> IdempotencyKey;
}

/// A random UUID for each call. The default.
///
/// ```
/// use tower_composure::IdempotencyKeyLayer;
/// use tower_composure::idempotency_key::RandomKey;
///
/// let layer: IdempotencyKeyLayer<RandomKey> = IdempotencyKeyLayer::new();
/// ```
#[derive(Debug, Clone, Copy, Default)]
pub struct RandomKey;

impl<Req> MakeKey<Req> for RandomKey {
    fn make_key(&self, _: &Req) -> IdempotencyKey {
        IdempotencyKey::random()
    }
}

impl<Req, F> MakeKey<Req> for F
where
    F: Fn(&Req) -> IdempotencyKey,
{
    fn make_key(&self, request: &Req) -> IdempotencyKey {
        self(request)
    }
}

/// Gives each write one idempotency key. See the [module](crate::idempotency_key).
///
/// ```
/// use tower_composure::{HttpPolicy, IdempotencyKeyLayer, Stack};
///
/// let stack = Stack::builder(HttpPolicy::new()).idempotency_key(IdempotencyKeyLayer::new()).build()?;
/// # Ok::<(), tower_composure::BoxError>(())
/// ```
pub struct IdempotencyKeyLayer<M = RandomKey> {
    pub(super) config: Arc<Config<M>>,
}

pub(super) struct Config<M> {
    pub(super) header: HeaderName,
    pub(super) format: KeyFormat,
    pub(super) methods: Methods,
    pub(super) make: M,
    pub(super) watch: Option<Watch>,
}

/// The methods whose requests get a key.
#[derive(Clone)]
pub(super) struct Methods {
    listed: Vec<Method>,
    // Mostly none, and then most requests need no look at the list.
    is_any_safe: bool,
}

impl Methods {
    fn new(listed: Vec<Method>) -> Self {
        let is_any_safe = listed.iter().any(Method::is_safe);
        Self {
            listed,
            is_any_safe,
        }
    }

    #[inline]
    pub(super) fn contains(&self, method: &Method) -> bool {
        (self.is_any_safe || !method.is_safe()) && self.listed.contains(method)
    }
}

impl IdempotencyKeyLayer {
    /// A raw UUID in `idempotency-key`, on POST and PATCH: the methods that are not idempotent by themselves
    /// (RFC 9110 §9.2.2).
    ///
    /// ```
    /// use tower_composure::IdempotencyKeyLayer;
    ///
    /// let layer = IdempotencyKeyLayer::new();
    /// ```
    pub fn new() -> Self {
        Self::of(Config {
            header: crate::http::IDEMPOTENCY_KEY,
            format: KeyFormat::Raw,
            methods: Methods::new(vec![Method::POST, Method::PATCH]),
            make: RandomKey,
            watch: None,
        })
    }
}

impl Default for IdempotencyKeyLayer {
    fn default() -> Self {
        Self::new()
    }
}

impl<M> IdempotencyKeyLayer<M> {
    fn of(config: Config<M>) -> Self {
        Self {
            config: Arc::new(config),
        }
    }

    /// The header. Default `idempotency-key`. Give the policy the same one
    /// ([`HttpPolicy::key_header`](crate::HttpPolicy::key_header)).
    ///
    /// ```
    /// use http::HeaderName;
    /// use tower_composure::{HttpPolicy, IdempotencyKeyLayer};
    ///
    /// let header = HeaderName::from_static("x-request-key");
    /// let policy = HttpPolicy::new().key_header(header.clone());
    /// let layer = IdempotencyKeyLayer::new().header(header);
    /// ```
    #[must_use]
    pub fn header(self, header: HeaderName) -> Self
    where
        M: Clone,
    {
        let config = self.taken();
        Self::of(Config { header, ..config })
    }

    /// How the key is written. Default [`KeyFormat::Raw`].
    ///
    /// ```
    /// use tower_composure::{IdempotencyKeyLayer, KeyFormat};
    ///
    /// let layer = IdempotencyKeyLayer::new().format(KeyFormat::Structured);
    /// ```
    #[must_use]
    pub fn format(self, format: KeyFormat) -> Self
    where
        M: Clone,
    {
        let config = self.taken();
        Self::of(Config { format, ..config })
    }

    /// The methods whose requests get a key. Default POST and PATCH.
    ///
    /// ```
    /// use http::Method;
    /// use tower_composure::IdempotencyKeyLayer;
    ///
    /// let layer = IdempotencyKeyLayer::new().methods([Method::POST, Method::PUT]);
    /// ```
    #[must_use]
    pub fn methods(self, methods: impl IntoIterator<Item = Method>) -> Self
    where
        M: Clone,
    {
        let config = self.taken();
        Self::of(Config {
            methods: Methods::new(methods.into_iter().collect()),
            ..config
        })
    }

    /// Who is told whether a request goes with a key of its caller's or with a new one, and under which name.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use tower_composure::{IdempotencyKeyLayer, TracingObserver};
    ///
    /// let layer = IdempotencyKeyLayer::new().observer("payments", Arc::new(TracingObserver::new()));
    /// ```
    #[must_use]
    pub fn observer(self, dependency: impl Into<Arc<str>>, observer: Arc<dyn Observer>) -> Self
    where
        M: Clone,
    {
        let watch = Some(Watch::new(observer, dependency.into()));
        let config = self.taken();
        Self::of(Config { watch, ..config })
    }

    /// What makes a key, where neither the request nor the scope has one. It must give the same key for what is the
    /// same to the caller, and another for what is not.
    ///
    /// ```
    /// use http::Request;
    /// use tower_composure::{IdempotencyKey, IdempotencyKeyLayer};
    ///
    /// let layer = IdempotencyKeyLayer::new().key_fn(|request: &Request<String>| {
    ///     IdempotencyKey::new(request.uri().path()).unwrap_or_else(|_| IdempotencyKey::random())
    /// });
    /// ```
    #[must_use]
    pub fn key_fn<Req, F>(self, make: F) -> IdempotencyKeyLayer<F>
    where
        F: Fn(&Req) -> IdempotencyKey,
    {
        let config = &self.config;
        IdempotencyKeyLayer::of(Config {
            header: config.header.clone(),
            format: config.format,
            methods: config.methods.clone(),
            make,
            watch: config.watch.clone(),
        })
    }

    /// The configuration, out of a layer that is usually its only owner.
    fn taken(self) -> Config<M>
    where
        M: Clone,
    {
        Arc::try_unwrap(self.config).unwrap_or_else(|shared| Config {
            header: shared.header.clone(),
            format: shared.format,
            methods: shared.methods.clone(),
            make: shared.make.clone(),
            watch: shared.watch.clone(),
        })
    }
}

impl<M, S> Layer<S> for IdempotencyKeyLayer<M> {
    type Service = IdempotencyKeyService<S, M>;

    fn layer(&self, inner: S) -> Self::Service {
        IdempotencyKeyService::new(inner, Arc::clone(&self.config))
    }
}

impl<M> Clone for IdempotencyKeyLayer<M> {
    fn clone(&self) -> Self {
        Self {
            config: Arc::clone(&self.config),
        }
    }
}

impl<M> fmt::Debug for IdempotencyKeyLayer<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IdempotencyKeyLayer")
            .field("header", &self.config.header)
            .field("format", &self.config.format)
            .field("methods", &self.config.methods.listed)
            .finish_non_exhaustive()
    }
}
