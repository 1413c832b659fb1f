//! One budget and one breaker for each dependency: what a client of many sees.
#![cfg(all(not(loom), feature = "keyed"))]
#![expect(clippy::expect_used, reason = "a test may")]

mod support;

use std::time::Duration;

use support::{Script, Step};
use tower::{Service, ServiceBuilder, ServiceExt};
use tower_composure::keyed::{Budgets, CircuitBreakers};
use tower_composure::{
    Backoff, BreakerOpen, Budget, BudgetLayer, CircuitBreaker, CircuitBreakerLayer, CircuitState,
    Effect, RetryLayer, Verdict,
};

type Inner = Script<&'static str, (), &'static str>;

fn breakers(capacity: usize) -> CircuitBreakers {
    let recipe = CircuitBreaker::builder()
        .consecutive_failures(2)
        .open_time(Duration::from_secs(30))
        .open_jitter(0.0);
    CircuitBreakers::new("hosts", capacity, recipe).expect("a recipe that works")
}

fn key<'r>(request: &'r &'static str) -> Option<&'r str> {
    (!request.is_empty()).then_some(*request)
}

#[tokio::test(start_paused = true)]
async fn the_fault_of_one_dependency_does_not_refuse_calls_to_the_others() {
    let inner = Inner::new([Step::Err("down"), Step::Err("down"), Step::Ok(())]);
    let breakers = breakers(100);
    let client = ServiceBuilder::new()
        .layer(CircuitBreakerLayer::keyed(
            breakers.clone(),
            Effect::Read,
            key,
        ))
        .service(inner.clone());
    for _ in 0..2 {
        client.clone().oneshot("a").await.unwrap_err();
    }
    let refused = client.clone().oneshot("a").await.unwrap_err();
    let open = BreakerOpen::find(&*refused).expect("the breaker of a is open");
    assert_eq!(open.remaining(), Duration::from_secs(30));
    client.clone().oneshot("b").await.unwrap();
    assert_eq!(inner.calls(), 3);
    assert_eq!(breakers.get("a").state(), CircuitState::Open);
    assert_eq!(breakers.get("a").name(), "a");
    assert_eq!(breakers.get("b").state(), CircuitState::Closed);
}

#[tokio::test(start_paused = true)]
async fn requests_without_a_name_share_one() {
    let inner = Inner::new([Step::Err("down")]);
    let breakers = breakers(100);
    let client = CircuitBreakerLayer::keyed(breakers.clone(), Effect::Read, key);
    let client = ServiceBuilder::new().layer(client).service(inner);
    for _ in 0..2 {
        client.clone().oneshot("").await.unwrap_err();
    }
    assert_eq!(breakers.get("").state(), CircuitState::Open);
    assert_eq!(breakers.list().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn each_dependency_has_a_budget_and_the_retry_below_spends_it() {
    let budgets = Budgets::new("hosts", 100, Budget::builder().ratio(0.0).burst(1))
        .expect("a recipe that works");
    let inner = Inner::new([Step::Err("down")]);
    let client = ServiceBuilder::new()
        .layer(BudgetLayer::keyed(budgets.clone(), key))
        .layer(
            RetryLayer::builder(Effect::Read)
                .backoff(Backoff::none())
                .build()
                .expect("settings that work"),
        )
        .service(inner.clone());
    client.clone().oneshot("a").await.unwrap_err();
    assert_eq!(inner.calls(), 2, "one retry, and then the budget was empty");
    client.clone().oneshot("a").await.unwrap_err();
    assert_eq!(inner.calls(), 3);
    client.clone().oneshot("b").await.unwrap_err();
    assert_eq!(inner.calls(), 5, "b has a token of its own");
    assert!(budgets.find("a").expect("a is known").balance() < 1.0);
    assert!(budgets.find("c").is_none());
}

#[tokio::test(start_paused = true)]
async fn a_flood_of_new_keys_does_not_make_an_open_breaker_forget() {
    let breakers = breakers(50);
    breakers.get("down").force_open();
    for number in 0..10_000 {
        breakers.get(&format!("flood-{number}"));
    }
    assert_eq!(breakers.get("down").state(), CircuitState::ForcedOpen);
    assert!(breakers.len() <= 100, "{} keys", breakers.len());
}

#[tokio::test(start_paused = true)]
async fn a_flood_does_not_make_a_used_or_drained_budget_forget() {
    let budgets = Budgets::new("hosts", 50, Budget::builder().ratio(0.0).burst(3))
        .expect("a recipe that works");
    let held = budgets.get("held");
    let drained = Verdict::UNKNOWN;
    budgets
        .get("drained")
        .try_withdraw(drained)
        .expect("it was full")
        .spend();
    for number in 0..10_000 {
        budgets.get(&format!("flood-{number}"));
    }
    assert!(budgets.get("drained").balance() < 3.0);
    held.try_withdraw(drained).expect("it was full").spend();
    assert!(
        budgets.get("held").balance() < 3.0,
        "the same one as before"
    );
}

#[tokio::test(start_paused = true)]
async fn what_nobody_used_for_ten_minutes_makes_room() {
    let budgets = Budgets::new("hosts", 10, Budget::builder().ratio(0.0).burst(3))
        .expect("a recipe that works");
    let spend = |key: &str| {
        let token = budgets.get(key).try_withdraw(Verdict::UNKNOWN);
        token.expect("it was full").spend();
    };
    for number in 0..20 {
        spend(&format!("old-{number}"));
    }
    assert_eq!(
        budgets.len(),
        20,
        "all of them matter, so there are more than ten"
    );
    assert_eq!(budgets.get("new").name(), "overflow");
    tokio::time::advance(Duration::from_secs(599)).await;
    assert_eq!(budgets.get("new").name(), "overflow");
    tokio::time::advance(Duration::from_secs(1)).await;
    spend("old-0");
    assert_eq!(budgets.get("new").name(), "new");
    let mut left: Vec<_> = budgets.list().into_iter().map(|(key, _)| key).collect();
    left.sort();
    assert_eq!(left, ["new", "old-0"]);
}

#[tokio::test(start_paused = true)]
async fn while_there_is_room_nobody_goes() {
    let budgets = Budgets::new("hosts", 10, Budget::builder()).expect("a recipe that works");
    assert_eq!((budgets.name(), budgets.len()), ("hosts", 0));
    assert!(budgets.is_empty());
    for key in ["a", "b", "c"] {
        budgets.get(key);
        tokio::time::advance(Duration::from_secs(3600)).await;
    }
    let mut left: Vec<_> = budgets.list().into_iter().map(|(key, _)| key).collect();
    left.sort();
    assert_eq!(left, ["a", "b", "c"]);
    assert!(!budgets.is_empty());
    let shown = format!("{budgets:?}");
    assert!(shown.contains(r#"name: "hosts""#) && !shown.contains("\"a\""));
}

#[tokio::test(start_paused = true)]
async fn where_everything_matters_new_keys_share_the_overflow() {
    let breakers = breakers(10);
    for number in 0..100 {
        breakers.get(&format!("open-{number}")).force_open();
    }
    assert!(breakers.len() <= 20, "{} keys", breakers.len());
    assert_eq!(breakers.overflow().state(), CircuitState::ForcedOpen);
    assert_eq!(breakers.overflow().name(), "overflow");
    assert_eq!(breakers.get("new").name(), "overflow");
}

#[tokio::test(start_paused = true)]
async fn a_recipe_that_contradicts_itself_is_an_error_of_the_registry() {
    let error = Budgets::new("hosts", 10, Budget::builder().ratio(-1.0)).unwrap_err();
    assert_eq!(error.to_string(), "ratio: -1 is not between 0 and 1000");
    let error = Budgets::new("hosts", 0, Budget::builder()).unwrap_err();
    assert_eq!(error.setting(), "capacity");
    let error = CircuitBreakers::new("hosts", 10, CircuitBreaker::builder().probes(0)).unwrap_err();
    assert_eq!(error.to_string(), "probes: 0 is not between 1 and 1000");
}

#[tokio::test(start_paused = true)]
async fn a_refused_call_gives_back_the_readiness_of_the_service_below() {
    let breakers = breakers(10);
    breakers.get("a").force_open();
    let limited = ServiceBuilder::new()
        .layer(CircuitBreakerLayer::keyed(breakers, Effect::Read, key))
        .concurrency_limit(1)
        .service(Inner::new([Step::Ok(())]));
    let mut refused = limited.clone();
    refused.ready().await.unwrap().call("a").await.unwrap_err();
    // The first instance is still there; had it kept the permit, this would wait for ever.
    let other = limited.clone().oneshot("b");
    tokio::time::timeout(Duration::from_secs(1), other)
        .await
        .expect("the permit is back")
        .unwrap();
    drop(refused);
}

#[cfg(feature = "http")]
#[test]
fn the_authority_names_what_an_http_request_calls() {
    let request = |uri: &str| http::Request::get(uri).body(()).expect("a request");
    let named = request("https://api.example:8443/v1?key=1");
    assert_eq!(
        tower_composure::http::authority(&named),
        Some("api.example:8443")
    );
    assert_eq!(tower_composure::http::authority(&request("/v1")), None);
}
