//! What is behind the tools: a shop that charges cards and a mailer, in memory, with the fault injector in front.

use std::collections::{BTreeMap, HashMap};
use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::http::{Method, Request, Response, StatusCode};
use serde_json::{Value, json};
use tokio::time::sleep;
use tower::util::BoxCloneSyncService;
use tower::{ServiceBuilder, service_fn};
use tower_composure::BoxError;
use tower_composure::fault::{FaultLayer, Window};

/// An HTTP client whose server is in this process.
pub(crate) type Client = BoxCloneSyncService<Request<Vec<u8>>, Response<Vec<u8>>, Infallible>;

/// How long the injector answers 503.
const OUTAGE: Duration = Duration::from_secs(30);
/// The share of answers that get lost.
const LOST: f64 = 0.03;
/// How long an answer takes.
const LATENCY: Duration = Duration::from_millis(30);

/// What has been done, and how often a tool was called.
#[derive(Default)]
pub(crate) struct Ledger {
    /// The order that was charged with a key.
    charges: HashMap<String, u64>,
    pub(crate) charged: BTreeMap<u64, u32>,
    pub(crate) receipts: BTreeMap<u64, u32>,
    /// Charges that were asked for again with a key that was known.
    pub(crate) replayed: u32,
    /// Requests, by the tool that made them, those that the injector answered included.
    pub(crate) attempts: BTreeMap<&'static str, u32>,
}

pub(crate) type Shared = Arc<Mutex<Ledger>>;

pub(crate) fn lock(ledger: &Shared) -> MutexGuard<'_, Ledger> {
    ledger.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The client of a tool. Each has an injector of its own, whose outage begins at `down`.
pub(crate) fn client(
    tool: &'static str,
    ledger: &Shared,
    seed: u64,
    down: Duration,
) -> Result<Client, BoxError> {
    let up = down + OUTAGE;
    let faults = FaultLayer::builder()
        .seed(seed)
        .window(Window::between(down, up).status(StatusCode::SERVICE_UNAVAILABLE))
        .window(Window::always().rate(LOST).lose_answer())
        .build()?;
    let counted = Arc::clone(ledger);
    let ledger = Arc::clone(ledger);
    Ok(Client::new(
        ServiceBuilder::new()
            .map_request(move |request| {
                *lock(&counted).attempts.entry(tool).or_default() += 1;
                request
            })
            .layer(faults)
            .service(service_fn(move |request: Request<Vec<u8>>| {
                let answer = answer(&mut lock(&ledger), &request);
                async move {
                    sleep(LATENCY).await;
                    Ok(Response::new(answer.to_string().into_bytes()))
                }
            })),
    ))
}

/// Carries a request out.
fn answer(ledger: &mut Ledger, request: &Request<Vec<u8>>) -> Value {
    let parts: Vec<_> = request.uri().path().split('/').collect();
    let (order, what) = match parts.as_slice() {
        ["", "orders", order, what] => (order.parse().unwrap_or(0), *what),
        _ => return json!({"status": "error", "error": {"code": "NOT_FOUND"}}),
    };
    let key = request.headers().get("idempotency-key");
    let key = key.and_then(|key| key.to_str().ok());
    match (request.method(), what) {
        (&Method::GET, "charge") => {
            json!({"status": "ok", "charged": ledger.charged.contains_key(&order)})
        }
        (&Method::POST, "charge") => {
            json!({"status": "ok", "replayed": !ledger.charge(order, key)})
        }
        (&Method::POST, "receipt") => {
            *ledger.receipts.entry(order).or_default() += 1;
            json!({"status": "ok"})
        }
        _ => json!({"status": "error", "error": {"code": "UNIMPLEMENTED"}}),
    }
}

impl Ledger {
    /// Charges the card, unless this key has done so, and says whether it did.
    fn charge(&mut self, order: u64, key: Option<&str>) -> bool {
        if let Some(key) = key {
            if self.charges.insert(key.to_owned(), order).is_some() {
                self.replayed += 1;
                return false;
            }
        }
        *self.charged.entry(order).or_default() += 1;
        true
    }
}
