use std::fmt;
use std::sync::Arc;

use ::http::{HeaderName, Method, Uri};
use tower_layer::Layer;

use super::HttpTool;
use crate::error::ConfigError;

/// One operation of an HTTP API, as a tool. See the [module](super).
///
/// ```
/// use http::Method;
/// use tower_composure::tool::HttpOperation;
///
/// let orders = HttpOperation::new(Method::GET, "https://shop.test/orders/{order}")?.query("fields");
/// # Ok::<(), tower_composure::BoxError>(())
/// ```
#[derive(Clone)]
pub struct HttpOperation {
    pub(super) plan: Arc<Plan>,
}

#[derive(Clone)]
pub(super) struct Plan {
    pub(super) method: Method,
    pub(super) path: Vec<Part>,
    pub(super) query: Vec<String>,
    pub(super) key_header: HeaderName,
}

/// A piece of the target.
#[derive(Clone)]
pub(super) enum Part {
    Text(String),
    Argument(String),
}

impl Plan {
    pub(super) fn is_in_path(&self, name: &str) -> bool {
        let mut parts = self.path.iter();
        parts.any(|part| matches!(part, Part::Argument(argument) if argument == name))
    }
}

impl HttpOperation {
    /// A request of this method to this target, in whose path `{name}` stands for an argument.
    ///
    /// # Errors
    ///
    /// Where a brace is not closed or empty, an argument stands before the path, or the target is no URI.
    ///
    /// ```
    /// use http::Method;
    /// use tower_composure::tool::HttpOperation;
    ///
    /// assert!(HttpOperation::new(Method::POST, "https://shop.test/orders/{order}/charges").is_ok());
    /// assert!(HttpOperation::new(Method::POST, "https://shop.test/orders/{order").is_err());
    /// ```
    pub fn new(method: Method, target: impl AsRef<str>) -> Result<Self, ConfigError> {
        let path = parse(target.as_ref())?;
        Ok(Self {
            plan: Arc::new(Plan {
                method,
                path,
                query: Vec::new(),
                key_header: crate::http::IDEMPOTENCY_KEY,
            }),
        })
    }

    /// The argument of this name goes into the query, where a call has it.
    ///
    /// ```
    /// use http::Method;
    /// use tower_composure::tool::HttpOperation;
    ///
    /// let search = HttpOperation::new(Method::POST, "https://shop.test/search")?.query("page");
    /// # Ok::<(), tower_composure::BoxError>(())
    /// ```
    #[must_use]
    pub fn query(mut self, name: impl Into<String>) -> Self {
        Arc::make_mut(&mut self.plan).query.push(name.into());
        self
    }

    /// The header that the key goes into. Default `idempotency-key`.
    ///
    /// ```
    /// use http::{HeaderName, Method};
    /// use tower_composure::tool::HttpOperation;
    ///
    /// let charge = HttpOperation::new(Method::POST, "https://shop.test/charges")?
    ///     .key_header(HeaderName::from_static("x-request-key"));
    /// # Ok::<(), tower_composure::BoxError>(())
    /// ```
    #[must_use]
    pub fn key_header(mut self, header: HeaderName) -> Self {
        Arc::make_mut(&mut self.plan).key_header = header;
        self
    }
}

fn parse(target: &str) -> Result<Vec<Part>, ConfigError> {
    let wrong = |reason: &str| ConfigError::new("target", reason.to_owned());
    let mut parts = Vec::new();
    let mut plain = String::new();
    let mut rest = target;
    while let Some((text, after)) = rest.split_once('{') {
        let (name, after) = after
            .split_once('}')
            .ok_or_else(|| wrong("a brace is not closed"))?;
        if name.is_empty() {
            return Err(wrong("an argument has no name"));
        }
        plain.push_str(text);
        let authority = plain.split_once("://").map_or("", |(_, after)| after);
        if !plain.starts_with('/') && !authority.as_bytes().contains(&b'/') {
            return Err(wrong("an argument stands before the path"));
        }
        // What stands in for the argument while the target is checked.
        plain.push('0');
        parts.push(Part::Text(text.to_owned()));
        parts.push(Part::Argument(name.to_owned()));
        rest = after;
    }
    plain.push_str(rest);
    parts.push(Part::Text(rest.to_owned()));
    match plain.parse::<Uri>() {
        Ok(uri) if uri.query().is_none() => Ok(parts),
        Ok(_) => Err(wrong("it has a query; name its arguments instead")),
        Err(_) => Err(wrong("it is no URI")),
    }
}

impl<S> Layer<S> for HttpOperation {
    type Service = HttpTool<S>;

    fn layer(&self, inner: S) -> Self::Service {
        HttpTool::new(inner, Arc::clone(&self.plan))
    }
}

impl fmt::Debug for HttpOperation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpOperation")
            .field("method", &self.plan.method)
            .finish_non_exhaustive()
    }
}
