//! The four clients. All of them make the same request over the same kind of connection.

use std::sync::Arc;
use std::time::Duration;

use axum::body::{Bytes, HttpBody};
use axum::http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use tokio::time::sleep;
use tower::util::BoxCloneSyncService;
use tower::{ServiceBuilder, ServiceExt};
use tower_composure::{
    Backoff, BoxError, Budget, CircuitBreaker, DeadlineLayer, HttpPolicy, IdempotencyKeyLayer,
    Stack, Verdict,
};

use crate::scenario::Scenario;
use crate::watch::Watch;

/// A client of the payment API, cheap to clone; clones share connections, budget and breaker.
pub(crate) type Client = BoxCloneSyncService<Request<Full<Bytes>>, Response<Bytes>, BoxError>;

/// The numbers of the document that this crate implements, before they are scaled.
const CALL: Duration = Duration::from_secs(8);
const ATTEMPT: Duration = Duration::from_secs(3);
const BASE: Duration = Duration::from_millis(200);
const CAP: Duration = Duration::from_secs(2);
const OPEN: Duration = Duration::from_secs(5);
const MAX_OPEN: Duration = Duration::from_secs(60);

/// How a client deals with failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// One attempt.
    None,
    /// What people write by hand.
    Naive,
    /// The preset without its breaker.
    Retry,
    /// The preset.
    Composure,
}

impl Kind {
    pub(crate) const ALL: [Self; 4] = [Self::None, Self::Naive, Self::Retry, Self::Composure];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Naive => "naive",
            Self::Retry => "retry",
            Self::Composure => "composure",
        }
    }

    /// A client of this kind. What it decides goes to `watch`.
    pub(crate) fn client(self, scenario: &Scenario, watch: Arc<Watch>) -> Result<Client, BoxError> {
        Ok(match self {
            Self::None => one_attempt(scenario),
            Self::Naive => by_hand(scenario),
            Self::Retry => Client::new(
                ServiceBuilder::new()
                    .layer(preset(scenario, watch).no_breaker().build()?)
                    .service(http()),
            ),
            Self::Composure => {
                let breaker = breaker(scenario, Arc::clone(&watch))?;
                Client::new(
                    ServiceBuilder::new()
                        .layer(preset(scenario, watch).breaker(breaker).build()?)
                        .service(http()),
                )
            }
        })
    }
}

/// The preset of this crate. Its defaults are the document's numbers; they are named here because they are scaled.
fn preset(scenario: &Scenario, watch: Arc<Watch>) -> StackBuilder {
    // This API's documentation says that a 503 comes before it acts. Without that a 503 is `Unknown`.
    let policy = HttpPolicy::new().status(StatusCode::SERVICE_UNAVAILABLE, Verdict::REFUSED);
    Stack::builder(policy)
        .dependency("payments")
        .call_deadline(scenario.scaled(CALL))
        .attempt_deadline(scenario.scaled(ATTEMPT))
        .backoff(Backoff::exponential(
            scenario.scaled(BASE),
            scenario.scaled(CAP),
        ))
        .budget(Budget::default())
        .idempotency_key(IdempotencyKeyLayer::new())
        .observer(watch)
        .seed(scenario.seed)
}

type StackBuilder = tower_composure::stack::StackBuilder<HttpPolicy, IdempotencyKeyLayer>;

fn breaker(scenario: &Scenario, watch: Arc<Watch>) -> Result<CircuitBreaker, BoxError> {
    let breaker = CircuitBreaker::builder()
        .open_time(scenario.scaled(OPEN))
        .max_open_time(scenario.scaled(MAX_OPEN))
        .probe_lease(scenario.scaled(CALL))
        .seed(scenario.seed)
        .observer(watch)
        .build()?;
    Ok(breaker)
}

fn one_attempt(scenario: &Scenario) -> Client {
    Client::new(
        ServiceBuilder::new()
            .layer(DeadlineLayer::attempt(scenario.scaled(ATTEMPT)))
            .service(http()),
    )
}

/// Four attempts, a fixed wait, no jitter, no budget, no key, and every failure is worth another try.
fn by_hand(scenario: &Scenario) -> Client {
    let attempt = one_attempt(scenario);
    let wait = scenario.scaled(BASE);
    Client::new(tower::service_fn(move |request: Request<Full<Bytes>>| {
        let client = attempt.clone();
        async move {
            let mut attempts = 1;
            loop {
                let outcome = client.clone().oneshot(request.clone()).await;
                let failed = match &outcome {
                    Ok(response) => response.status().is_server_error(),
                    Err(_) => true,
                };
                if !failed || attempts == 4 {
                    return outcome;
                }
                attempts += 1;
                sleep(wait).await;
            }
        }
    }))
}

/// The HTTP client under all of them. An attempt ends with the last byte of the body, so the body is read in here.
fn http() -> Client {
    let client: legacy::Client<HttpConnector, Full<Bytes>> =
        legacy::Client::builder(TokioExecutor::new())
            // One layer owns the retries, and this is not it: left on, hyper-util sends a request again when the
            // connection it was given turns out to be dead, and no budget hears of it.
            .retry_canceled_requests(false)
            .build_http();
    Client::new(client.map_err(BoxError::from).and_then(whole))
}

/// The response with its body read to the end.
async fn whole<B>(response: Response<B>) -> Result<Response<Bytes>, BoxError>
where
    B: HttpBody<Data = Bytes, Error: Into<BoxError>>,
{
    let (head, body) = response.into_parts();
    let body = body.collect().await.map_err(Into::into)?;
    Ok(Response::from_parts(head, body.to_bytes()))
}
