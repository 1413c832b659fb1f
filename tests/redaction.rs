//! Secrets in the URL, headers, key, arguments and body of a request and in the texts of an error, through every stop
//! reason: nothing of ours shows them, in traces, in metrics, in `Debug` or in an error of its own.
#![cfg(all(not(loom), feature = "metrics", feature = "tracing", feature = "http"))]
#![allow(
    clippy::panic,
    clippy::unwrap_used,
    reason = "the helpers of tests are tests too"
)]

mod support;

use std::error::Error;
use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::{Request, Response};
use metrics_exporter_prometheus::PrometheusBuilder;
use support::paused;
use support::reasons::REASONS;
use support::records::Records;
use tower::{BoxError, Layer, Service, ServiceExt, service_fn};
use tower_composure::retry::replay_fn;
use tower_composure::{
    Attempt, AttemptFinished, Backoff, BreakerOpen, Budget, CallContext, CallReport,
    CircuitBreaker, Deadline, DeadlineExceeded, Effect, HttpPolicy, IdempotencyKey,
    IdempotencyKeyLayer, MetricsObserver, Observer, RetryLayer, RetryMode, RetryScheduled, Stack,
    StopReason, TracingObserver,
};

const SECRET: &str = "SECRET123";
const URL: &str = "https://u:SECRET123@h/p?sig=SECRET123";
const SECOND: Duration = Duration::from_secs(1);

/// An error that tells everything to whoever asks.
struct Leaky;

impl fmt::Display for Leaky {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{SECRET} at {URL}")
    }
}

impl fmt::Debug for Leaky {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Leaky({SECRET} at {URL})")
    }
}

impl Error for Leaky {}

/// The body of requests and responses.
#[derive(Debug, Clone)]
struct Card(#[expect(dead_code, reason = "for its Debug")] &'static str);

/// Shows everything that it hears, and keeps the reasons.
#[derive(Default)]
struct Heard {
    shown: Mutex<Vec<String>>,
    reasons: Mutex<Vec<StopReason>>,
}

impl Heard {
    fn show(&self, what: &dyn fmt::Debug) {
        self.text(format!("{what:?} {what:#?}"));
    }

    fn text(&self, text: String) {
        self.shown.lock().unwrap().push(text);
    }
}

impl Observer for Heard {
    fn attempt_started(&self, _: &str, attempt: &Attempt) {
        self.show(attempt);
    }
    fn attempt_finished(&self, _: &str, finished: &AttemptFinished) {
        self.show(finished);
    }
    fn retry_scheduled(&self, _: &str, retry: &RetryScheduled) {
        self.show(retry);
    }
    fn retry_refused(&self, _: &str, _: &Attempt, reason: StopReason) {
        self.reasons.lock().unwrap().push(reason);
    }
    fn call_finished(&self, _: &str, report: &CallReport) {
        self.show(report);
    }
    fn deadline_exceeded(&self, _: &str, exceeded: &DeadlineExceeded) {
        self.show(exceeded);
        self.text(exceeded.to_string());
    }
}

fn request() -> Request<Card> {
    Request::post(URL)
        .header("authorization", SECRET)
        .header("idempotency-key", SECRET)
        .body(Card(SECRET))
        .unwrap()
}

/// A 429 that says when to come back, and more than it should.
fn busy(seconds: &str) -> Response<Card> {
    Response::builder()
        .status(429)
        .header("retry-after", seconds)
        .header("set-cookie", SECRET)
        .body(Card(SECRET))
        .unwrap()
}

/// Makes a call, looks at everything on the way, and gives its error.
async fn look<S>(service: &mut S, heard: &Heard) -> Option<BoxError>
where
    S: Service<Request<Card>, Response = Response<Card>, Error = BoxError> + fmt::Debug,
    S::Future: fmt::Debug,
{
    heard.show(service);
    let call = service.ready().await.unwrap().call(request());
    let key = IdempotencyKey::new(SECRET).unwrap();
    heard.show(&key);
    let call = std::pin::pin!(key.scope(call));
    heard.show(&call);
    let (outcome, report) = CallReport::of(call).await;
    heard.show(&report);
    match outcome {
        Ok(response) => {
            assert_eq!(response.headers()["set-cookie"], SECRET);
            None
        }
        Err(error) => Some(error),
    }
}

/// What a call meets that is to end for this reason.
fn answer(reason: StopReason, breaker: &CircuitBreaker) -> Result<Response<Card>, BoxError> {
    for in_scope in [
        format!("{:?}", CallContext::current()),
        format!("{:?}", IdempotencyKey::current()),
        format!("{:?}", Deadline::current()),
    ] {
        assert!(!in_scope.contains(SECRET), "{in_scope}");
    }
    match reason {
        StopReason::HintExceedsLimit => return Ok(busy("3600")),
        StopReason::Deadline => return Ok(busy("30")),
        StopReason::BreakerOpen => breaker.force_open(),
        _ => {}
    }
    Err(Box::new(Leaky))
}

fn breaker(observer: Arc<dyn Observer>) -> CircuitBreaker {
    let breaker = CircuitBreaker::builder()
        .name("payments")
        .consecutive_failures(1)
        .open_time(SECOND)
        .open_jitter(0.0)
        .observer(observer);
    breaker.build().unwrap()
}

fn budget(reason: StopReason) -> Budget {
    match reason {
        StopReason::BudgetExhausted => Budget::builder().starting_empty().build().unwrap(),
        _ => Budget::default(),
    }
}

/// Ends a call for this reason.
async fn stop(reason: StopReason, heard: &Arc<Heard>) {
    let traced = (TracingObserver::new(), MetricsObserver::new());
    let observer: Arc<dyn Observer> = Arc::new((Arc::clone(heard), traced));
    let breaker = breaker(Arc::clone(&observer));
    let seen = breaker.clone();
    let inner = service_fn(move |_: Request<Card>| {
        let outcome = answer(reason, &seen);
        async move { outcome }
    });
    let copies = reason != StopReason::NotReplayable;
    let builder = Stack::builder(HttpPolicy::new())
        .dependency("payments")
        .observer(observer)
        .breaker(breaker.clone())
        .budget(budget(reason))
        .backoff(Backoff::constant(SECOND))
        .max_attempts(2)
        .replay(replay_fn(move |request: &Request<Card>| {
            copies.then(|| request.clone())
        }));
    heard.show(&builder);
    if reason == StopReason::OutcomeUnknown {
        let mut service = builder.build().unwrap().layer(inner);
        the_error_is_unchanged(look(&mut service, heard).await.as_deref());
        return;
    }
    let keys = IdempotencyKeyLayer::new();
    let stack = builder.idempotency_key(keys).build().unwrap();
    heard.show(&stack);
    match reason {
        StopReason::SwitchedOff => stack.switch().set(RetryMode::Off),
        StopReason::ObserveOnly => stack.switch().set(RetryMode::ObserveOnly),
        _ => {}
    }
    let mut service = stack.layer(inner);
    if reason == StopReason::Nested {
        let mut service = RetryLayer::new(Effect::Read).layer(service);
        look(&mut service, heard).await.unwrap();
        return;
    }
    let error = look(&mut service, heard).await;
    if !matches!(reason, StopReason::HintExceedsLimit | StopReason::Deadline) {
        the_error_is_unchanged(error.as_deref());
    }
    if reason == StopReason::Probe {
        let refused = look(&mut service, heard).await.unwrap();
        heard.text(format!("{refused:?} {refused}"));
        assert!(BreakerOpen::find(&*refused).is_some());
        tokio::time::sleep(SECOND).await;
        look(&mut service, heard).await.unwrap();
    }
    heard.show(&breaker);
}

fn the_error_is_unchanged(error: Option<&(dyn Error + Send + Sync + 'static)>) {
    assert!(error.is_some_and(<dyn Error + Send + Sync>::is::<Leaky>));
}

/// Runs something and looks for the secret in all that was said.
fn nothing_is_shown(run: impl AsyncFnOnce(&Arc<Heard>)) -> String {
    let records = Records::default();
    let recorder = PrometheusBuilder::new().build_recorder();
    let heard = Arc::new(Heard::default());
    records.capture(|| {
        metrics::with_local_recorder(&recorder, || paused(async || run(&heard).await));
    });
    let page = recorder.handle().render();
    let mut said = records.take().join("\n");
    assert!(said.contains("attempt started"), "{said}");
    said.push_str(&page);
    said.push_str(&heard.shown.lock().unwrap().join("\n"));
    for secret in [SECRET, "authorization", "https", "sig=", "Leaky"] {
        let at = said.lines().find(|line| line.contains(secret));
        assert_eq!(at, None, "{secret} is shown");
    }
    said
}

#[test]
fn case_149_no_stop_reason_shows_a_secret() {
    for reason in REASONS {
        let said = nothing_is_shown(async |heard| {
            stop(reason, heard).await;
            let reasons = heard.reasons.lock().unwrap();
            assert!(reasons.contains(&reason), "{reason:?}: {reasons:?}");
        });
        let traced = format!(r#"reason="{}""#, reason.as_str());
        assert!(said.contains(&traced), "{traced}");
    }
}

#[test]
fn case_149_a_deadline_shows_no_secret() {
    nothing_is_shown(async |heard| {
        let failed = Arc::new(Mutex::new(false));
        let inner = service_fn(move |_: Request<Card>| {
            let first = !std::mem::replace(&mut *failed.lock().unwrap(), true);
            async move {
                if first {
                    return Err(Box::new(Leaky) as BoxError);
                }
                std::future::pending::<Result<Response<Card>, BoxError>>().await
            }
        });
        let observer = (Arc::clone(heard), TracingObserver::new());
        let stack = Stack::builder(HttpPolicy::new())
            .observer(Arc::new(observer))
            .call_deadline(2 * SECOND)
            .idempotency_key(IdempotencyKeyLayer::new())
            .build()
            .unwrap();
        let error = look(&mut stack.layer(inner), heard).await.unwrap();
        heard.text(format!("{error:?} {error}"));
        assert!(DeadlineExceeded::find(&*error).is_some());
    });
}

/// The arguments of a tool, and what it says of its failure.
#[cfg(feature = "tool")]
#[test]
fn case_149_a_tool_shows_no_argument() {
    use serde_json::{Value, json};
    use tower::ServiceBuilder;
    use tower_composure::tool::{ToolMarks, tool_fn};
    use tower_composure::{EnvelopeLayer, ToolCall, ToolKeyLayer, ToolPolicy};

    nothing_is_shown(async |heard| {
        let tool = tool_fn(|call: ToolCall| async move {
            let error = json!({"code": "UNAVAILABLE", "message": SECRET});
            Ok::<_, BoxError>(json!({"status": "error", "error": error, "args": call.args}))
        });
        heard.show(&tool);
        let marks = ToolMarks::new().idempotent_write("charge");
        let policy = ToolPolicy::marked(marks.clone());
        let observer = Arc::new((Arc::clone(heard), TracingObserver::new()));
        let stack = Stack::builder(policy.clone())
            .observer(Arc::clone(&observer) as Arc<dyn Observer>)
            .max_attempts(2)
            .build()
            .unwrap();
        let service = ServiceBuilder::new()
            .layer(EnvelopeLayer::new(policy.clone()))
            .layer(ToolKeyLayer::new())
            .layer(stack)
            .service(tool);
        heard.show(&service);
        let call = ToolCall::new("charge").arg("card", SECRET);
        heard.show(&call);
        let answer = service.oneshot(call).await.unwrap();
        heard.text(Value::Object(answer).to_string());
    });
}
