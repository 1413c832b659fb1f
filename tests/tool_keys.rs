//! One key for each tool call, whoever repeats it.
#![cfg(all(not(loom), feature = "tool"))]
#![expect(clippy::unwrap_used, reason = "a test may")]

mod support;

use std::collections::HashSet;
use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use proptest::prelude::*;
use serde_json::{Map, Value, json};
use support::{Script, Step};
use tower::{Layer, ServiceBuilder, ServiceExt};
use tower_composure::tool::{ToolCall, ToolKeyLayer, ToolMarks, ToolResponse, tool_fn};
use tower_composure::{CallContext, IdempotencyKey, Observer, RetryLayer, Stack, ToolPolicy};

type Tool = Script<ToolCall, ToolResponse, Infallible>;

fn map(value: &Value) -> ToolResponse {
    value.as_object().cloned().unwrap()
}

fn unavailable() -> Step<ToolResponse, Infallible> {
    let answer = json!({"status": "error", "error": {"code": "UNAVAILABLE"}});
    Step::Ok(map(&answer))
}

fn ok() -> Step<ToolResponse, Infallible> {
    Step::Ok(map(&json!({"status": "ok"})))
}

fn charge() -> ToolCall {
    ToolCall::new("charge")
        .arg("order", 1)
        .arg("ts", 1)
        .invocation_id("turn-1")
        .function_call_id("call-1")
}

fn marks() -> ToolMarks {
    ToolMarks::new().read("balance").idempotent_write("charge")
}

/// The keys that calls through this layer carry, each of them in its call and in scope alike.
async fn keys<const N: usize>(layer: &ToolKeyLayer, calls: [ToolCall; N]) -> [Option<String>; N] {
    let tool = layer.layer(tool_fn(|call: ToolCall| async move {
        assert_eq!(call.key, IdempotencyKey::current());
        let key = call.key.as_ref().map(IdempotencyKey::as_str);
        Ok::<_, Infallible>(json!({ "key": key }))
    }));
    let mut keys = Vec::new();
    for call in calls {
        let answer = tool.clone().oneshot(call).await.unwrap();
        keys.push(answer["key"].as_str().map(str::to_owned));
    }
    keys.try_into().unwrap()
}

async fn key(layer: &ToolKeyLayer, call: ToolCall) -> String {
    let [key] = keys(layer, [call]).await;
    key.unwrap()
}

#[tokio::test(start_paused = true)]
async fn case_137_retries_of_a_tool_call_carry_one_key() {
    let tool = Tool::new([unavailable(), ok()]);
    let service = ServiceBuilder::new()
        .layer(ToolKeyLayer::new().marks(marks()))
        .layer(RetryLayer::new(ToolPolicy::marked(marks())))
        .service(tool.clone());
    service.oneshot(charge()).await.unwrap();
    let seen = tool.seen();
    assert_eq!(seen.len(), 2);
    assert!(seen[0].request.key.is_some());
    assert_eq!(seen[0].request.key, seen[1].request.key);
}

#[tokio::test(start_paused = true)]
async fn case_137_a_write_without_key_support_is_called_once() {
    let tool = Tool::new([unavailable(), ok()]);
    let service = ServiceBuilder::new()
        .layer(ToolKeyLayer::new())
        .layer(RetryLayer::new(ToolPolicy::new()))
        .service(tool.clone());
    service.oneshot(charge()).await.unwrap();
    assert_eq!(
        tool.calls(),
        1,
        "a key alone does not say that anybody honours it"
    );
}

#[tokio::test(start_paused = true)]
async fn the_key_layer_in_the_preset_states_that_tools_honour_keys() {
    let tool = Tool::new([unavailable(), ok()]);
    let stack = Stack::builder(ToolPolicy::new())
        .idempotency_key(ToolKeyLayer::new())
        .build()
        .unwrap();
    stack.layer(tool.clone()).oneshot(charge()).await.unwrap();
    assert_eq!(tool.calls(), 2);
    assert_eq!(tool.seen()[0].request.key, tool.seen()[1].request.key);
}

#[tokio::test(start_paused = true)]
async fn case_136_below_a_retry_the_key_is_still_one() {
    for layer in [ToolKeyLayer::new(), ToolKeyLayer::from_arguments()] {
        // Without ids the key is random, and comes to stay in the scope of the call.
        for call in [charge(), ToolCall::new("charge")] {
            let tool = Tool::new([unavailable(), unavailable(), ok()]);
            let service = ServiceBuilder::new()
                .layer(RetryLayer::new(ToolPolicy::marked(marks())))
                .layer(layer.clone())
                .service(tool.clone());
            service.oneshot(call).await.unwrap();
            let keys: HashSet<_> = tool.seen().into_iter().map(|s| s.request.key).collect();
            assert_eq!((tool.calls(), keys.len()), (3, 1));
            assert!(!keys.contains(&None));
        }
    }
}

#[tokio::test]
async fn case_138_declared_fields_make_the_key() {
    let layer = ToolKeyLayer::from_arguments()
        .fields("charge", ["ts"])
        .fields("charge", ["order"]);
    let [first, again, other] = keys(
        &layer,
        [charge(), charge().arg("ts", 2), charge().arg("order", 2)],
    )
    .await;
    assert_eq!(first, again);
    assert_ne!(first, other);

    // Where none of them is there, they would make one key for all calls.
    let bare = |amount: i32| {
        ToolCall::new("charge")
            .invocation_id("t")
            .arg("amount", amount)
    };
    let [one, two] = keys(&layer, [bare(1), bare(2)]).await;
    assert_ne!(one, two);
    let random = || ToolCall::new("charge").arg("order", 1);
    let [one, two] = keys(&layer, [random(), random()]).await;
    assert_ne!(one, two, "equal arguments in two turns are two orders");
}

#[tokio::test]
async fn a_call_asked_for_again_folds_only_where_arguments_make_the_key() {
    let again = || charge().function_call_id("call-2");
    let [first, second] = keys(&ToolKeyLayer::from_arguments(), [charge(), again()]).await;
    assert_eq!(first, second);
    let [first, second] = keys(&ToolKeyLayer::new(), [charge(), again()]).await;
    assert_ne!(first, second);
}

#[tokio::test]
async fn a_turn_that_a_driver_replays_has_the_same_keys() {
    let turn = |id: &str| {
        [
            charge().invocation_id(id),
            charge()
                .arg("order", 2)
                .invocation_id(id)
                .function_call_id("call-2"),
            ToolCall::new("refund")
                .invocation_id(id)
                .function_call_id("call-3"),
        ]
    };
    for layer in [ToolKeyLayer::new(), ToolKeyLayer::from_arguments()] {
        let first = keys(&layer, turn("turn-1")).await;
        assert_eq!(first, keys(&layer, turn("turn-1")).await);
        let unique: HashSet<_> = first
            .iter()
            .chain(&keys(&layer, turn("turn-2")).await)
            .cloned()
            .collect();
        assert_eq!(unique.len(), 6, "no two calls of two turns share a key");
    }
}

#[tokio::test]
async fn derived_keys_have_the_values_that_they_had() {
    // Made by another program. Pinned: a new release that made other keys would charge twice what was under way.
    let by_id = key(&ToolKeyLayer::new(), charge()).await;
    let by_arguments = key(&ToolKeyLayer::from_arguments(), charge()).await;
    assert_eq!(by_id, "78b5bfdf-3948-8d36-a8a5-75f9d76aa1f5");
    assert_eq!(by_arguments, "6842a9d2-6eff-81da-a7f2-1733d69e2e80");
}

#[tokio::test]
async fn no_part_of_a_key_runs_into_the_next() {
    let call = |turn: &str, name: &str, id: &str| {
        ToolCall::new(name).invocation_id(turn).function_call_id(id)
    };
    let layer = ToolKeyLayer::new();
    let [a, b, c] = keys(
        &layer,
        [
            call("a", "bc", "d"),
            call("ab", "c", "d"),
            call("a", "b", "cd"),
        ],
    )
    .await;
    assert!(a != b && b != c && a != c);
    let [one, two] = keys(&layer, [call("a", "b", "d"), call("a", "c", "d")]).await;
    assert_ne!(one, two, "two tools");
    let [empty, none] = keys(
        &layer,
        [call("", "x", "d"), ToolCall::new("x").function_call_id("d")],
    )
    .await;
    assert_eq!(empty, none, "an empty id is none");
    let [one, two] = keys(&layer, [call("t", "x", ""), call("t", "x", "")]).await;
    assert_ne!(one, two, "without an id a key is random");
}

#[tokio::test]
async fn integers_that_a_double_cannot_tell_apart_are_two_orders() {
    let order = |order: Value| charge().arg("order", order);
    let layer = ToolKeyLayer::from_arguments();
    let first = 9_007_199_254_740_992_u64;
    let [a, b] = keys(&layer, [order(json!(first)), order(json!(first + 1))]).await;
    assert_ne!(a, b);
    let [double] = keys(&layer, [order(json!(9_007_199_254_740_992.0))]).await;
    assert!(double != a && double != b, "which may be either");
    let nested = |id: i64| order(json!([{"id": id}]));
    let [a, b] = keys(&layer, [nested(i64::MIN), nested(i64::MIN + 1)]).await;
    assert_ne!(a, b);
    let [whole, float] = keys(&layer, [order(json!(1)), order(json!(1.0))]).await;
    assert_eq!(whole, float, "RFC 8785 §3.2.2.3: one number, one text");
}

#[tokio::test]
async fn the_callers_key_is_never_replaced_and_reads_have_none() {
    let own = IdempotencyKey::new("order-7").unwrap();
    let layer = ToolKeyLayer::new().marks(marks());
    let read = ToolCall::new("balance")
        .invocation_id("t")
        .function_call_id("c");
    let [given, none, unmarked] =
        keys(&layer, [charge().key(own), read, ToolCall::new("unmarked")]).await;
    assert_eq!(given.as_deref(), Some("order-7"));
    assert_eq!(none, None);
    assert!(unmarked.is_some(), "what nobody marked is a write");
}

#[tokio::test]
async fn calls_inside_of_a_keyed_call_take_its_key_with_ordinals() {
    let layer = ToolKeyLayer::new();
    let inner = layer.clone();
    let outer = layer.layer(tool_fn(move |_| {
        let inner = inner.clone();
        async move {
            let [first, second] = keys(&inner, [charge(), charge()]).await;
            Ok::<_, Infallible>(json!({"first": first, "second": second}))
        }
    }));
    let call = charge().key(IdempotencyKey::new("outer").unwrap());
    let answer = outer.oneshot(call).await.unwrap();
    assert_eq!(
        Value::Object(answer),
        json!({"first": "outer", "second": "outer-2"})
    );
}

/// Two requests from tasks that an attempt spawns.
async fn spawned(seen: Arc<Mutex<Vec<String>>>) -> ToolResponse {
    for _ in 0..2 {
        let context = CallContext::current();
        let seen = Arc::clone(&seen);
        let request = context.scope(async move {
            let client = ToolKeyLayer::new().layer(tool_fn(|call: ToolCall| async move {
                let key = call.key.map(|key| key.as_str().to_owned());
                Ok::<_, Infallible>(json!({ "key": key }))
            }));
            let answer = client.oneshot(ToolCall::new("request")).await.unwrap();
            let key = answer["key"].as_str().unwrap().to_owned();
            seen.lock().unwrap().push(key);
        });
        tokio::spawn(request).await.unwrap();
    }
    map(&json!({"status": "error", "error": {"code": "UNAVAILABLE"}}))
}

#[tokio::test(start_paused = true)]
async fn tasks_spawned_below_a_retry_share_the_key_that_was_made_above_it() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&seen);
    let tool = ServiceBuilder::new()
        .layer(ToolKeyLayer::new())
        .layer(
            RetryLayer::builder(ToolPolicy::marked(marks()))
                .max_attempts(2)
                .build()
                .unwrap(),
        )
        .service(tool_fn(move |_| {
            let log = Arc::clone(&log);
            async move { Ok::<_, Infallible>(spawned(log).await) }
        }));
    let call = charge().key(IdempotencyKey::new("k").unwrap());
    tool.oneshot(call).await.unwrap();
    assert_eq!(*seen.lock().unwrap(), ["k", "k-2", "k", "k-2"]);
}

#[derive(Default)]
struct Told(Mutex<Vec<String>>);

impl Observer for Told {
    fn key_minted(&self, dependency: &str) {
        self.0.lock().unwrap().push(format!("minted {dependency}"));
    }

    fn key_kept(&self, dependency: &str) {
        self.0.lock().unwrap().push(format!("kept {dependency}"));
    }
}

#[tokio::test]
async fn an_observer_is_told_of_keys_and_not_which() {
    let observer = Arc::new(Told::default());
    let layer = ToolKeyLayer::new()
        .marks(marks())
        .observer("shop", Arc::clone(&observer) as _);
    let own = charge().key(IdempotencyKey::new("own").unwrap());
    keys(&layer, [charge(), own, ToolCall::new("balance")]).await;
    assert_eq!(*observer.0.lock().unwrap(), ["minted shop", "kept shop"]);
    let stack = Stack::builder(ToolPolicy::new()).dependency("bank");
    let stack = stack.observer(Arc::clone(&observer) as _);
    let stack = stack.idempotency_key(ToolKeyLayer::new()).build().unwrap();
    let tool = stack.layer(Tool::new([ok()])).oneshot(charge());
    tool.await.unwrap();
    assert_eq!(observer.0.lock().unwrap()[2..], ["minted bank"]);
}

#[test]
fn nothing_shows_a_key_or_an_argument() {
    let call = charge()
        .arg("card", "SECRET")
        .key(IdempotencyKey::new("SECRET").unwrap());
    let service = ToolKeyLayer::new().layer(tool_fn(|_| async { Ok::<_, Infallible>(json!(1)) }));
    let layer = ToolKeyLayer::from_arguments().fields("charge", ["order"]);
    for shown in [
        format!("{call:?}"),
        format!("{service:?}"),
        format!("{layer:?}"),
    ] {
        assert!(!shown.contains("SECRET"), "{shown}");
        assert!(shown.starts_with("Tool"), "{shown}");
    }
    assert!(format!("{layer:?}").contains(r#"[("charge", ["order"])]"#));
}

fn any_args() -> impl Strategy<Value = Map<String, Value>> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "\\PC{0,6}".prop_map(Value::from),
    ];
    let any = leaf.prop_recursive(3, 24, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::btree_map("\\PC{0,3}", inner, 0..5)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    });
    prop::collection::btree_map("\\PC{0,3}", any, 0..6).prop_map(|map| map.into_iter().collect())
}

proptest! {
    #[test]
    fn the_order_of_arguments_does_not_matter_and_their_values_do(args in any_args()) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let layer = ToolKeyLayer::from_arguments();
            let call = |args| charge().args(args);
            let text = serde_json::to_string(&args).unwrap();
            let read: Map<String, Value> = serde_json::from_str(&text).unwrap();
            let reversed = read.into_iter().rev().collect();
            let mut more = args.clone();
            more.insert("one more".to_owned(), Value::Null);
            let [one, two, three] = keys(&layer, [call(args), call(reversed), call(more)]).await;
            assert_eq!(one, two);
            assert_ne!(one, three);
        });
    }
}
