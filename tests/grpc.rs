//! The stack under a generated client, against a real server: tonic at both ends, over HTTP/2.
#![cfg(all(not(loom), feature = "grpc"))]
#![expect(clippy::unwrap_used, reason = "a test may")]

use std::error::Error;
use std::future::Future;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::time::timeout;
use tonic::codegen::tokio_stream::StreamExt;
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;
use tonic::{Code, Request, Response, Status};
use tower::ServiceBuilder;
use tower_composure::{
    BoxError, CallReport, Deadline, DeadlineExceeded, DeadlineFromHeaderLayer, DeadlineLayer,
    Effect, GrpcPolicy, StopReason, Verdict, grpc,
};

use crate::payments::payments_client::PaymentsClient;
use crate::payments::payments_server::{Payments, PaymentsServer};
use crate::payments::{ChargeReply, ChargeRequest, LookRequest};
use crate::server::{Ledger, Seen};

#[path = "../examples/grpc_client/client.rs"]
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
#[path = "../examples/grpc_client/payments.rs"]
mod payments;
#[path = "../examples/grpc_client/server.rs"]
#[allow(dead_code, reason = "the example prints what is only compared here")]
mod server;

type Client = PaymentsClient<client::Service>;

const SECOND: Duration = Duration::from_secs(1);
/// Far longer than any of it takes.
const CALL: Duration = Duration::from_secs(20);

fn policy() -> GrpcPolicy {
    GrpcPolicy::new().effect_fn(client::effect)
}

async fn connected(ledger: &Ledger, policy: GrpcPolicy) -> Client {
    let address = ledger.clone().start().await.unwrap();
    let channel = client::connect(address).unwrap();
    PaymentsClient::new(client::around(channel, CALL, policy).unwrap())
}

fn look() -> LookRequest {
    LookRequest {
        order: "7".to_owned(),
    }
}

fn charge() -> ChargeRequest {
    ChargeRequest {
        order: "7".to_owned(),
        cents: 1999,
    }
}

/// A call and its report; a test that hangs has failed.
async fn report<T>(
    call: impl Future<Output = Result<T, Status>>,
) -> (Result<T, Status>, CallReport) {
    let (outcome, report) = timeout(CALL + SECOND, CallReport::of(call)).await.unwrap();
    (outcome, report.unwrap())
}

fn previous(seen: &[Seen]) -> Vec<Option<&str>> {
    seen.iter()
        .map(|seen| seen.previous_attempts.as_deref())
        .collect()
}

/// The timeout that a server was sent.
fn told(seen: &Seen) -> Duration {
    let text = seen.timeout.as_deref().unwrap();
    tower_composure::wire::TimeoutFormat::Grpc
        .read(text.as_bytes())
        .unwrap()
}

#[tokio::test]
async fn a_read_is_retried_and_the_server_sees_which_attempt_it_is_and_what_is_left() {
    let ledger = Ledger::default();
    let mut client = connected(&ledger, policy()).await;
    ledger.refuse(2, Some(1));
    let (outcome, report) = report(client.look(look())).await;
    let response = outcome.unwrap();
    assert_eq!(
        response.extensions().get(),
        Some(&report),
        "the caller finds it there too"
    );
    assert_eq!(response.into_inner().order, "7");
    assert_eq!(
        (report.attempts(), report.backoff()),
        (3, Duration::from_millis(2))
    );

    let seen = ledger.seen();
    assert_eq!(previous(&seen), [None, Some("1"), Some("2")]);
    let mut before = CALL.min(3 * SECOND);
    for seen in &seen {
        // Each attempt is told what is left, and believes no more; none has more than an attempt may take.
        assert!(told(seen) <= CALL.min(3 * SECOND));
        assert!(seen.remaining.unwrap() <= told(seen));
        before = before.min(told(seen));
    }
    assert!(before > SECOND);
}

#[tokio::test]
async fn a_call_that_nobody_marked_is_a_write_and_is_not_repeated() {
    let ledger = Ledger::default();
    let mut client = connected(&ledger, policy()).await;
    ledger.refuse(1, Some(1));
    let (outcome, report_of) = report(client.charge(charge())).await;
    assert_eq!(outcome.unwrap_err().code(), Code::Unavailable);
    assert_eq!(report_of.stop_reason(), Some(StopReason::OutcomeUnknown));
    assert!(report_of.outcome_unknown());
    assert_eq!(ledger.seen().len(), 1);

    // Marked by the request itself: tonic keeps its extensions.
    ledger.refuse(1, Some(1));
    let mut marked = Request::new(charge());
    marked.extensions_mut().insert(Effect::IdempotentWrite);
    let (outcome, report) = report(client.charge(marked)).await;
    assert_eq!(outcome.unwrap().into_inner().cents, 1999);
    assert_eq!(report.attempts(), 2);
    assert_eq!(ledger.seen().len(), 2);
}

#[tokio::test]
async fn a_write_is_repeated_where_unavailable_means_refused() {
    let ledger = Ledger::default();
    let refuses = policy().code(grpc::Code::Unavailable, Verdict::REFUSED);
    let mut client = connected(&ledger, refuses).await;
    ledger.refuse(2, Some(1));
    let (outcome, report) = report(client.charge(charge())).await;
    assert_eq!(outcome.unwrap().into_inner().cents, 1999);
    assert_eq!(report.attempts(), 3);
}

#[tokio::test]
async fn a_negative_pushback_is_the_end() {
    let ledger = Ledger::default();
    let mut client = connected(&ledger, policy()).await;
    ledger.refuse(1, Some(-1));
    let (outcome, report) = report(client.look(look())).await;
    assert_eq!(outcome.unwrap_err().code(), Code::Unavailable);
    assert_eq!(report.stop_reason(), Some(StopReason::HintExceedsLimit));
    assert_eq!(ledger.seen().len(), 1);
}

#[tokio::test]
async fn a_stream_is_committed_when_it_begins() {
    let ledger = Ledger::default();
    let mut client = connected(&ledger, policy()).await;
    let (outcome, first) = report(client.history(look())).await;
    let mut entries = outcome.unwrap().into_inner();
    assert_eq!(entries.next().await.unwrap().unwrap().cents, 1);
    let lost = entries.next().await.unwrap().unwrap_err();
    assert_eq!((lost.code(), first.attempts()), (Code::Unavailable, 1));
    assert_eq!(ledger.seen().len(), 1);

    // Refused before it begins, it is retried.
    ledger.refuse(1, Some(1));
    let (outcome, again) = report(client.history(look())).await;
    assert_eq!(
        outcome
            .unwrap()
            .into_inner()
            .next()
            .await
            .unwrap()
            .unwrap()
            .cents,
        1
    );
    assert_eq!(again.attempts(), 2);
}

#[tokio::test]
async fn a_connection_that_nobody_accepts_is_refused_and_safe_for_a_write() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let channel = client::connect(address).unwrap();
    let mut client = PaymentsClient::new(client::stack(channel, CALL).unwrap());
    let (outcome, report) = report(client.charge(charge())).await;
    assert!(outcome.is_err());
    assert_eq!(report.attempts(), 4);
    assert_eq!(report.verdict(), Verdict::REFUSED);
    assert!(!report.outcome_unknown());
}

/// A service that does what it is told, and remembers how much time it had.
struct Scripted<F> {
    act: F,
}

#[tonic::async_trait]
impl<F, Fut> Payments for Scripted<F>
where
    F: Fn(Duration) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<(), Status>> + Send,
{
    async fn charge(&self, _: Request<ChargeRequest>) -> Result<Response<ChargeReply>, Status> {
        Err(Status::unimplemented("not needed"))
    }

    async fn look(&self, _: Request<LookRequest>) -> Result<Response<ChargeReply>, Status> {
        let remaining = Deadline::current().map_or(Duration::MAX, |deadline| deadline.remaining());
        (self.act)(remaining).await?;
        Ok(Response::new(ChargeReply::default()))
    }

    type HistoryStream = tonic::codegen::tokio_stream::Empty<Result<ChargeReply, Status>>;

    async fn history(
        &self,
        _: Request<LookRequest>,
    ) -> Result<Response<Self::HistoryStream>, Status> {
        Err(Status::unimplemented("not needed"))
    }
}

/// Serves with the scope that the header opens, and nothing that ends it.
async fn serve<F, Fut>(act: F) -> std::net::SocketAddr
where
    F: Fn(Duration) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<(), Status>> + Send + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let server = Server::builder()
        .layer(DeadlineFromHeaderLayer::grpc())
        .add_service(PaymentsServer::new(Scripted { act }))
        .serve_with_incoming(TcpIncoming::from(listener));
    tokio::spawn(server);
    address
}

#[tokio::test]
async fn a_deadline_crosses_two_servers_and_only_shrinks() {
    let last = Ledger::default();
    let address = last.clone().start().await.unwrap();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&seen);
    let middle = serve(move |remaining| {
        log.lock().unwrap().push(remaining);
        // A stack of its own, with limits beyond its caller's.
        let channel = client::connect(address).unwrap();
        let stack = client::stack(channel, 60 * SECOND).unwrap();
        async move { PaymentsClient::new(stack).look(look()).await.map(|_| ()) }
    })
    .await;

    let limit = 2 * SECOND;
    let channel = client::connect(middle).unwrap();
    let mut client = PaymentsClient::new(client::stack(channel, limit).unwrap());
    report(client.look(look())).await.0.unwrap();

    let at_middle = seen.lock().unwrap()[0];
    let at_last = &last.seen()[0];
    let never_grows = [limit, at_middle, told(at_last), at_last.remaining.unwrap()];
    assert!(
        never_grows.is_sorted_by(|one, next| one >= next),
        "{never_grows:?}"
    );
    assert!(at_last.remaining.unwrap() > Duration::ZERO);
}

#[tokio::test]
async fn a_server_without_time_answers_that_the_deadline_has_passed() {
    let hang = tower::service_fn(|_: http::Request<tonic::body::Body>| {
        std::future::pending::<Result<http::Response<tonic::body::Body>, BoxError>>()
    });
    let server = ServiceBuilder::new()
        .map_result(|outcome: Result<_, BoxError>| {
            outcome.or_else(|error| Ok::<_, BoxError>(grpc::error_response(&*error)))
        })
        .layer(DeadlineFromHeaderLayer::grpc())
        .layer(DeadlineLayer::call(CALL))
        .service(hang);
    // The answer, as a generated client reads it.
    let mut client = PaymentsClient::new(server);
    let mut request = Request::new(look());
    request.set_timeout(Duration::from_millis(10));
    let status = timeout(CALL, client.look(request))
        .await
        .unwrap()
        .unwrap_err();
    assert_eq!(status.code(), Code::DeadlineExceeded);
}

#[tokio::test]
async fn the_deadline_ends_a_call_and_not_the_timer_of_the_channel() {
    let address = serve(|_| std::future::pending()).await;
    let channel = client::connect(address).unwrap();
    let stack = client::stack(channel, Duration::from_millis(50)).unwrap();
    let mut client = PaymentsClient::new(stack);
    // Whose timer is seen first is chance, so this is asked more than once.
    for _ in 0..8 {
        let status = timeout(CALL, client.look(look()))
            .await
            .unwrap()
            .unwrap_err();
        assert_eq!(status.code(), Code::DeadlineExceeded);
        let ours = status
            .source()
            .and_then(|error| DeadlineExceeded::find(error));
        assert!(ours.unwrap().is_call());
    }
}
