use std::fs::{self, OpenOptions};
use std::future::pending;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, CancelledNotificationParam,
    ContentBlock, ErrorData, JsonObject, ListToolsResult, PaginatedRequestParams,
    ServerCapabilities, ServerConfig, Tool, ToolAnnotations,
};
use rmcp::service::{NotificationContext, RequestContext};
use rmcp::{RoleServer, ServerHandler};
use serde_json::{Value, json};
use tokio::sync::mpsc::UnboundedSender;

use crate::client::KEY_FIELD;

/// A server that finds and makes charges and sends receipts. What it has done is in files, so that it outlives a crash.
///
/// `charge` honours keys, `send_receipt` does not, and `hang` never answers.
#[derive(Clone)]
pub struct Shop {
    directory: PathBuf,
    fault: Option<(String, Fault)>,
    cancelled: Option<UnboundedSender<CancelledNotificationParam>>,
}

/// What befalls the first call of a tool, after the tool has done its work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The process is gone.
    Crash,
    /// The answer is an error result with the code `UNAVAILABLE`.
    Unavailable,
}

impl Shop {
    pub fn new(directory: impl Into<PathBuf>) -> Self {
        Self {
            directory: directory.into(),
            fault: None,
            cancelled: None,
        }
    }

    #[must_use]
    pub fn fault(mut self, tool: impl Into<String>, fault: Fault) -> Self {
        self.fault = Some((tool.into(), fault));
        self
    }

    /// Where each `notifications/cancelled` goes.
    #[must_use]
    pub fn cancelled(mut self, to: UnboundedSender<CancelledNotificationParam>) -> Self {
        self.cancelled = Some(to);
        self
    }

    /// What a tool has done, a line each.
    pub fn done(directory: &Path, tool: &str) -> Vec<String> {
        let text = fs::read_to_string(directory.join(tool)).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    fn append(&self, file: &str, line: &str) -> Result<(), ErrorData> {
        let written = OpenOptions::new()
            .create(true)
            .append(true)
            .open(self.directory.join(file))
            .and_then(|mut file| writeln!(file, "{line}"));
        written.map_err(|_| ErrorData::internal_error("the ledger cannot be written", None))
    }

    fn carry_out(&self, tool: &str, order: &str, key: Option<&str>) -> Result<Value, ErrorData> {
        let charges = Self::done(&self.directory, "charge");
        match tool {
            "find_charge" => {
                let found = charges
                    .iter()
                    .any(|charge| charge.split(' ').next() == Some(order));
                Ok(json!({ "charged": found }))
            }
            "charge" => {
                let line = format!("{order} {}", key.unwrap_or("-"));
                let replayed = key.is_some() && charges.contains(&line);
                if !replayed {
                    self.append("charge", &line)?;
                }
                Ok(json!({ "replayed": replayed }))
            }
            "send_receipt" => {
                self.append("send_receipt", order)?;
                Ok(json!({}))
            }
            _ => Err(ErrorData::invalid_params("there is no such tool", None)),
        }
    }

    /// The fault of this call, the first time that it is asked.
    fn strikes(&self, tool: &str) -> Option<Fault> {
        let (_, fault) = self.fault.as_ref().filter(|(on, _)| on == tool)?;
        let struck = self.directory.join("struck");
        let is_first = OpenOptions::new()
            .write(true)
            .create_new(true)
            .open(struck)
            .is_ok();
        is_first.then_some(*fault)
    }
}

impl ServerHandler for Shop {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
    }

    async fn list_tools(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let hints = ToolAnnotations::new;
        Ok(ListToolsResult::with_all_items(vec![
            tool(
                "find_charge",
                "Was this order charged?",
                hints().read_only(true),
            ),
            tool("charge", "Charges an order", hints().idempotent(true)),
            tool("send_receipt", "Sends a receipt", hints()),
            tool("hang", "Never answers", hints().read_only(true)),
        ]))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let tool = request.name.as_ref();
        self.append("calls", tool)?;
        if tool == "hang" {
            return pending().await;
        }
        let key = context.meta.get(KEY_FIELD).and_then(Value::as_str);
        let order = request
            .arguments
            .as_ref()
            .and_then(|args| args.get("order"));
        let Some(order) = order.and_then(Value::as_u64) else {
            return Ok(match order {
                Some(_) => refused("INVALID_ARGUMENT"),
                None => CallToolResult::error(vec![ContentBlock::text("something broke")]).into(),
            });
        };
        let done = self.carry_out(tool, &order.to_string(), key)?;
        match self.strikes(tool) {
            Some(Fault::Crash) => std::process::exit(1),
            Some(Fault::Unavailable) => Ok(refused("UNAVAILABLE")),
            None => Ok(CallToolResult::structured(done).into()),
        }
    }

    async fn on_cancelled(
        &self,
        notification: CancelledNotificationParam,
        _context: NotificationContext<RoleServer>,
    ) {
        if let Some(to) = &self.cancelled {
            let _ = to.send(notification);
        }
    }
}

fn refused(code: &str) -> CallToolResponse {
    CallToolResult::structured_error(json!({ "error": { "code": code } })).into()
}

fn tool(name: &'static str, description: &'static str, hints: ToolAnnotations) -> Tool {
    let mut schema = JsonObject::new();
    schema.insert("type".to_owned(), "object".into());
    Tool::new(name, description, Arc::new(schema)).with_annotations(hints)
}
