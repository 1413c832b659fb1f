//! A gRPC client in front of a server that is starting up: what is retried, when, and what the server sees of it.
//!
//!     cargo run --example grpc_client --features grpc
//!
//! Client and server run in one process, over HTTP/2 on the loopback interface.
#![expect(clippy::print_stdout, reason = "an example prints what happened")]

use std::time::Duration;

use tower_composure::{BoxError, CallReport};

use crate::payments::payments_client::PaymentsClient;
use crate::payments::{ChargeRequest, LookRequest};

mod client;
#[rustfmt::skip]
#[allow(
    clippy::all,
    clippy::pedantic,
    clippy::allow_attributes_without_reason,
    clippy::clone_on_ref_ptr,
    clippy::unwrap_used,
    missing_docs,
    unreachable_pub,
    unused_qualifications,
    reason = "it is generated"
)]
mod payments;
mod server;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), BoxError> {
    let server = server::Ledger::default();
    let channel = client::connect(server.clone().start().await?)?;
    let service = client::stack(channel, Duration::from_secs(2))?;
    let mut payments = PaymentsClient::new(service);

    println!("A read, while the server starts: it pushes back twice.");
    server.refuse(2, Some(40));
    let look = payments.look(LookRequest {
        order: "7".to_owned(),
    });
    told(&server, CallReport::of(look).await);

    println!(
        "\nA write. UNAVAILABLE does not say that nothing was charged, so it is not repeated."
    );
    server.refuse(1, None);
    told(&server, CallReport::of(payments.charge(order())).await);

    println!("\nThe same write with a key, which this server honours.");
    server.refuse(1, Some(25));
    let mut request = tonic::Request::new(order());
    let key = "order-7".parse()?;
    request.metadata_mut().insert("idempotency-key", key);
    told(&server, CallReport::of(payments.charge(request)).await);

    println!("\nA server that asks not to be called again.");
    server.refuse(1, Some(-1));
    let look = payments.look(LookRequest {
        order: "7".to_owned(),
    });
    told(&server, CallReport::of(look).await);
    Ok(())
}

fn order() -> ChargeRequest {
    ChargeRequest {
        order: "7".to_owned(),
        cents: 1999,
    }
}

type Outcome<T> = Result<tonic::Response<T>, tonic::Status>;

/// Prints what the server saw of a call, and how it ended.
fn told<T>(server: &server::Ledger, (outcome, report): (Outcome<T>, Option<CallReport>)) {
    for seen in server.seen() {
        println!("  {seen}");
    }
    let code = outcome.map_or_else(|status| status.code(), |_| tonic::Code::Ok);
    let Some(report) = report else { return };
    println!(
        "  -> {code:?}; attempts: {}, waited: {:?}, stopped by: {}, outcome unknown: {}",
        report.attempts(),
        report.backoff(),
        report
            .stop_reason()
            .map_or("nothing", |reason| reason.as_str()),
        report.outcome_unknown(),
    );
}
