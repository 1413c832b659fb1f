//! What the metrics say of calls whose course is known, to the number.
#![cfg(all(not(loom), feature = "metrics", feature = "http"))]
#![allow(
    clippy::panic,
    clippy::unwrap_used,
    reason = "the helpers of tests are tests too"
)]

mod support;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::{Method, Request, Response, StatusCode};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use support::reasons::REASONS;
use support::watched::{self, Client, answer};
use support::{Step, paused};
use tower::{BoxError, Layer, Service, ServiceExt};
use tower_composure::circuit_breaker::Transition;
use tower_composure::metrics::{ATTEMPTS, SECONDS};
use tower_composure::{
    Attempt, Backoff, Budget, CircuitBreaker, Effect, HttpPolicy, IdempotencyKeyLayer, Jitter,
    MetricsObserver, Observer, Stack,
};

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);

/// Runs a test with a recorder of its own, on paused time.
fn recorded<T>(test: impl AsyncFnOnce(PrometheusHandle) -> T) -> T {
    let recorder = PrometheusBuilder::new()
        .set_buckets_for_metric(Matcher::Full("composure_call_attempts".into()), &ATTEMPTS)
        .unwrap()
        .set_buckets_for_metric(Matcher::Suffix("_seconds".into()), &SECONDS)
        .unwrap()
        .build_recorder();
    let handle = recorder.handle();
    metrics::with_local_recorder(&recorder, || paused(async || test(handle).await))
}

/// The samples that are not zero, buckets apart; `payments` is left out of the labels.
fn samples(handle: &PrometheusHandle) -> BTreeMap<String, f64> {
    let page = handle.render();
    let lines = page.lines().filter(|line| !line.starts_with('#'));
    lines
        .filter(|line| !line.is_empty() && !line.contains("_bucket"))
        .map(|line| {
            let (series, value) = line.rsplit_once(' ').unwrap();
            let series = series.strip_prefix("composure_").unwrap();
            let series = series
                .replace(r#"dependency="payments","#, "")
                .replace(r#"{dependency="payments"}"#, "");
            (series, value.parse().unwrap())
        })
        .filter(|(_, value)| *value != 0.0)
        .collect()
}

fn expected(samples: &[(&str, f64)]) -> BTreeMap<String, f64> {
    let samples = samples.iter();
    samples
        .map(|(series, value)| ((*series).to_owned(), *value))
        .collect()
}

fn stack(observer: &Arc<MetricsObserver>) -> Stack<HttpPolicy, IdempotencyKeyLayer> {
    watched::stack(&(Arc::clone(observer) as Arc<dyn Observer>))
}

async fn call(
    service: &mut (impl Service<Request<()>, Response = Response<()>, Error = BoxError> + Send),
) -> Result<StatusCode, BoxError> {
    let request = Request::post("/").body(()).unwrap();
    let outcome = service.ready().await?.call(request).await;
    outcome.map(|response| response.status())
}

#[test]
fn a_call_and_its_attempts_are_counted_apart() {
    recorded(async |handle| {
        let observer = Arc::new(MetricsObserver::new());
        let unavailable = || answer(StatusCode::SERVICE_UNAVAILABLE);
        let script = Client::new([
            unavailable(),
            unavailable().after(20 * MS),
            answer(StatusCode::OK),
        ]);
        let mut service = stack(&observer).layer(script);
        assert_eq!(call(&mut service).await.unwrap(), 200);
        assert_eq!(
            samples(&handle),
            expected(&[
                (r#"calls_total{outcome="success"}"#, 1.0),
                ("call_attempts_count", 1.0),
                ("call_attempts_sum", 3.0),
                ("call_duration_seconds_count", 1.0),
                ("call_duration_seconds_sum", 0.22),
                ("call_backoff_seconds_count", 1.0),
                ("call_backoff_seconds_sum", 0.2),
                ("attempts_total", 3.0),
                (r#"attempt_duration_seconds_count{verdict="unknown"}"#, 2.0),
                (r#"attempt_duration_seconds_sum{verdict="unknown"}"#, 0.02),
                (r#"attempt_duration_seconds_count{verdict="success"}"#, 1.0),
                (r#"retries_total{delayed_by="backoff"}"#, 2.0),
                ("retry_delay_seconds_count", 2.0),
                ("retry_delay_seconds_sum", 0.2),
                ("budget_withdrawals_total", 2.0),
                ("budget_deposits_total", 1.0),
                ("budget_tokens", 0.5),
                (r#"idempotency_keys_total{source="minted"}"#, 1.0),
            ])
        );
    });
}

#[test]
fn an_outage_is_told_of_in_full() {
    recorded(async |handle| {
        let observer = Arc::new(MetricsObserver::new());
        let mut service = stack(&observer).layer(Client::new([Step::Err("down")]));
        for _ in 0..3 {
            call(&mut service).await.unwrap_err();
        }
        let seen = samples(&handle);
        for (series, value) in [
            (r#"calls_total{outcome="unknown"}"#, 2.0),
            ("calls_outcome_unknown_total", 2.0),
            ("attempts_total", 4.0),
            (r#"retries_refused_total{reason="attempts"}"#, 1.0),
            (r#"retries_refused_total{reason="budget_exhausted"}"#, 1.0),
            ("budget_exhausted_total", 1.0),
            (r#"breaker_transitions_total{to="open"}"#, 1.0),
            (r#"breaker_state{state="open"}"#, 1.0),
            ("breaker_rejected_total", 1.0),
        ] {
            assert_eq!(seen.get(series), Some(&value), "{series} of {seen:#?}");
        }
        let page = handle.render();
        assert!(page.contains(r#"composure_budget_tokens{dependency="payments"} 0"#));

        tokio::time::sleep(SECOND).await;
        call(&mut service).await.unwrap_err();
        let seen = samples(&handle);
        for (series, value) in [
            ("breaker_probes_total", 1.0),
            (r#"breaker_transitions_total{to="half_open"}"#, 1.0),
            (r#"breaker_transitions_total{to="open"}"#, 2.0),
            (r#"retries_refused_total{reason="probe"}"#, 1.0),
            (r#"breaker_state{state="open"}"#, 1.0),
        ] {
            assert_eq!(seen.get(series), Some(&value), "{series} of {seen:#?}");
        }
        assert!(!seen.contains_key(r#"breaker_state{state="half_open"}"#));
    });
}

#[test]
fn deadlines_and_cancelled_calls_are_told_of() {
    recorded(async |handle| {
        let observer = Arc::new(MetricsObserver::new());
        let stack = Stack::builder(HttpPolicy::new())
            .dependency("payments")
            .observer(Arc::clone(&observer) as Arc<dyn Observer>)
            .attempt_deadline(SECOND)
            .call_deadline(1500 * MS)
            .backoff(Backoff::constant(100 * MS).jitter(Jitter::None));
        let mut service = stack.build().unwrap().layer(Client::new([Step::Hang]));
        let request = Request::builder().method(Method::GET).body(()).unwrap();
        let ready = service.ready().await.unwrap();
        assert!(ready.call(request).await.is_err());
        let seen = samples(&handle);
        for (series, value) in [
            (r#"deadlines_exceeded_total{limit="attempt"}"#, 1.0),
            (r#"deadlines_exceeded_total{limit="call"}"#, 1.0),
            (r#"calls_total{outcome="cancelled"}"#, 1.0),
            ("attempts_total", 2.0),
            (r#"attempt_duration_seconds_count{verdict="unknown"}"#, 1.0),
            ("call_duration_seconds_sum", 1.5),
        ] {
            assert_eq!(seen.get(series), Some(&value), "{series} of {seen:#?}");
        }
    });
}

/// What is known before the first call: counters at zero, and gauges only where somebody has looked.
#[test]
fn a_dependency_is_there_before_its_first_call() {
    recorded(async |handle| {
        let observer = MetricsObserver::new();
        observer.register("payments");
        let page = handle.render();
        for series in [
            r#"composure_calls_total{dependency="payments",outcome="cancelled"} 0"#,
            r#"composure_budget_exhausted_total{dependency="payments"} 0"#,
        ] {
            assert!(page.contains(series), "{page}");
        }
        assert!(!page.contains("\ncomposure_budget_tokens{"));
        assert!(!page.contains("\ncomposure_breaker_state{"));

        let budget = Budget::new(0.1, 7).unwrap();
        observer.observe_budget("payments", &budget);
        let breaker = CircuitBreaker::builder().name("payments").build().unwrap();
        observer.observe_breaker(&breaker);
        let known = [
            ("budget_tokens", 7.0),
            (r#"breaker_state{state="closed"}"#, 1.0),
        ];
        assert_eq!(samples(&handle), expected(&known));

        breaker.force_open();
        observer.observe_breaker(&breaker);
        let open = r#"breaker_state{state="forced_open"}"#;
        assert_eq!(samples(&handle).get(open), Some(&1.0));
        // Another breaker has taken its place, whose generations begin anew.
        observer.observe_breaker(&CircuitBreaker::builder().name("payments").build().unwrap());
        assert_eq!(samples(&handle), expected(&known));
    });
}

/// Writes transitions down.
#[derive(Default)]
struct Transitions(Mutex<Vec<Transition>>);

impl Observer for Transitions {
    fn breaker_transition(&self, _: &str, transition: &Transition) {
        self.0.lock().unwrap().push(*transition);
    }
}

#[test]
fn the_state_shown_is_the_latest_in_whatever_order_it_is_told_of() {
    recorded(async |handle| {
        let transitions = Arc::new(Transitions::default());
        let breaker = CircuitBreaker::builder().observer(Arc::clone(&transitions) as _);
        let breaker = breaker.build().unwrap();
        breaker.force_open();
        breaker.reset();
        let told = transitions.0.lock().unwrap().clone();
        let observer = MetricsObserver::new();
        for transition in told.iter().rev() {
            observer.breaker_transition("payments", transition);
        }
        let seen = samples(&handle);
        assert_eq!(seen.get(r#"breaker_state{state="closed"}"#), Some(&1.0));
        assert_eq!(seen.get(r#"breaker_state{state="forced_open"}"#), None);
    });
}

/// A gateway that names its dependencies by host cannot be made to grow without end.
#[test]
fn dependencies_beyond_the_hundredth_are_counted_together() {
    recorded(async |handle| {
        let observer = MetricsObserver::new();
        for nth in 0..250 {
            observer.breaker_probe(&format!("host-{nth}"));
            observer.breaker_probe("host-3");
        }
        let seen = samples(&handle);
        let probes =
            |name: &str| seen.get(&format!(r#"breaker_probes_total{{dependency="{name}"}}"#));
        assert_eq!(seen.len(), 101);
        assert_eq!(probes("host-3"), Some(&251.0));
        assert_eq!(probes("host-99"), Some(&1.0));
        assert_eq!(probes("host-100"), None);
        assert_eq!(probes("(other)"), Some(&150.0));
    });
}

#[test]
fn a_label_is_what_the_value_is_called() {
    recorded(async |handle| {
        let observer = MetricsObserver::new();
        let attempt = Attempt::first(Effect::Read);
        for (nth, reason) in REASONS.into_iter().enumerate() {
            for _ in 0..=nth {
                observer.retry_refused("payments", &attempt, reason);
            }
        }
        let seen = samples(&handle);
        for (times, reason) in (1_u32..).zip(REASONS) {
            let series = format!(r#"retries_refused_total{{reason="{}"}}"#, reason.as_str());
            assert_eq!(seen.get(&series), Some(&f64::from(times)));
        }
        assert_eq!(seen.len(), REASONS.len());
    });
}

/// Threads that meet a dependency at the same time count it together.
#[test]
fn threads_that_register_at_once_share_the_handles() {
    let recorder = PrometheusBuilder::new().build_recorder();
    let handle = recorder.handle();
    let observer = metrics::with_local_recorder(&recorder, MetricsObserver::new);
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let (observer, recorder) = (&observer, &recorder);
            scope.spawn(move || {
                metrics::with_local_recorder(recorder, || {
                    for nth in 0..40 {
                        observer.breaker_probe(&format!("host-{}", (nth + thread) % 40));
                    }
                });
            });
        }
    });
    let each: Vec<_> = samples(&handle).into_values().collect();
    assert_eq!(each, [8.0; 40]);
}

/// The names in a text.
fn names(text: &str) -> BTreeSet<&str> {
    text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'))
        .filter(|word| word.starts_with("composure_"))
        .map(|word| {
            ["_bucket", "_sum", "_count"]
                .iter()
                .find_map(|suffix| word.strip_suffix(suffix))
                .unwrap_or(word)
        })
        .collect()
}

/// One table, one description each, and nothing in an alert or on the dashboard that is not there.
#[test]
fn every_name_is_described_and_in_the_table() {
    let page = recorded(async |handle| {
        let observer = Arc::new(MetricsObserver::new());
        let mut service = stack(&observer).layer(Client::new([Step::Err("down")]));
        for _ in 0..3 {
            call(&mut service).await.unwrap_err();
        }
        handle.render()
    });
    let of = |marker: &str| -> BTreeSet<&str> {
        let lines = page.lines().filter_map(|line| line.strip_prefix(marker));
        lines.filter_map(|line| line.split(' ').next()).collect()
    };
    let typed = of("# TYPE ");
    assert_eq!(typed.len(), 20);
    assert_eq!(of("# HELP "), typed);

    let docs = include_str!("../src/metrics/mod.rs");
    let table: BTreeSet<_> = docs
        .lines()
        .filter_map(|line| line.strip_prefix("//! | `"))
        .filter_map(|line| line.split('`').next())
        .collect();
    assert_eq!(table, typed);

    let alerts = names(include_str!("../observability/alerts.yml"));
    let dashboard = names(include_str!("../observability/dashboard.json"));
    assert_eq!(alerts.len(), 5);
    for name in alerts.iter().chain(&dashboard) {
        assert!(typed.contains(name), "{name} does not exist");
    }
    assert_eq!(dashboard, typed, "the dashboard shows every metric");
}
