//! A server that says how it was called, and refuses when it is told to.

use std::fmt;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::time::Instant;
use tonic::codegen::tokio_stream::{self, Stream};
use tonic::metadata::MetadataMap;
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;
use tonic::{Request, Response, Status};
use tower::ServiceBuilder;
use tower_composure::{BoxError, Deadline, DeadlineFromHeaderLayer, DeadlineLayer, grpc};

use crate::payments::payments_server::{Payments, PaymentsServer};
use crate::payments::{ChargeReply, ChargeRequest, LookRequest};

/// Books charges, and remembers how it was asked to.
#[derive(Clone, Default)]
pub(crate) struct Ledger {
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    refusals: u32,
    pushback: Option<i32>,
    began: Option<Instant>,
    seen: Vec<Seen>,
}

/// A request as it arrived.
#[derive(Debug, Clone)]
pub(crate) struct Seen {
    pub(crate) after: Duration,
    pub(crate) previous_attempts: Option<String>,
    pub(crate) timeout: Option<String>,
    /// What is left of the deadline in scope.
    pub(crate) remaining: Option<Duration>,
    pub(crate) refused: bool,
}

impl fmt::Display for Seen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let header = |value: &Option<String>| value.clone().unwrap_or_else(|| "-".to_owned());
        write!(
            f,
            "+{:>3} ms  previous attempts: {}  grpc-timeout: {:>9}  left: {:>4} ms  {}",
            self.after.as_millis(),
            header(&self.previous_attempts),
            header(&self.timeout),
            self.remaining.unwrap_or_default().as_millis(),
            if self.refused { "UNAVAILABLE" } else { "OK" },
        )
    }
}

impl Ledger {
    /// Serves on a free port of the loopback interface.
    pub(crate) async fn start(self) -> Result<SocketAddr, BoxError> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        // It works for as long as the caller waits, and for 5 s at the longest.
        let layers = ServiceBuilder::new()
            .layer(DeadlineFromHeaderLayer::grpc())
            .map_result(|outcome: Result<_, BoxError>| {
                outcome.or_else(|error| Ok::<_, BoxError>(grpc::error_response(&*error)))
            })
            .layer(DeadlineLayer::call(Duration::from_secs(5)))
            .into_inner();
        let server = Server::builder()
            .layer(layers)
            .add_service(PaymentsServer::new(self))
            .serve_with_incoming(TcpIncoming::from(listener));
        tokio::spawn(server);
        Ok(address)
    }

    /// Answers the next requests with `UNAVAILABLE`, and pushes back by so many milliseconds.
    pub(crate) fn refuse(&self, requests: u32, pushback: Option<i32>) {
        self.with(|state| (state.refusals, state.pushback) = (requests, pushback));
    }

    /// What came since this was asked last.
    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.with(|state| {
            state.began = None;
            std::mem::take(&mut state.seen)
        })
    }

    fn with<T>(&self, act: impl FnOnce(&mut State) -> T) -> T {
        act(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    #[expect(clippy::disallowed_methods, reason = "an example reads the clock")]
    fn admit(&self, metadata: &MetadataMap) -> Result<(), Status> {
        let field = |name: &str| Some(metadata.get(name)?.to_str().ok()?.to_owned());
        self.with(|state| {
            let refused = state.refusals > 0;
            state.refusals = state.refusals.saturating_sub(1);
            state.seen.push(Seen {
                after: state.began.get_or_insert_with(Instant::now).elapsed(),
                previous_attempts: field("grpc-previous-rpc-attempts"),
                timeout: field("grpc-timeout"),
                remaining: Deadline::current().map(|deadline| deadline.remaining()),
                refused,
            });
            if !refused {
                return Ok(());
            }
            let mut status = Status::unavailable("starting");
            if let Some(millis) = state.pushback {
                status
                    .metadata_mut()
                    .insert("grpc-retry-pushback-ms", millis.into());
            }
            Err(status)
        })
    }
}

#[tonic::async_trait]
impl Payments for Ledger {
    async fn charge(
        &self,
        request: Request<ChargeRequest>,
    ) -> Result<Response<ChargeReply>, Status> {
        self.admit(request.metadata())?;
        let ChargeRequest { order, cents } = request.into_inner();
        Ok(Response::new(ChargeReply { order, cents }))
    }

    async fn look(&self, request: Request<LookRequest>) -> Result<Response<ChargeReply>, Status> {
        self.admit(request.metadata())?;
        let LookRequest { order } = request.into_inner();
        Ok(Response::new(ChargeReply { order, cents: 0 }))
    }

    type HistoryStream = Pin<Box<dyn Stream<Item = Result<ChargeReply, Status>> + Send>>;

    /// One entry, and then the server is lost.
    async fn history(
        &self,
        request: Request<LookRequest>,
    ) -> Result<Response<Self::HistoryStream>, Status> {
        self.admit(request.metadata())?;
        let LookRequest { order } = request.into_inner();
        let entries = [
            Ok(ChargeReply { order, cents: 1 }),
            Err(Status::unavailable("lost")),
        ];
        Ok(Response::new(Box::pin(tokio_stream::iter(entries))))
    }
}
