//! The model: a script that does what the envelope tells it to.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::task::JoinSet;
use tokio::time::sleep;
use tower_composure::BoxError;
use tower_composure::tool::ToolCall;

use crate::api::{Shared, lock};
use crate::args::Args;
use crate::report::{Report, Told};
use crate::tools::{CHARGE, FIND, RECEIPT, Refusals, Tools};

/// Orders of a session, and how far apart they come.
const ORDERS: u64 = 3;
const APART: Duration = Duration::from_secs(20);
/// How often a model calls a tool again that asks it to.
const PATIENCE: u32 = 3;
/// One in so many charges is asked for again although it was made.
const FORGETS: u64 = 8;

/// Runs all sessions, and says what came of them.
pub(crate) async fn run(args: &Args) -> Result<Report, BoxError> {
    let ledger = Shared::default();
    let refusals = Arc::new(Refusals::default());
    let told = Arc::new(Told::default());
    let tools = Tools::new(&ledger, &refusals, args.seed)?;

    let mut sessions = JoinSet::new();
    for session in 0..args.sessions {
        let starts = APART * session / args.sessions;
        let turn = Turn {
            tools: tools.clone(),
            told: Arc::clone(&told),
            order: 0,
            calls: 0,
        };
        let seed = args.seed;
        sessions.spawn(async move {
            sleep(starts).await;
            for nth in 0..ORDERS {
                let order = u64::from(session) * ORDERS + nth + 1;
                let turn = Turn {
                    order,
                    ..turn.clone()
                };
                tokio::join!(
                    turn.take(order.wrapping_add(seed) % FORGETS == 0),
                    sleep(APART)
                );
            }
        });
    }
    while let Some(session) = sessions.join_next().await {
        session?;
    }
    Ok(Report::new(args, &lock(&ledger), &refusals, &told))
}

/// One turn of the agent: it takes an order through the tools.
#[derive(Clone)]
struct Turn {
    tools: Tools,
    told: Arc<Told>,
    order: u64,
    calls: u32,
}

impl Turn {
    async fn take(mut self, forgets: bool) {
        let found = self.insist(FIND).await;
        if found["charged"] == true {
            return;
        }
        let mut charged = self.insist(CHARGE).await;
        if charged["action"] == "check_state" {
            // It asks whether it was done. If not, it asks for it again, within the turn and so under the same key.
            let tool = charged["check_with"].as_str().unwrap_or(FIND).to_owned();
            let found = self.insist(&tool).await;
            if found["charged"] == false {
                charged = self.insist(CHARGE).await;
            }
        }
        if forgets {
            self.insist(CHARGE).await;
        }
        if charged["status"] == "ok" {
            self.insist(RECEIPT).await;
        }
    }

    /// Calls a tool, and again after as long as it is told to wait.
    async fn insist(&mut self, tool: &str) -> Value {
        for _ in 0..PATIENCE {
            let answer = self.call(tool).await;
            let Some(wait) = answer["retry_after"].as_u64() else {
                return answer;
            };
            sleep(Duration::from_secs(wait)).await;
        }
        self.call(tool).await
    }

    async fn call(&mut self, tool: &str) -> Value {
        self.calls += 1;
        let call = ToolCall::new(tool)
            .arg("order", self.order)
            .invocation_id(format!("turn-{}", self.order))
            .function_call_id(format!("call-{}", self.calls));
        let answer = self.tools.call(call).await;
        self.told.count(tool, &answer);
        answer
    }
}
