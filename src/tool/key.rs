use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use pin_project_lite::pin_project;
use tower_layer::Layer;
use tower_service::Service;

use super::{ToolCall, ToolMarks, derive};
use crate::context::{self, KeyInScope, Lending};
use crate::idempotency_key::IdempotencyKey;
use crate::observer::{Observer, Watch};
use crate::rare::Slot;
use crate::stack::KeyLayer;

/// Gives each tool call one idempotency key, the same on every attempt.
///
/// The key goes into [`ToolCall::key`] and into the scope of everything that the tool does: the tool reads it with
/// [`IdempotencyKey::current`], and an HTTP client in it that has an `IdempotencyKeyLayer` sends it with no plumbing.
///
/// # Which key
///
/// The caller's own, where the call has one already. Else the key in scope, where the call is made inside of another
/// keyed call: as it is for the first call, and with an ordinal for the next ones. Else a new one:
///
/// - [`new`](Self::new): from `invocation_id`, `function_call_id` and the tool's name. Stable over our retries and over
///   a driver that replays a turn with its ids. A model that asks again for the same gets another key. Where there is no
///   `invocation_id`, `function_call_id` must be unique by itself.
/// - [`from_arguments`](Self::from_arguments): from `invocation_id`, the tool's name and the SHA-256 of the canonical
///   arguments (RFC 8785), so that a model which asks for the same charge twice in one turn is charged once. Two
///   charges that are meant to be equal must then differ in an argument. An integer beyond 2^53 counts as the text of
///   its digits, since RFC 8785 would round it.
///
/// A random key, where a call lacks the ids for it. A derived key is a UUID of version 8 (RFC 9562 §5.8).
///
/// # Where in the stack
///
/// Above the retry, so that a tool which spawns tasks finds a key in scope to carry into them
/// ([`CallContext`](crate::CallContext)): below a retry with no key in scope each of these tasks would mint its own.
/// Below a retry it still gives the same key on every attempt.
///
/// # Cancellation
///
/// Dropping the future drops the inner one.
///
/// # Errors
///
/// None of its own.
///
/// # Example
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// use std::convert::Infallible;
/// use serde_json::json;
/// use tower::{ServiceBuilder, ServiceExt};
/// use tower_composure::IdempotencyKey;
/// use tower_composure::tool::{ToolCall, ToolKeyLayer, ToolMarks, tool_fn};
///
/// let marks = ToolMarks::new().read("balance").idempotent_write("charge");
/// let layer = ToolKeyLayer::from_arguments().marks(marks).fields("charge", ["order"]);
/// let tool = ServiceBuilder::new().layer(layer).service(tool_fn(|_| async {
///     let key = IdempotencyKey::current();
///     Ok::<_, Infallible>(json!({"key": key.as_ref().map(IdempotencyKey::as_str)}))
/// }));
/// let call = |ts| ToolCall::new("charge").arg("order", 7).arg("ts", ts).invocation_id("turn-3");
/// let first = tool.clone().oneshot(call(1)).await.unwrap();
/// assert_eq!(first, tool.clone().oneshot(call(2)).await.unwrap());
/// let read = ToolCall::new("balance").invocation_id("turn-3");
/// assert!(tool.oneshot(read).await.unwrap()["key"].is_null());
/// # }
/// ```
#[derive(Clone)]
pub struct ToolKeyLayer {
    config: Arc<Config>,
}

#[derive(Clone)]
struct Config {
    by_arguments: bool,
    marks: Option<ToolMarks>,
    fields: Vec<(String, Vec<String>)>,
    watch: Option<Watch>,
}

impl ToolKeyLayer {
    /// Keys from the ids of a call.
    ///
    /// ```
    /// use tower_composure::{Stack, ToolKeyLayer, ToolPolicy};
    ///
    /// let stack = Stack::builder(ToolPolicy::new()).idempotency_key(ToolKeyLayer::new()).build()?;
    /// # Ok::<(), tower_composure::BoxError>(())
    /// ```
    pub fn new() -> Self {
        Self::of(false)
    }

    /// Keys from what is asked for.
    ///
    /// ```
    /// use tower_composure::{Stack, ToolKeyLayer, ToolPolicy};
    ///
    /// let stack = Stack::builder(ToolPolicy::new()).idempotency_key(ToolKeyLayer::from_arguments()).build()?;
    /// # Ok::<(), tower_composure::BoxError>(())
    /// ```
    pub fn from_arguments() -> Self {
        Self::of(true)
    }

    fn of(by_arguments: bool) -> Self {
        Self {
            config: Arc::new(Config {
                by_arguments,
                marks: None,
                fields: Vec::new(),
                watch: None,
            }),
        }
    }

    /// The effects of the tools: those that only read get no key, since a server would answer a key that it knows with
    /// what it has read before. Default: every call gets a key.
    ///
    /// ```
    /// use tower_composure::tool::{ToolKeyLayer, ToolMarks};
    ///
    /// let layer = ToolKeyLayer::new().marks(ToolMarks::new().read("balance").idempotent_write("charge"));
    /// ```
    #[must_use]
    pub fn marks(mut self, marks: ToolMarks) -> Self {
        Arc::make_mut(&mut self.config).marks = Some(marks);
        self
    }

    /// The arguments of a tool that make its key, for [`from_arguments`](Self::from_arguments): those that say what is
    /// asked for, and not a time or a nonce. A field that a call does not have does not count; where it has none of
    /// them, all its arguments do. Default: all arguments.
    ///
    /// ```
    /// use tower_composure::ToolKeyLayer;
    ///
    /// let layer = ToolKeyLayer::from_arguments().fields("charge", ["order", "cents"]);
    /// ```
    #[must_use]
    pub fn fields<I>(mut self, tool: impl Into<String>, fields: I) -> Self
    where
        I: IntoIterator<Item: Into<String>>,
    {
        let tool = tool.into();
        let declared = &mut Arc::make_mut(&mut self.config).fields;
        declared.retain(|(known, _)| *known != tool);
        declared.push((tool, fields.into_iter().map(Into::into).collect()));
        self
    }

    /// Who is told of the keys that are made and kept, under this name. In a stack, its own observer is.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use tower_composure::{ToolKeyLayer, TracingObserver};
    ///
    /// let layer = ToolKeyLayer::new().observer("payments", Arc::new(TracingObserver::new()));
    /// ```
    #[must_use]
    pub fn observer(
        mut self,
        dependency: impl Into<Arc<str>>,
        observer: Arc<dyn Observer>,
    ) -> Self {
        let watch = Watch::new(observer, dependency.into());
        Arc::make_mut(&mut self.config).watch = Some(watch);
        self
    }
}

impl KeyLayer for ToolKeyLayer {
    fn observed(self, dependency: Arc<str>, observer: Arc<dyn Observer>) -> Self {
        self.observer(dependency, observer)
    }

    fn is_transparent(&self) -> bool {
        true
    }
}

impl Default for ToolKeyLayer {
    fn default() -> Self {
        Self::new()
    }
}

impl Config {
    /// The key that this call is to have.
    fn key(&self, call: &ToolCall) -> Option<IdempotencyKey> {
        if let Some(key) = &call.key {
            self.tell(false);
            return Some(key.clone());
        }
        let marks = self.marks.as_ref();
        if marks.is_some_and(|marks| !marks.effect(&call.name).is_write()) {
            return None;
        }
        let mut minted = false;
        let key = context::claim_key(|| {
            minted = true;
            self.make(call)
        });
        self.tell(minted);
        Some(key)
    }

    fn tell(&self, minted: bool) {
        if let Some(watch) = &self.watch {
            watch.tell_key(minted);
        }
    }

    fn make(&self, call: &ToolCall) -> IdempotencyKey {
        let key = if self.by_arguments {
            let mut declared = self.fields.iter();
            let declared = declared.find(|(tool, _)| *tool == call.name);
            derive::of_arguments(call, declared.map(|(_, fields)| fields.as_slice()))
        } else {
            derive::of_call_id(call)
        };
        key.unwrap_or_else(IdempotencyKey::random)
    }
}

impl<S> Layer<S> for ToolKeyLayer {
    type Service = ToolKeyService<S>;

    fn layer(&self, inner: S) -> Self::Service {
        ToolKeyService {
            inner,
            config: Arc::clone(&self.config),
        }
    }
}

/// Gives each tool call one idempotency key. See [`ToolKeyLayer`].
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)] async fn main() -> Result<(), tower_composure::BoxError> {
/// use serde_json::json;
/// use tower::{Layer, ServiceExt};
/// use tower_composure::BoxError;
/// use tower_composure::tool::{ToolCall, ToolKeyLayer, ToolKeyService, tool_fn};
///
/// let tool = tool_fn(|call: ToolCall| async move { Ok::<_, BoxError>(json!({"keyed": call.key.is_some()})) });
/// let service: ToolKeyService<_> = ToolKeyLayer::new().layer(tool);
/// assert_eq!(service.oneshot(ToolCall::new("charge")).await?["keyed"], true);
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct ToolKeyService<S> {
    inner: S,
    config: Arc<Config>,
}

impl<S: Service<ToolCall>> Service<ToolCall> for ToolKeyService<S> {
    type Response = S::Response;
    type Error = S::Error;
    type Future = ToolKeyFuture<S::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, mut call: ToolCall) -> Self::Future {
        call.key = self.config.key(&call);
        let mut key = Slot::new(call.key.clone().map(KeyInScope::new));
        let inner = {
            let _scope = scope(&mut key);
            self.inner.call(call)
        };
        ToolKeyFuture { inner, key }
    }
}

/// Puts the key in scope. Where there is none the scope around stays as it is.
fn scope(key: &mut Slot<KeyInScope>) -> Option<Lending<'_, KeyInScope>> {
    key.is_some().then(|| Lending::enter(key))
}

pin_project! {
    /// The future of a [`ToolKeyService`].
    ///
    /// Dropping it drops the inner future.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)] async fn main() -> Result<(), tower_composure::BoxError> {
    /// use serde_json::json;
    /// use tower::{Layer, Service, ServiceExt};
    /// use tower_composure::BoxError;
    /// use tower_composure::tool::{ToolCall, ToolKeyFuture, ToolKeyLayer, tool_fn};
    ///
    /// let tool = tool_fn(|_: ToolCall| async { Ok::<_, BoxError>(json!({"status": "ok"})) });
    /// let mut service = ToolKeyLayer::new().layer(tool);
    /// let future: ToolKeyFuture<_> = service.ready().await?.call(ToolCall::new("charge"));
    /// assert_eq!(future.await?["status"], "ok");
    /// # Ok(()) }
    /// ```
    #[must_use = "futures do nothing unless polled"]
    pub struct ToolKeyFuture<F> {
        #[pin]
        inner: F,
        key: Slot<KeyInScope>,
    }
}

impl<F: Future> Future for ToolKeyFuture<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let this = self.project();
        let _scope = scope(this.key);
        this.inner.poll(cx)
    }
}

impl fmt::Debug for ToolKeyLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ToolKeyLayer")
            .field("by_arguments", &self.config.by_arguments)
            .field("fields", &self.config.fields)
            .finish_non_exhaustive()
    }
}

impl<S: fmt::Debug> fmt::Debug for ToolKeyService<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ToolKeyService")
            .field("inner", &self.inner)
            .finish_non_exhaustive()
    }
}

impl<F> fmt::Debug for ToolKeyFuture<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ToolKeyFuture").finish_non_exhaustive()
    }
}
