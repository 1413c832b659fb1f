//! A client that is watched: Prometheus' metrics on a page, traces on standard output, and an outage now and then.
//!
//! ```text
//! cargo run --example observed
//! prometheus --config.file=observability/prometheus.yml     # in another terminal, for the alerts
//! ```
//!
//! It charges 100 cards a second through the whole stack. The API is down for 20 s of every minute. What comes once a
//! call is logged at DEBUG and not shown here; the breaker's transitions and calls whose outcome is unknown are.

#![expect(clippy::print_stdout, reason = "an example talks to a person")]

use std::time::Duration;

use tokio::time::sleep;
use tower_composure::BoxError;

use crate::app::App;

mod app;

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    tracing_subscriber::fmt()
        .with_max_level(tracing::Level::INFO)
        .init();
    let app = App::start().await?;
    let address = app.serve_metrics("127.0.0.1:9464").await?;
    println!("{address}/metrics, until Ctrl-C");
    tokio::select! {
        () = app.charge_for_ever() => {}
        () = outages(&app) => {}
        stopped = tokio::signal::ctrl_c() => stopped?,
    }
    Ok(())
}

async fn outages(app: &App) {
    loop {
        sleep(Duration::from_secs(40)).await;
        println!("the API goes down");
        app.take_down(true);
        sleep(Duration::from_secs(20)).await;
        println!("the API is back");
        app.take_down(false);
    }
}
