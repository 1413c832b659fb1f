//! From the turn of an agent down to the row in a database: a tool, a hyper client, a server with a UNIQUE constraint.
#![cfg(all(not(loom), feature = "tool", feature = "http"))]
#![expect(clippy::unwrap_used, reason = "a test may")]

use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::post;
use axum::{Json, Router};
use http::{Method, Request, Response};
use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy;
use hyper_util::rt::TokioExecutor;
use rusqlite::Connection;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tower::util::BoxCloneSyncService;
use tower::{Layer, ServiceBuilder, ServiceExt};
use tower_composure::tool::{
    EnvelopeLayer, HttpOperation, ToolCall, ToolKeyLayer, ToolMarks, ToolResponse, ToolSet, tool_fn,
};
use tower_composure::{
    Backoff, BoxError, HttpPolicy, IdempotencyKey, IdempotencyKeyLayer, RetryLayer, Stack,
    ToolPolicy,
};

type Client = BoxCloneSyncService<Request<Vec<u8>>, Response<Vec<u8>>, BoxError>;
type Tool = BoxCloneSyncService<ToolCall, ToolResponse, BoxError>;

/// What the server has seen, and the charges that it has made.
struct Shop {
    /// How many requests are answered with 503 after the charge was made.
    lost: Mutex<u32>,
    keys: Mutex<Vec<String>>,
    charges: Mutex<Connection>,
}

impl Shop {
    /// Serves on a free port until the test's runtime ends.
    async fn open(lost: u32) -> (Arc<Self>, String) {
        let charges = Connection::open_in_memory().unwrap();
        charges
            .execute_batch(
                "CREATE TABLE charges (id INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE)",
            )
            .unwrap();
        let shop = Arc::new(Self {
            lost: Mutex::new(lost),
            keys: Mutex::default(),
            charges: Mutex::new(charges),
        });
        let router = Router::new()
            .route("/orders/{order}/charges", post(charge))
            .with_state(Arc::clone(&shop));
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(axum::serve(listener, router).into_future());
        (shop, format!("http://{address}/orders/{{order}}/charges"))
    }

    fn rows(&self) -> u32 {
        let charges = self.charges.lock().unwrap();
        charges
            .query_row("SELECT count(*) FROM charges", [], |row| row.get(0))
            .unwrap()
    }

    fn keys(&self) -> Vec<String> {
        self.keys.lock().unwrap().clone()
    }
}

async fn charge(State(shop): State<Arc<Shop>>, headers: HeaderMap) -> (StatusCode, Json<Value>) {
    let key = headers
        .get("idempotency-key")
        .and_then(|key| key.to_str().ok());
    let key = key.unwrap_or_default().to_owned();
    shop.keys.lock().unwrap().push(key.clone());
    let made = shop
        .charges
        .lock()
        .unwrap()
        .execute(
            "INSERT INTO charges (key) VALUES (?1) ON CONFLICT DO NOTHING",
            [&key],
        )
        .unwrap();
    let mut lost = shop.lost.lock().unwrap();
    if *lost > 0 {
        *lost -= 1;
        return (StatusCode::SERVICE_UNAVAILABLE, Json(json!({})));
    }
    (
        StatusCode::OK,
        Json(json!({"status": "ok", "replayed": made == 0})),
    )
}

fn client() -> Client {
    let client: legacy::Client<_, Full<axum::body::Bytes>> =
        legacy::Client::builder(TokioExecutor::new())
            .retry_canceled_requests(false)
            .build_http();
    Client::new(
        client
            .map_request(|request: Request<Vec<u8>>| request.map(Full::from))
            .map_err(BoxError::from)
            .and_then(whole),
    )
}

/// The response with its body read to the end.
async fn whole<B>(response: Response<B>) -> Result<Response<Vec<u8>>, BoxError>
where
    B: axum::body::HttpBody<Error: Into<BoxError>>,
{
    let (head, body) = response.into_parts();
    let body = body.collect().await.map_err(Into::into)?.to_bytes();
    Ok(Response::from_parts(head, body.to_vec()))
}

/// Three attempts and hardly a wait: the sockets are real, and so is the clock.
fn quick() -> Backoff {
    Backoff::exponential(Duration::from_millis(1), Duration::from_millis(1))
}

/// A client with retries and keys of its own, as a team that knows nothing of tools would build it.
fn client_with_retries() -> Client {
    let stack = Stack::builder(HttpPolicy::new())
        .max_attempts(3)
        .backoff(quick())
        .idempotency_key(IdempotencyKeyLayer::new())
        .build()
        .unwrap();
    Client::new(stack.layer(client()))
}

fn marks() -> ToolMarks {
    ToolMarks::new().idempotent_write("charge")
}

fn retries() -> RetryLayer<ToolPolicy<ToolMarks>> {
    RetryLayer::builder(ToolPolicy::marked(marks()))
        .max_attempts(3)
        .backoff(quick())
        .build()
        .unwrap()
}

/// A tool written by hand: it sends a request and knows nothing of keys.
fn by_hand(target: &str, client: Client) -> Tool {
    let target = target.to_owned();
    Tool::new(tool_fn(move |call: ToolCall| {
        let client = client.clone();
        let order = call.args.get("order").map(Value::to_string);
        let target = target.replace("{order}", &order.unwrap_or_default());
        async move {
            let request = Request::post(target).body(Vec::new())?;
            let response = client.oneshot(request).await?;
            Ok::<_, BoxError>(if response.status().is_success() {
                serde_json::from_slice(response.body())?
            } else {
                json!({"status": "error", "error": {"code": "UNAVAILABLE"}})
            })
        }
    }))
}

/// An agent's tools, with everything that this crate has above them.
fn agent(tool: Tool) -> impl AsyncFn(ToolCall) -> Value {
    let tools = ServiceBuilder::new()
        .layer(EnvelopeLayer::new(ToolPolicy::marked(marks())).check_with("charge", "find"))
        .layer(ToolKeyLayer::from_arguments().marks(marks()))
        .layer(retries())
        .service(ToolSet::builder().tool("charge", tool).build().unwrap());
    move |call| {
        let tools = tools.clone();
        async move {
            let Ok(answer) = tools.oneshot(call).await;
            Value::Object(answer)
        }
    }
}

fn asked(function_call_id: &str) -> ToolCall {
    ToolCall::new("charge")
        .arg("order", 7)
        .invocation_id("turn-1")
        .function_call_id(function_call_id)
}

#[tokio::test]
async fn one_charge_asked_for_twice_and_answered_once_is_one_row() {
    let (shop, target) = Shop::open(2).await;
    let agent = agent(by_hand(&target, client_with_retries()));
    let first = agent(asked("call-1")).await;
    assert_eq!(first, json!({"status": "ok", "replayed": true}));
    // The model has lost track and asks again for the same, in the same turn.
    let second = agent(asked("call-2")).await;
    assert_eq!(second, json!({"status": "ok", "replayed": true}));
    let keys = shop.keys();
    assert_eq!(keys.len(), 4);
    assert!(!keys[0].is_empty() && keys.iter().all(|key| *key == keys[0]));
    assert_eq!(shop.rows(), 1);

    let other = agent(asked("call-3").arg("order", 8)).await;
    assert_eq!(other, json!({"status": "ok", "replayed": false}));
    assert_eq!(shop.rows(), 2);
}

#[tokio::test]
async fn an_http_operation_is_the_same_tool_without_a_line_of_code() {
    let (shop, target) = Shop::open(2).await;
    let operation = HttpOperation::new(Method::POST, target).unwrap();
    let agent = agent(Tool::new(operation.layer(client())));
    let answer = agent(asked("call-1")).await;
    assert_eq!(answer, json!({"status": "ok", "replayed": true}));
    assert_eq!((shop.keys().len(), shop.rows()), (3, 1));
}

#[tokio::test]
async fn a_driver_that_replays_the_turn_finds_the_charge() {
    let (shop, target) = Shop::open(0).await;
    let replayed = async || {
        // A new process: nothing is left of the first run but the ids of the turn.
        let agent = agent(by_hand(&target, client_with_retries()));
        agent(asked("call-1")).await["replayed"].clone()
    };
    assert_eq!(replayed().await, json!(false));
    assert_eq!(replayed().await, json!(true));
    assert_eq!(shop.rows(), 1);
}

#[tokio::test]
async fn three_layers_of_three_attempts_are_three_requests() {
    let (shop, target) = Shop::open(u32::MAX).await;
    // The client retries, the tool's decorator retries, and the loop of the agent retries.
    let tool = retries().layer(by_hand(&target, client_with_retries()));
    let agent = agent(Tool::new(tool));
    let told = agent(asked("call-1")).await;
    assert_eq!(shop.keys().len(), 3, "of 27");
    assert_eq!(told["attempts"], 3, "and the report is the owner's");
    assert_eq!(told["action"], "check_state");
    assert_eq!(shop.rows(), 1);
}

#[tokio::test]
async fn a_loop_that_asks_again_by_hand_sends_more_requests_but_makes_no_second_charge() {
    let (shop, target) = Shop::open(u32::MAX).await;
    let agent = agent(by_hand(&target, client_with_retries()));
    let mut calls = 0;
    for call in ["call-1", "call-2", "call-3"] {
        calls += 1;
        let told = agent(asked(call)).await;
        assert_eq!(told["retryable"], false, "a loop that obeys stops here");
        assert_eq!(shop.keys().len(), 3 * calls);
    }
    assert_eq!(shop.rows(), 1);
}

#[tokio::test]
async fn a_key_in_scope_of_a_turn_reaches_the_header_with_no_tool_layer_at_all() {
    let (shop, target) = Shop::open(0).await;
    let tool = by_hand(&target, client_with_retries());
    let key = IdempotencyKey::new("turn-1-charge").unwrap();
    key.scope(async { tool.oneshot(asked("call-1")).await })
        .await
        .unwrap();
    assert_eq!(shop.keys(), ["turn-1-charge"]);
}
