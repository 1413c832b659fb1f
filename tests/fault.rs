//! The fault injector: each kind of fault, its schedule and its chance.
#![cfg(all(not(loom), feature = "fault", feature = "http"))]
#![expect(clippy::unwrap_used, reason = "a test may")]

mod support;

use std::time::Duration;

use http::{Request, Response, StatusCode};
use support::{Script, Step};
use tokio::time::{advance, timeout};
use tower::{Layer, Service, ServiceBuilder, ServiceExt};
use tower_composure::fault::{FaultLayer, Window};
use tower_composure::{
    BoxError, Budget, CallReport, DeadlineExceeded, HttpPolicy, Stack, StopReason, Verdict,
};

const SECOND: Duration = Duration::from_secs(1);

type Inner = Script<u32, u32, &'static str>;

fn layer(window: Window<u32, u32, &'static str>) -> FaultLayer<u32, u32, &'static str> {
    FaultLayer::builder()
        .seed(7)
        .window(window)
        .build()
        .unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_window_includes_its_start_and_not_its_end() {
    let inner = Inner::new([Step::Ok(1)]);
    let window = Window::between(SECOND, 2 * SECOND).respond_with(|number| Ok(number + 100));
    let service = layer(window).layer(inner.clone());
    let mut answers = Vec::new();
    for wait in [0, 999, 1, 999, 1] {
        advance(Duration::from_millis(wait)).await;
        answers.push(service.clone().oneshot(5).await);
    }
    assert_eq!(answers, [Ok(1), Ok(1), Ok(105), Ok(105), Ok(1)]);
    assert_eq!(inner.calls(), 3);
}

#[tokio::test(start_paused = true)]
async fn the_same_seed_draws_the_same_calls() {
    let draw = |seed| async move {
        let window = Window::always().rate(0.25).respond_with(|_| Err("drawn"));
        let layer = FaultLayer::builder().seed(seed).window(window).build();
        let service = layer.unwrap().layer(Inner::new([Step::Ok(1)]));
        let mut drawn = Vec::new();
        for call in 0..1000 {
            drawn.push(service.clone().oneshot(call).await.is_err());
        }
        drawn
    };
    let first = draw(1).await;
    assert_eq!(first, draw(1).await);
    assert_ne!(first, draw(2).await);
    let count = first.iter().filter(|drawn| **drawn).count();
    assert!(
        (200..300).contains(&count),
        "{count} of 1000 at a rate of 0.25"
    );
}

#[tokio::test(start_paused = true)]
async fn rates_of_nothing_and_everything_are_exact() {
    for (rate, expected) in [(0.0, 0), (1.0, 1000)] {
        let window = Window::always().rate(rate).respond_with(|_| Err("drawn"));
        let service = layer(window).layer(Inner::new([Step::Ok(1)]));
        let mut drawn = 0;
        for call in 0..1000 {
            drawn += usize::from(service.clone().oneshot(call).await.is_err());
        }
        assert_eq!(drawn, expected, "at a rate of {rate}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_lost_answer_is_carried_out_once_and_never_heard_of() {
    let inner = Inner::new([Step::Ok(1).after(SECOND)]);
    let service = layer(Window::always().lose_answer()).layer(inner.clone());
    let lost = timeout(60 * SECOND, service.oneshot(5)).await;
    assert!(lost.is_err());
    assert_eq!(inner.calls(), 1);
    assert_eq!(inner.in_flight(), 0, "it ended, and its answer was dropped");
}

#[tokio::test(start_paused = true)]
async fn a_hang_never_reaches_the_service() {
    let inner = Inner::new([Step::Ok(1)]);
    let service = layer(Window::always().hang()).layer(inner.clone());
    assert!(timeout(60 * SECOND, service.oneshot(5)).await.is_err());
    assert_eq!(inner.calls(), 0);
}

#[tokio::test(start_paused = true)]
async fn latency_comes_before_the_call() {
    let inner = Inner::new([Step::Ok(1)]);
    let service = layer(Window::always().latency(SECOND)).layer(inner.clone());
    assert_eq!(service.oneshot(5).await, Ok(1));
    assert_eq!(inner.times(), [1000]);
}

#[tokio::test(start_paused = true)]
async fn the_first_window_that_draws_applies() {
    let inner = Inner::new([Step::Ok(1)]);
    let layer = FaultLayer::builder()
        .window(Window::always().rate(0.0).hang())
        .window(Window::between(Duration::ZERO, SECOND).respond_with(|_: &u32| Err("first")))
        .window(Window::always().respond_with(|_: &u32| Err("second")))
        .build()
        .unwrap();
    let service = layer.layer(inner);
    assert_eq!(service.clone().oneshot(5).await, Err("first"));
    advance(SECOND).await;
    assert_eq!(service.oneshot(5).await, Err("second"));
}

#[tokio::test(start_paused = true)]
async fn an_injected_answer_gives_back_the_readiness_of_the_service() {
    let inner = ServiceBuilder::new()
        .concurrency_limit(1)
        .service(Inner::new([Step::Ok(1)]));
    let window = Window::between(Duration::ZERO, SECOND).respond_with(|_| Err("injected"));
    let service = layer(window).layer(inner);
    let mut first = service.clone();
    let answer = first.ready().await.unwrap().call(5).await;
    assert_eq!(answer, Err("injected"));
    advance(SECOND).await;
    let other = timeout(SECOND, service.oneshot(5)).await;
    assert_eq!(other.unwrap(), Ok(1));
}

#[tokio::test(start_paused = true)]
async fn settings_that_contradict_themselves_are_named() {
    let build = |window: Window<u32, u32, &'static str>| {
        let error = FaultLayer::builder().window(window).build().unwrap_err();
        error.to_string()
    };
    assert_eq!(
        build(Window::always().rate(1.5)),
        "rate: 1.5 is not between 0 and 1"
    );
    assert_eq!(
        build(Window::always().rate(f64::NAN)),
        "rate: NaN is not between 0 and 1"
    );
    let backwards = Window::between(2 * SECOND, SECOND);
    assert_eq!(build(backwards), "window: 2s is not before its end 1s");
}

/// The document's drill: 503 for 30 s under the whole stack.
#[tokio::test(start_paused = true)]
async fn a_stack_meets_an_outage_and_an_answer_that_is_lost() {
    let budget = Budget::new(0.0, 5).unwrap();
    let layer = FaultLayer::builder()
        .window(
            Window::between(Duration::ZERO, 30 * SECOND).status(StatusCode::SERVICE_UNAVAILABLE),
        )
        .window(Window::always().lose_answer())
        .build()
        .unwrap();
    let policy = HttpPolicy::new().status(StatusCode::SERVICE_UNAVAILABLE, Verdict::REFUSED);
    let service = ServiceBuilder::new()
        .layer(
            Stack::builder(policy)
                .budget(budget.clone())
                .seed(1)
                .build()
                .unwrap(),
        )
        .layer(layer)
        .service_fn(|_: Request<()>| async { Ok::<_, BoxError>(Response::new(())) });
    let get = || Request::get("/").body(()).unwrap();

    let (answer, report) = CallReport::of(service.clone().oneshot(get())).await;
    assert_eq!(answer.unwrap().status(), StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(report.unwrap().attempts(), 4);
    let (_, report) = CallReport::of(service.clone().oneshot(get())).await;
    assert_eq!(report.unwrap().attempts(), 3);
    assert_eq!(
        report.unwrap().stop_reason(),
        Some(StopReason::BudgetExhausted)
    );

    advance(30 * SECOND).await;
    let post = Request::post("/").body(()).unwrap();
    let (answer, report) = CallReport::of(service.oneshot(post)).await;
    let error = answer.unwrap_err();
    assert!(DeadlineExceeded::find(&*error).unwrap().is_attempt());
    assert_eq!(
        report.unwrap().stop_reason(),
        Some(StopReason::OutcomeUnknown)
    );
    assert!(report.unwrap().outcome_unknown());
}
