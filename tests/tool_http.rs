//! HTTP operations as tools: what is sent, and what is made of the answer.
#![cfg(all(not(loom), feature = "tool", feature = "http"))]
#![expect(clippy::unwrap_used, reason = "a test may")]

mod support;

use std::convert::Infallible;
use std::time::Duration;

use http::{HeaderName, Method, Request, Response};
use proptest::prelude::*;
use serde_json::{Value, json};
use support::{Script, Step};
use tower::{Layer, Service, ServiceBuilder, ServiceExt};
use tower_composure::tool::{HttpOperation, ToolCall, ToolMarks, ToolResponse};
use tower_composure::{
    Attempt, Effect, Hint, IdempotencyKey, Policy, RetryLayer, ToolPolicy, Verdict,
};

type Client = Script<Request<Vec<u8>>, Response<Vec<u8>>, Infallible>;

fn response(status: u16, headers: &[(&str, &str)], body: &str) -> Response<Vec<u8>> {
    let mut response = Response::builder().status(status);
    for (name, value) in headers {
        response = response.header(*name, *value);
    }
    response.body(body.as_bytes().to_vec()).unwrap()
}

fn charge() -> HttpOperation {
    HttpOperation::new(Method::POST, "http://shop.test/orders/{order}/charges").unwrap()
}

async fn answer(status: u16, headers: &[(&str, &str)], body: &str) -> Value {
    let client = Client::new([Step::Ok(response(status, headers, body))]);
    let call = ToolCall::new("charge").arg("order", 7);
    Value::Object(charge().layer(client).oneshot(call).await.unwrap())
}

fn verdict(value: &Value) -> Verdict {
    let policy: &dyn Policy<(), ToolResponse, Infallible> = &ToolPolicy::new();
    let map = value.as_object().unwrap();
    policy.classify(&Attempt::first(Effect::Read), Ok(map))
}

async fn sent(operation: HttpOperation, call: ToolCall) -> Option<(String, String, String)> {
    let client = Client::new([Step::Ok(Response::default())]);
    let answer = operation.layer(client.clone()).oneshot(call).await.unwrap();
    let Some(seen) = client.seen().pop() else {
        assert_eq!(answer["error"]["code"], "INVALID_ARGUMENT");
        return None;
    };
    let request = seen.request;
    let key = request.headers().get("idempotency-key");
    let key = key.map_or("", |key| key.to_str().unwrap()).to_owned();
    let line = format!("{} {}", request.method(), request.uri());
    Some((line, String::from_utf8(request.into_body()).unwrap(), key))
}

#[tokio::test]
async fn arguments_go_into_the_path_the_query_and_the_body() {
    let key = IdempotencyKey::new("k-1").unwrap();
    let call = ToolCall::new("charge")
        .arg("order", "a/7 ü?")
        .arg("amount", 5)
        .arg("dry run", true)
        .key(key);
    let operation = charge().query("dry run").query("absent");
    let (line, body, key) = sent(operation, call).await.unwrap();
    assert_eq!(
        line,
        "POST http://shop.test/orders/a%2F7%20%C3%BC%3F/charges?dry%20run=true"
    );
    assert_eq!((body.as_str(), key.as_str()), (r#"{"amount":5}"#, "k-1"));

    let get = HttpOperation::new(Method::GET, "/orders").unwrap();
    let key = IdempotencyKey::new("k-1").unwrap();
    let call = ToolCall::new("list")
        .arg("tag", json!(["a", 1]))
        .arg("none", Value::Null);
    let (line, body, key) = sent(get, call.key(key)).await.unwrap();
    assert_eq!(line, "GET /orders?tag=a&tag=1");
    assert_eq!(
        (body.as_str(), key.as_str()),
        ("", ""),
        "a GET needs no key"
    );
}

#[tokio::test]
async fn the_key_in_scope_goes_into_the_header() {
    let key = IdempotencyKey::new("scoped").unwrap();
    let call = ToolCall::new("charge").arg("order", 7);
    let (_, _, key) = key.scope(sent(charge(), call)).await.unwrap();
    assert_eq!(key, "scoped");

    let named = charge().key_header(HeaderName::from_static("x-request-key"));
    let client = Client::new([Step::Ok(Response::default())]);
    let call = ToolCall::new("charge")
        .arg("order", 7)
        .key(IdempotencyKey::new("k").unwrap());
    named.layer(client.clone()).oneshot(call).await.unwrap();
    let request = &client.seen()[0].request;
    assert_eq!(request.headers()["x-request-key"], "k");
    assert!(request.headers()["x-request-key"].is_sensitive());
}

#[tokio::test]
async fn arguments_that_make_no_request_are_rejected_before_anything_is_sent() {
    for order in [
        json!(null),
        json!(""),
        json!("."),
        json!(".."),
        json!([1]),
        json!({}),
    ] {
        let call = ToolCall::new("charge").arg("order", order);
        assert_eq!(sent(charge(), call).await, None);
    }
    assert_eq!(sent(charge(), ToolCall::new("charge")).await, None);
    let get = HttpOperation::new(Method::GET, "/orders").unwrap();
    let call = ToolCall::new("list").arg("filter", json!({"a": 1}));
    assert_eq!(sent(get, call).await, None);
}

#[tokio::test(start_paused = true)]
async fn a_rejected_call_gives_its_readiness_back() {
    let client = Client::new([Step::Ok(Response::default())]);
    let limited = ServiceBuilder::new().concurrency_limit(1).service(client);
    let mut tool = charge().layer(limited);
    let mut other = tool.clone();
    let ready = tool.ready().await.unwrap();
    ready.call(ToolCall::new("charge")).await.unwrap();
    let ready = tokio::time::timeout(Duration::from_secs(1), other.ready()).await;
    let call = ToolCall::new("charge").arg("order", 7);
    let other = ready.unwrap().unwrap();
    assert_eq!(other.call(call).await.unwrap()["status"], "ok");
}

#[test]
fn a_target_that_is_none_cannot_be_built() {
    for (target, reason) in [
        (
            "http://{host}/x",
            "target: an argument stands before the path",
        ),
        ("http://a.test/{order", "target: a brace is not closed"),
        ("http://a.test/{}", "target: an argument has no name"),
        (
            "http://a.test/x?a=1",
            "target: it has a query; name its arguments instead",
        ),
        ("http://a b/", "target: it is no URI"),
    ] {
        let error = HttpOperation::new(Method::GET, target).unwrap_err();
        assert_eq!(error.to_string(), reason);
    }
}

#[tokio::test]
async fn case_145_neither_status_nor_body_overrules_a_failure() {
    let ok = r#"{"status": "ok", "charge": 1}"#;
    let error = r#"{"status": "error", "error": {"code": "NOT_FOUND"}}"#;
    for (status, body, code, expected) in [
        (500, ok, json!("INTERNAL"), Verdict::Fault),
        (501, ok, json!("INTERNAL"), Verdict::Fault),
        (503, ok, json!("UNAVAILABLE"), Verdict::UNKNOWN),
        (504, ok, json!("DEADLINE_EXCEEDED"), Verdict::UNKNOWN),
        (400, ok, json!("INVALID_ARGUMENT"), Verdict::Rejected),
        (404, "", json!("NOT_FOUND"), Verdict::Rejected),
        (
            418,
            "teapot",
            json!("FAILED_PRECONDITION"),
            Verdict::Rejected,
        ),
        (302, ok, json!("FAILED_PRECONDITION"), Verdict::Rejected),
        (200, error, json!("NOT_FOUND"), Verdict::Rejected),
        (200, r#"{"error": "text"}"#, Value::Null, Verdict::Fault),
        (200, ok, Value::Null, Verdict::Success),
    ] {
        let map = answer(status, &[], body).await;
        assert_eq!(verdict(&map), expected, "{status} {body}");
        assert_eq!(map["error"].get("code").unwrap_or(&Value::Null), &code);
        if status >= 300 {
            assert_eq!(map["status"], "error");
            assert_eq!(map["http_status"], status);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn case_145_the_retry_sees_both() {
    let marks = ToolMarks::new().idempotent_write("charge");
    for failure in [
        response(503, &[], r#"{"status": "ok"}"#),
        response(
            200,
            &[],
            r#"{"status": "error", "error": {"code": "UNAVAILABLE"}}"#,
        ),
    ] {
        let done = response(200, &[], r#"{"status": "ok"}"#);
        let client = Client::new([Step::Ok(failure), Step::Ok(done)]);
        let tool = ServiceBuilder::new()
            .layer(RetryLayer::new(ToolPolicy::marked(marks.clone())))
            .layer(charge())
            .service(client.clone());
        let call = ToolCall::new("charge").arg("order", 7);
        assert_eq!(tool.oneshot(call).await.unwrap()["status"], "ok");
        assert_eq!(client.calls(), 2);
    }
}

#[tokio::test]
async fn what_a_success_holds_comes_up() {
    let json = [("content-type", "application/problem+json; charset=utf-8")];
    for (status, headers, body, map) in [
        (201, [].as_slice(), r#"{"id": 1}"#, json!({"id": 1})),
        (
            200,
            &[],
            "[1, 2]",
            json!({"status": "ok", "result": [1, 2]}),
        ),
        (
            200,
            &[],
            "plain",
            json!({"status": "ok", "result": "plain"}),
        ),
        (204, &json, "", json!({"status": "ok"})),
        (
            200,
            &json,
            r#"{"cut": "#,
            json!({"status": "error", "error": {"code": "INTERNAL"}}),
        ),
    ] {
        assert_eq!(answer(status, headers, body).await, map, "{body}");
    }
    let bytes = Response::new(vec![0xff, 0xfe]);
    let tool = charge().layer(Client::new([Step::Ok(bytes)]));
    let answer = tool
        .oneshot(ToolCall::new("c").arg("order", 1))
        .await
        .unwrap();
    assert_eq!(answer["result"], "\u{fffd}\u{fffd}");
}

#[tokio::test]
async fn case_146_of_a_header_and_a_body_the_longer_wait_counts() {
    let body = |wait: &str| format!(r#"{{"error": {{"code": "x", "retry_after": {wait}}}}}"#);
    for (header, body, expected) in [
        (Some("3"), body("7.2"), 8),
        (Some("9"), body("7.2"), 9),
        (None, body("4"), 4),
        (Some("5"), String::new(), 5),
    ] {
        let headers: Vec<_> = header
            .map(|wait| ("retry-after", wait))
            .into_iter()
            .collect();
        let map = answer(503, &headers, &body).await;
        let hint = Some(Hint::after(Duration::from_secs(expected)));
        assert_eq!(verdict(&map), Verdict::Unknown { hint });
    }
}

#[tokio::test]
async fn case_147_a_final_code_in_the_body_beats_a_status_that_may_be_temporary() {
    let body = |code: &str| format!(r#"{{"error": {{"code": "{code}"}}}}"#);
    let quota = answer(429, &[], &body("insufficient_quota")).await;
    assert_eq!(verdict(&quota), Verdict::Rejected);
    let limited = answer(429, &[], &body("rate_limited")).await;
    assert_eq!(verdict(&limited), Verdict::THROTTLED);
    // The other way round it does not: a body makes nothing retryable.
    let rejected = answer(400, &[], &body("UNAVAILABLE")).await;
    assert_eq!(verdict(&rejected), Verdict::Rejected);
    let never = answer(503, &[], r#"{"error": {"code": "x", "retryable": false}}"#).await;
    assert_eq!(verdict(&never).hint(), Some(Hint::never()));
    // A 503 leaves the outcome open, so its code stays; only the retry is ruled out.
    let open = answer(503, &[], &body("QUOTA_EXCEEDED")).await;
    assert_eq!(
        verdict(&open),
        Verdict::Unknown {
            hint: Some(Hint::never())
        }
    );
    let broken = answer(500, &[], &body("NOT_FOUND")).await;
    assert_eq!(verdict(&broken), Verdict::Fault);
    let always = answer(500, &[], r#"{"error": {"code": "x", "retryable": true}}"#).await;
    assert_eq!(verdict(&always), Verdict::Fault);
}

proptest! {
    #[test]
    fn no_response_is_a_panic_and_only_2xx_a_success(
        status in 100_u16..1000,
        body in prop_oneof!["\\PC{0,20}", Just(r#"{"status": "ok"}"#.to_owned())],
        wait in "([0-9]{1,20}|\\PC{0,6})",
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let header = http::HeaderValue::from_str(&wait);
        let wait = header.as_ref().ok().and_then(|wait| wait.to_str().ok()).unwrap_or("1");
        let map = runtime.block_on(answer(status, &[("retry-after", wait)], &body));
        if !(200..300).contains(&status) {
            prop_assert!(!verdict(&map).is_success());
        }
    }

    #[test]
    fn no_argument_leaves_its_place_in_the_path(order in "\\PC{1,12}") {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let call = ToolCall::new("charge").arg("order", order.clone());
        if let Some((line, ..)) = runtime.block_on(sent(charge(), call)) {
            let path = line.strip_prefix("POST http://shop.test/").unwrap();
            let parts: Vec<_> = path.split('/').collect();
            prop_assert_eq!(parts.len(), 3, "{}", line);
            prop_assert!(!path.contains(['?', '#']));
        } else {
            prop_assert!(order == "." || order == "..");
        }
    }
}
