//! The tools, and the layers above them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::http::Method;
use serde_json::Value;
use tower::util::BoxCloneSyncService;
use tower::{Layer, ServiceBuilder, ServiceExt};
use tower_composure::tool::{
    EnvelopeLayer, HttpOperation, ToolCall, ToolKeyLayer, ToolMarks, ToolResponse, ToolSet,
};
use tower_composure::{
    BoxError, Budget, CallReport, CircuitBreaker, Effect, Observer, Stack, ToolPolicy, Verdict,
};

use crate::api::{self, Shared};

pub(crate) const FIND: &str = "find_charge";
pub(crate) const CHARGE: &str = "charge";
pub(crate) const RECEIPT: &str = "send_receipt";

type Tool = BoxCloneSyncService<ToolCall, ToolResponse, BoxError>;

/// What each tool does, by name.
pub(crate) fn marks() -> ToolMarks {
    ToolMarks::new()
        .read(FIND)
        .idempotent_write(CHARGE)
        .write(RECEIPT)
}

pub(crate) const fn name(effect: Effect) -> &'static str {
    match effect {
        Effect::Read => "read",
        Effect::IdempotentWrite => "idempotent_write",
        Effect::Write => "write",
    }
}

/// All tools behind one service that answers with maps for the model.
#[derive(Clone)]
pub(crate) struct Tools(BoxCloneSyncService<ToolCall, ToolResponse, std::convert::Infallible>);

impl Tools {
    pub(crate) fn new(
        ledger: &Shared,
        refusals: &Arc<Refusals>,
        seed: u64,
    ) -> Result<Self, BoxError> {
        // Both APIs answer 503 before they do anything, as their documentation says.
        let policy = ToolPolicy::marked(marks()).code("UNAVAILABLE", Verdict::REFUSED);

        // One budget and one breaker for each dependency: two of the tools call the shop.
        let shop = Dependency::new(seed, 10)?;
        // It is down earlier than the shop, so that there are charges to send a receipt for.
        let mailer = Dependency::new(seed, 5)?;
        let tool = |name, method, target, dependency: &Dependency| {
            let stack = Stack::builder(policy.clone())
                .dependency(name)
                .budget(dependency.budget.clone())
                .breaker(dependency.breaker.clone())
                .observer(Arc::clone(refusals) as _)
                .seed(seed)
                .build()?;
            let operation = HttpOperation::new(method, target)?;
            let client = api::client(name, ledger, seed, dependency.down)?;
            Ok::<_, BoxError>(Tool::new(stack.layer(operation.layer(client))))
        };
        let charge = "http://shop.test/orders/{order}/charge";
        let receipt = "http://mail.test/orders/{order}/receipt";
        let tools = ToolSet::builder()
            .tool(FIND, tool(FIND, Method::GET, charge, &shop)?)
            .tool(CHARGE, tool(CHARGE, Method::POST, charge, &shop)?)
            .tool(RECEIPT, tool(RECEIPT, Method::POST, receipt, &mailer)?)
            .build()?;
        Ok(Self(BoxCloneSyncService::new(
            ServiceBuilder::new()
                .layer(EnvelopeLayer::new(policy.clone()).check_with(CHARGE, FIND))
                .layer(
                    ToolKeyLayer::from_arguments()
                        .marks(marks())
                        .fields(CHARGE, ["order"]),
                )
                .service(tools),
        )))
    }

    /// Makes a call, which never fails: what went wrong is in the map.
    pub(crate) async fn call(&self, call: ToolCall) -> Value {
        let Ok(answer) = self.0.clone().oneshot(call).await;
        Value::Object(answer)
    }
}

/// What the tools that call one API share.
struct Dependency {
    budget: Budget,
    breaker: CircuitBreaker,
    /// When its outage begins.
    down: Duration,
}

impl Dependency {
    fn new(seed: u64, down: u64) -> Result<Self, BoxError> {
        Ok(Self {
            budget: Budget::default(),
            breaker: CircuitBreaker::builder().seed(seed).build()?,
            down: Duration::from_secs(down),
        })
    }
}

/// Counts the retries that were refused, by tool and reason.
#[derive(Debug, Default)]
pub(crate) struct Refusals(Mutex<BTreeMap<String, BTreeMap<&'static str, u32>>>);

impl Refusals {
    pub(crate) fn of(&self, tool: &str) -> BTreeMap<&'static str, u32> {
        let counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        counts.get(tool).cloned().unwrap_or_default()
    }
}

impl Observer for Refusals {
    fn call_finished(&self, dependency: &str, report: &CallReport) {
        if let Some(reason) = report.stop_reason() {
            let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            let of_tool = counts.entry(dependency.to_owned()).or_default();
            *of_tool.entry(reason.as_str()).or_default() += 1;
        }
    }
}
