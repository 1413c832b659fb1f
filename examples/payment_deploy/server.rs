//! The payment API: axum on a loopback port, charges in a SQLite file.

use std::collections::HashMap;
use std::future::pending;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::{Json, Router};
use rusqlite::{Connection, OptionalExtension};
use serde::{Deserialize, Serialize};
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::{JoinHandle, spawn_blocking};
use tokio::time::Instant;
use tower_composure::BoxError;

use crate::scenario::{Scenario, now};

/// What the API answers to a charge.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Charge {
    pub(crate) id: i64,
    pub(crate) order: u32,
    /// Whether an earlier request with the same key made it.
    pub(crate) replayed: bool,
}

/// A request that the API has seen, in whatever way it was answered.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Arrival {
    pub(crate) order: u32,
    /// Since the start of the run.
    pub(crate) at: Duration,
}

/// What is left when the API has stopped.
#[derive(Debug)]
pub(crate) struct Ledger {
    pub(crate) arrivals: Vec<Arrival>,
    /// Orders with more than one charge.
    pub(crate) charged_twice: u32,
}

/// The API while it runs.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    api: Arc<Api>,
    stop: oneshot::Sender<()>,
    serving: JoinHandle<io::Result<()>>,
    /// Removed with all that is in it when the server is dropped.
    _directory: TempDir,
}

struct Api {
    scenario: Scenario,
    start: Instant,
    seen: Mutex<Seen>,
    charges: Mutex<Connection>,
}

#[derive(Default)]
struct Seen {
    arrivals: Vec<Arrival>,
    of_order: HashMap<u32, u32>,
}

impl Server {
    /// Serves on a free port, with no charges yet. The times of the scenario count from `start`.
    pub(crate) async fn start(scenario: &Scenario, start: Instant) -> Result<Self, BoxError> {
        let directory = tempfile::tempdir()?;
        let api = Arc::new(Api {
            scenario: scenario.clone(),
            start,
            seen: Mutex::default(),
            charges: Mutex::new(open(&directory.path().join("charges.sqlite"))?),
        });
        let router = Router::new()
            .route("/orders/{order}/charges", post(handle))
            .with_state(Arc::clone(&api));

        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let address = listener.local_addr()?;
        let (stop, stopped) = oneshot::channel::<()>();
        let serving = axum::serve(listener, router).with_graceful_shutdown(async {
            stopped.await.ok();
        });
        Ok(Self {
            address,
            api,
            stop,
            serving: tokio::spawn(serving.into_future()),
            _directory: directory,
        })
    }

    /// Waits for the last connection to go, and says what happened. Drop the client first.
    pub(crate) async fn stop(self) -> Result<Ledger, BoxError> {
        self.stop.send(()).ok();
        self.serving.await??;
        let charged_twice = lock(&self.api.charges).query_row(
            "SELECT count(*) FROM (SELECT 1 FROM charges GROUP BY order_id HAVING count(*) > 1)",
            [],
            |row| row.get(0),
        )?;
        let arrivals = std::mem::take(&mut lock(&self.api.seen).arrivals);
        Ok(Ledger {
            arrivals,
            charged_twice,
        })
    }
}

async fn handle(
    State(api): State<Arc<Api>>,
    Path(order): Path<u32>,
    headers: HeaderMap,
) -> Response {
    let (at, nth) = api.arrival(order);
    let (down, up) = api.scenario.down();
    if (down..up).contains(&at) {
        // Before it acts: this is what lets the clients count a 503 as `Refused`.
        return api.unavailable(order, nth);
    }

    let key = headers
        .get("idempotency-key")
        .and_then(|key| key.to_str().ok())
        .map(str::to_owned);
    let charging = Arc::clone(&api);
    let charged =
        spawn_blocking(move || charge(&lock(&charging.charges), order, key.as_deref())).await;
    let Ok(Ok(charge)) = charged else {
        return StatusCode::INTERNAL_SERVER_ERROR.into_response();
    };

    if api.scenario.loses_answer(order, nth) {
        // The card is charged and nobody will hear of it. Ends when the client goes away.
        pending::<()>().await;
    }
    Json(charge).into_response()
}

impl Api {
    /// When this request came, and how many there have been for its order.
    fn arrival(&self, order: u32) -> (Duration, u32) {
        let at = now().saturating_duration_since(self.start);
        let mut seen = lock(&self.seen);
        seen.arrivals.push(Arrival { order, at });
        let nth = seen.of_order.entry(order).or_default();
        *nth += 1;
        (at, *nth)
    }

    fn unavailable(&self, order: u32, nth: u32) -> Response {
        let mut response = StatusCode::SERVICE_UNAVAILABLE.into_response();
        if let Some(seconds) = self.scenario.retry_after(order, nth) {
            response
                .headers_mut()
                .insert(header::RETRY_AFTER, seconds.into());
        }
        response
    }
}

fn open(file: &std::path::Path) -> rusqlite::Result<Connection> {
    let connection = Connection::open(file)?;
    connection.execute_batch(
        "PRAGMA journal_mode = WAL;
         PRAGMA synchronous = NORMAL;
         CREATE TABLE charges (
             id INTEGER PRIMARY KEY,
             order_id INTEGER NOT NULL,
             idempotency_key TEXT UNIQUE
         );",
    )?;
    Ok(connection)
}

/// Charges the card, or finds the charge that was made with this key. Without a key there is nothing to find.
fn charge(connection: &Connection, order: u32, key: Option<&str>) -> rusqlite::Result<Charge> {
    let made: Option<i64> = connection
        .prepare_cached(
            "INSERT INTO charges (order_id, idempotency_key) VALUES (?1, ?2)
             ON CONFLICT (idempotency_key) DO NOTHING RETURNING id",
        )?
        .query_row((order, key), |row| row.get(0))
        .optional()?;
    if let Some(id) = made {
        return Ok(Charge {
            id,
            order,
            replayed: false,
        });
    }
    connection
        .prepare_cached("SELECT id, order_id FROM charges WHERE idempotency_key = ?1")?
        .query_row([key], |row| {
            Ok(Charge {
                id: row.get(0)?,
                order: row.get(1)?,
                replayed: true,
            })
        })
}

/// A handler that panicked leaves counts and charges as they were.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
