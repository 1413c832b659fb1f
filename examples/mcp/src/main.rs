//! An agent's tools in a child process that crashes in the middle of a charge.
//!
//! ```text
//! cargo run --manifest-path examples/mcp/Cargo.toml
//! ```
//!
//! `serve DIRECTORY [TOOL]` is the child: a server over stdio that crashes at the first call of that tool.

use std::path::PathBuf;

use mcp_tools::{Fault, Reconnecting, Shop, annotated};
use rmcp::ServiceExt as _;
use rmcp::transport::{TokioChildProcess, stdio};
use tokio::process::Command;
use tower::{ServiceBuilder, ServiceExt as _};
use tower_composure::tool::{EnvelopeLayer, ToolKeyLayer, shape};
use tower_composure::{BoxError, Stack, ToolCall, ToolPolicy};

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args.as_slice() {
        [] => demonstrate().await,
        [serve, directory, crashing @ ..] if serve == "serve" => {
            let mut shop = Shop::new(PathBuf::from(directory));
            if let [tool] = crashing {
                shop = shop.fault(tool, Fault::Crash);
            }
            shop.serve(stdio()).await?.waiting().await?;
            Ok(())
        }
        _ => {
            eprintln!("usage: mcp-tools [serve DIRECTORY [TOOL]]");
            std::process::exit(2);
        }
    }
}

async fn demonstrate() -> Result<(), BoxError> {
    for crashing in ["find_charge", "charge", "send_receipt"] {
        let directory = std::env::temp_dir().join(format!("mcp-tools-{}", std::process::id()));
        std::fs::create_dir_all(&directory)?;
        let program = std::env::current_exe()?;
        let target = directory.clone();
        let tools = Reconnecting::new(move || {
            let mut child = Command::new(&program);
            child.arg("serve").arg(&target).arg(crashing);
            async move { Ok(().serve(TokioChildProcess::new(child)?).await?) }
        });
        // We run this server ourselves, so its annotations can be believed.
        let marks = annotated(&tools.peer().await?.list_all_tools().await?);
        let policy = ToolPolicy::marked(marks.clone()).shape(shape::mcp);
        let tools = ServiceBuilder::new()
            .layer(EnvelopeLayer::new(policy.clone()).check_with("charge", "find_charge"))
            .layer(ToolKeyLayer::from_arguments().marks(marks))
            .layer(Stack::builder(policy).build()?)
            .service(tools);

        println!("the server crashes in {crashing}:");
        for tool in ["find_charge", "charge", "send_receipt"] {
            let call = ToolCall::new(tool).arg("order", 7).invocation_id("turn-1");
            let Ok(answer) = tools.clone().oneshot(call).await;
            println!("  {tool:13} {}", serde_json::to_string(&answer)?);
        }
        for tool in ["charge", "send_receipt"] {
            println!(
                "  done: {tool} {} time(s)",
                Shop::done(&directory, tool).len()
            );
        }
        std::fs::remove_dir_all(&directory)?;
    }
    Ok(())
}
