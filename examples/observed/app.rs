//! A payment API that can be taken down, a client that is watched, and the endpoint where Prometheus looks.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::http::{Request, StatusCode};
use axum::routing::{get, post};
use http_body_util::Full;
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use tokio::net::TcpListener;
use tokio::time::{MissedTickBehavior, interval};
use tower::{ServiceBuilder, ServiceExt};
use tower_composure::metrics::{ATTEMPTS, SECONDS};
use tower_composure::stack::StackService;
use tower_composure::{
    BoxError, Budget, CircuitBreaker, HttpPolicy, IdempotencyKeyLayer, MetricsObserver, Observer,
    Stack, TracingObserver,
};

const PAYMENTS: &str = "payments";

type Http = legacy::Client<HttpConnector, Full<Bytes>>;

/// All of it, in one process.
pub(crate) struct App {
    down: Arc<AtomicBool>,
    upstream: String,
    client: StackService<Http, HttpPolicy, IdempotencyKeyLayer>,
    shown: Arc<Shown>,
}

/// What is there to be seen.
struct Shown {
    prometheus: PrometheusHandle,
    metrics: Arc<MetricsObserver>,
    budget: Budget,
    breaker: CircuitBreaker,
}

impl App {
    /// Starts the API and makes its client, with `prometheus` as the recorder of this process.
    pub(crate) async fn start() -> Result<Self, BoxError> {
        let prometheus = PrometheusBuilder::new()
            .set_buckets_for_metric(Matcher::Full("composure_call_attempts".into()), &ATTEMPTS)?
            .set_buckets_for_metric(Matcher::Suffix("_seconds".into()), &SECONDS)?
            .install_recorder()?;
        // After the recorder, which is where the metrics go.
        let metrics = Arc::new(MetricsObserver::new());
        metrics.register(PAYMENTS);
        let observer: Arc<dyn Observer> = Arc::new((Arc::clone(&metrics), TracingObserver::new()));
        let budget = Budget::default();
        let breaker = CircuitBreaker::builder()
            .name(PAYMENTS)
            .observer(Arc::clone(&observer))
            .build()?;
        let stack = Stack::builder(HttpPolicy::new())
            .dependency(PAYMENTS)
            .budget(budget.clone())
            .breaker(breaker.clone())
            .idempotency_key(IdempotencyKeyLayer::new())
            .observer(observer)
            .build()?;
        let down = Arc::new(AtomicBool::new(false));
        Ok(Self {
            upstream: serve(payments(Arc::clone(&down)), "127.0.0.1:0").await?,
            down,
            client: ServiceBuilder::new().layer(stack).service(http()),
            shown: Arc::new(Shown {
                prometheus,
                metrics,
                budget,
                breaker,
            }),
        })
    }

    /// Takes the API down, or brings it back.
    pub(crate) fn take_down(&self, down: bool) {
        self.down.store(down, Ordering::Relaxed);
    }

    /// Serves `/metrics` there, and gives the address.
    pub(crate) async fn serve_metrics(&self, address: &str) -> Result<String, BoxError> {
        let shown = Arc::clone(&self.shown);
        let page = get(move || async move { shown.render() });
        serve(Router::new().route("/metrics", page), address).await
    }

    /// Charges a card every 10 ms, for as long as it is polled. A call takes as long as it takes.
    pub(crate) async fn charge_for_ever(&self) {
        let mut ticks = interval(Duration::from_millis(10));
        ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
        loop {
            ticks.tick().await;
            let client = self.client.clone();
            let request = Request::post(format!("{}/charges", self.upstream));
            if let Ok(request) = request.body(Full::default()) {
                tokio::spawn(client.oneshot(request));
            }
        }
    }
}

impl Shown {
    /// The metrics as Prometheus reads them. What no event tells of, because nothing has happened, is looked at.
    fn render(&self) -> String {
        self.metrics.observe_budget(PAYMENTS, &self.budget);
        self.metrics.observe_breaker(&self.breaker);
        self.prometheus.run_upkeep();
        self.prometheus.render()
    }
}

fn payments(down: Arc<AtomicBool>) -> Router {
    let charge = post(move || async move {
        if down.load(Ordering::Relaxed) {
            StatusCode::SERVICE_UNAVAILABLE
        } else {
            StatusCode::CREATED
        }
    });
    Router::new().route("/charges", charge)
}

fn http() -> Http {
    legacy::Client::builder(TokioExecutor::new())
        // One layer owns the retries, and this is not it.
        .retry_canceled_requests(false)
        .build_http()
}

async fn serve(app: Router, address: &str) -> Result<String, BoxError> {
    let listener = TcpListener::bind(address).await?;
    let address = listener.local_addr()?;
    tokio::spawn(async move { axum::serve(listener, app).await });
    Ok(format!("http://{address}"))
}
