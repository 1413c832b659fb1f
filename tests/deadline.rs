//! What a user of the deadline layer sees: one end for a call, one for each attempt, and no wait that crosses them.
#![cfg(not(loom))]
#![expect(clippy::unwrap_used, reason = "a test may")]

mod support;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use support::{Readiness, Script, Step};
use tokio::time::{sleep, timeout};
use tokio_test::task::spawn;
use tower::limit::ConcurrencyLimit;
use tower::{BoxError, Layer, Service, ServiceBuilder, ServiceExt};
use tower_composure::retry::RetryLayerBuilder;
use tower_composure::{
    Backoff, CallReport, Deadline, DeadlineExceeded, DeadlineLayer, Effect, Jitter, RetryLayer,
    StopReason, Verdict,
};

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);

type Inner = Script<u32, u32, &'static str>;

fn retry(wait: Duration) -> RetryLayerBuilder<Effect> {
    RetryLayer::builder(Effect::Read).backoff(Backoff::constant(wait).jitter(Jitter::None))
}

fn exceeded(error: &BoxError) -> &DeadlineExceeded {
    DeadlineExceeded::find(&**error).unwrap()
}

#[tokio::test(start_paused = true)]
async fn case_024_a_limit_that_cannot_be_represented_is_none() {
    for endless in [Duration::MAX, Duration::from_secs(u64::MAX)] {
        for layer in [
            DeadlineLayer::call(endless),
            DeadlineLayer::attempt(endless),
        ] {
            let service = layer.layer(Inner::new([Step::Ok(200)]));
            assert_eq!(service.oneshot(1).await.unwrap(), 200);
            let hanging = layer.layer(Inner::new([Step::Hang]));
            timeout(365 * 24 * 3600 * SECOND, hanging.oneshot(1))
                .await
                .unwrap_err();
        }
        assert_eq!(Deadline::after(endless).remaining(), Duration::MAX);
    }
}

#[tokio::test(start_paused = true)]
async fn case_081_a_wait_that_cannot_end_in_time_is_not_begun() {
    for (wait, calls, stop) in [
        (10 * SECOND, 1, Some(StopReason::Deadline)),
        (4999 * MS, 2, None),
        (5 * SECOND, 1, Some(StopReason::Deadline)),
    ] {
        let inner = Inner::new([Step::Err("503"), Step::Ok(200)]);
        let service = DeadlineLayer::call(5 * SECOND)
            .layer(retry(wait).build().unwrap().layer(inner.clone()));
        let (_, report) = CallReport::of(service.oneshot(1)).await;
        assert_eq!(inner.calls(), calls, "with a wait of {wait:?}");
        assert_eq!(report.unwrap().stop_reason(), stop);
        let waited = if calls == 2 { wait } else { Duration::ZERO };
        assert_eq!(inner.age(), waited, "nobody is held for nothing");
    }
}

#[tokio::test(start_paused = true)]
async fn case_082_the_last_outcome_goes_up_and_not_a_bare_deadline() {
    let inner = Inner::new([Step::Err("what is wrong")]);
    let service =
        DeadlineLayer::call(5 * SECOND).layer(retry(10 * SECOND).build().unwrap().layer(inner));
    let (outcome, report) = CallReport::of(service.oneshot(1)).await;
    assert_eq!(outcome.unwrap_err().to_string(), "what is wrong");
    assert_eq!(report.unwrap().stop_reason(), Some(StopReason::Deadline));
}

#[tokio::test(start_paused = true)]
async fn case_083_a_deadline_cuts_an_attempt_in_flight() {
    let inner = Inner::new([Step::Hang]);
    let service =
        DeadlineLayer::call(300 * MS).layer(retry(MS).build().unwrap().layer(inner.clone()));
    let error = service.oneshot(1).await.unwrap_err();
    assert!(exceeded(&error).is_call());
    assert_eq!(inner.age(), 300 * MS);
    assert_eq!(inner.in_flight(), 0);
}

#[tokio::test(start_paused = true)]
async fn case_084_an_attempt_gets_no_more_than_what_is_left() {
    let left = Arc::new(std::sync::Mutex::new(Vec::new()));
    let log = Arc::clone(&left);
    let service = ServiceBuilder::new()
        .layer(DeadlineLayer::call(500 * MS))
        .layer(retry(100 * MS).build().unwrap())
        .layer(DeadlineLayer::attempt(250 * MS))
        .service_fn(move |_: u32| {
            log.lock()
                .unwrap()
                .push(Deadline::current().unwrap().remaining());
            std::future::pending::<Result<u32, BoxError>>()
        });
    let clock = Inner::new([Step::Hang]);
    let error = service.oneshot(1).await.unwrap_err();
    assert_eq!(*left.lock().unwrap(), [250 * MS, 150 * MS]);
    assert_eq!(clock.age(), 500 * MS);
    assert!(
        exceeded(&error).is_call(),
        "the call ran out, not only its attempt"
    );
    let report = exceeded(&error).report().unwrap();
    assert_eq!((report.attempts(), report.verdict()), (2, Verdict::UNKNOWN));
}

#[tokio::test(start_paused = true)]
async fn case_086_after_an_absolute_deadline_nothing_is_tried_again() {
    let inner = Inner::new([Step::Hang]);
    let absolute = DeadlineLayer::until(Deadline::after(SECOND));
    let service = retry(100 * MS)
        .max_attempts(10)
        .build()
        .unwrap()
        .layer(absolute.layer(inner.clone()));
    let (outcome, report) = CallReport::of(service.oneshot(1)).await;
    assert!(exceeded(&outcome.unwrap_err()).is_call());
    assert_eq!(report.unwrap().stop_reason(), Some(StopReason::Deadline));
    assert_eq!(inner.calls(), 1);
    assert_eq!(inner.age(), SECOND);
}

#[tokio::test(start_paused = true)]
async fn case_088_nothing_goes_on_after_the_deadline() {
    let effects = Arc::new(AtomicU32::new(0));
    let counter = Arc::clone(&effects);
    let mut service = DeadlineLayer::call(100 * MS).layer(tower::service_fn(move |_: u32| {
        let counter = Arc::clone(&counter);
        async move {
            loop {
                sleep(10 * MS).await;
                counter.fetch_add(1, Ordering::Relaxed);
            }
            #[expect(unreachable_code, reason = "it says the type of the future")]
            Ok::<u32, BoxError>(1)
        }
    }));
    let mut call = spawn(service.ready().await.unwrap().call(1));
    for _ in 0..100 {
        if call.poll().is_ready() {
            break;
        }
        sleep(MS).await;
    }
    while call.is_woken() && call.poll().is_pending() {}
    let at_the_deadline = effects.load(Ordering::Relaxed);
    assert!((9..=10).contains(&at_the_deadline), "{at_the_deadline}");
    sleep(SECOND).await;
    assert_eq!(effects.load(Ordering::Relaxed), at_the_deadline);
    drop(call);
}

#[tokio::test(start_paused = true)]
async fn case_089_readiness_in_between_is_timed_and_the_first_is_the_callers() {
    let inner = Inner::new([Step::Err("503")]).readiness([Readiness::Ready, Readiness::Never]);
    let service =
        DeadlineLayer::call(500 * MS).layer(retry(MS).build().unwrap().layer(inner.clone()));
    let error = service.oneshot(1).await.unwrap_err();
    assert_eq!(inner.age(), 500 * MS);
    let report = exceeded(&error).report().unwrap();
    assert_eq!((report.attempts(), report.verdict()), (1, Verdict::UNKNOWN));
    assert!(
        error
            .to_string()
            .contains("after an outcome that was unknown")
    );

    let never = Inner::new([Step::Ok(1)]).readiness([Readiness::Never]);
    let service = DeadlineLayer::call(500 * MS).layer(never);
    timeout(3600 * SECOND, service.oneshot(1))
        .await
        .unwrap_err();
}

#[tokio::test(start_paused = true)]
async fn case_090_the_head_is_timed_and_not_the_body() {
    // The response is the head; its frames come one every 50 ms from a task of their own.
    let server = tower::service_fn(|frames: u32| async move {
        sleep(10 * MS).await;
        let (sender, body) = tokio::sync::mpsc::channel(1);
        tokio::spawn(async move {
            for frame in 1..=frames {
                sleep(50 * MS).await;
                sender.send(frame).await.unwrap();
            }
        });
        Ok::<_, BoxError>(body)
    });
    let clock = Inner::new([Step::Hang]);
    let mut service = DeadlineLayer::call(100 * MS).layer(server);
    // The future that has timed the head stays alive beside the body.
    let mut call = spawn(service.ready().await.unwrap().call(200));
    assert!(call.poll().is_pending());
    sleep(10 * MS).await;
    let std::task::Poll::Ready(head) = call.poll() else {
        unreachable!("the head is there");
    };
    let mut body = head.unwrap();
    let mut frames = Vec::new();
    while let Some(frame) = body.recv().await {
        frames.push(frame);
    }
    assert!(frames.into_iter().eq(1..=200));
    assert_eq!(clock.age(), 10 * MS + 200 * 50 * MS);
}

#[tokio::test(start_paused = true)]
async fn case_154_an_answer_that_is_there_beats_a_deadline_that_has_passed() {
    let mut service = DeadlineLayer::call(MS).layer(tower::service_fn(|_: u32| async {
        for _ in 0..3 {
            tokio::task::yield_now().await;
        }
        Ok::<_, BoxError>(1)
    }));
    let mut call = spawn(service.ready().await.unwrap().call(1));
    for _ in 0..3 {
        assert!(call.poll().is_pending());
    }
    sleep(SECOND).await;
    let std::task::Poll::Ready(answer) = call.poll() else {
        unreachable!("it was ready");
    };
    assert_eq!(answer.unwrap(), 1, "polled before the clock is asked");
}

#[tokio::test(start_paused = true)]
async fn deadlines_only_narrow_and_a_tie_is_the_outer_ones() {
    let ends = async |outer: DeadlineLayer, inner: DeadlineLayer| {
        let script = Inner::new([Step::Hang]);
        let service = outer.layer(inner.layer(script.clone()));
        let error = service.oneshot(1).await.unwrap_err();
        (script.age(), exceeded(&error).is_attempt())
    };
    let (call, attempt) = (DeadlineLayer::call, DeadlineLayer::attempt);
    assert_eq!(
        ends(call(SECOND), attempt(SECOND / 2)).await,
        (SECOND / 2, true)
    );
    assert_eq!(
        ends(call(SECOND / 2), attempt(SECOND)).await,
        (SECOND / 2, false)
    );
    assert_eq!(ends(call(SECOND), attempt(SECOND)).await, (SECOND, false));
    assert_eq!(
        ends(call(SECOND), call(Duration::MAX)).await,
        (SECOND, false)
    );
}

#[tokio::test(start_paused = true)]
async fn past_already_the_service_is_not_called_and_its_permit_is_free() {
    let inner = Inner::new([Step::Ok(1)]);
    let limited = ConcurrencyLimit::new(inner.clone(), 1);
    let past = Deadline::after(SECOND);
    sleep(SECOND).await;
    let mut service = DeadlineLayer::until(past).layer(limited.clone());
    let call = service.ready().await.unwrap().call(1);
    let error = call.await.unwrap_err();
    assert!(exceeded(&error).is_before_call());
    assert_eq!(inner.calls(), 0);
    assert_eq!(timeout(SECOND, limited.oneshot(2)).await.unwrap(), Ok(1));
}

#[tokio::test(start_paused = true)]
async fn a_limit_of_nothing_has_passed_when_the_call_begins() {
    for (layer, is_call) in [
        (DeadlineLayer::call(Duration::ZERO), true),
        (DeadlineLayer::attempt(Duration::ZERO), false),
    ] {
        let inner = Inner::new([Step::Ok(1)]);
        let service = retry(SECOND).build().unwrap();
        let service = service.layer(layer.layer(inner.clone()));
        let (outcome, report) = CallReport::of(service.oneshot(1)).await;
        let error = outcome.unwrap_err();
        assert!(exceeded(&error).is_before_call());
        assert_eq!(exceeded(&error).is_call(), is_call);
        assert_eq!(exceeded(&error).report(), None);
        assert_eq!(
            report.unwrap().verdict(),
            Verdict::REFUSED,
            "nothing was sent"
        );
        assert_eq!(inner.calls(), 0);
    }
}

/// Retries over `above`, a layer that takes 100 ms of the first attempt, and `below`: the attempts, the calls that the inner
/// service has seen of them, and why there were no more.
async fn late(above: DeadlineLayer, below: DeadlineLayer) -> (u32, usize, Option<StopReason>) {
    let inner = Inner::new([Step::Ok(1)]);
    let attempts = Arc::new(AtomicU32::new(0));
    let service = ServiceBuilder::new()
        .layer(retry(50 * MS).build().unwrap())
        .layer(above)
        .map_request(move |number| {
            if attempts.fetch_add(1, Ordering::Relaxed) == 0 {
                let _ = spawn(tokio::time::advance(100 * MS)).poll();
            }
            number
        })
        .layer(below)
        .service(inner.clone());
    let (_, report) = CallReport::of(service.oneshot(1)).await;
    let report = report.unwrap();
    (report.attempts(), inner.calls(), report.stop_reason())
}

#[tokio::test(start_paused = true)]
async fn only_an_end_that_all_attempts_share_ends_the_retries() {
    let end = || DeadlineLayer::until(Deadline::after(100 * MS));
    let far = DeadlineLayer::until(Deadline::after(3600 * SECOND));
    let (call, attempt) = (
        DeadlineLayer::call(100 * MS),
        DeadlineLayer::attempt(100 * MS),
    );
    let long = DeadlineLayer::call(SECOND);
    for above in [call, attempt] {
        assert_eq!(late(above.clone(), long.clone()).await, (2, 1, None));
        assert_eq!(late(above, far.clone()).await, (2, 1, None));
    }
    let ended = (1, 0, Some(StopReason::Deadline));
    assert_eq!(late(end(), long.clone()).await, ended);
    assert_eq!(late(end(), far).await, ended);
    assert_eq!(late(long, end()).await, ended);
}

#[tokio::test(start_paused = true)]
async fn an_attempt_that_begins_at_the_end_of_the_call_is_not_made() {
    let end = Deadline::after(SECOND);
    let inner = Inner::new([Step::Ok(1)]);
    let late = DeadlineLayer::attempt(SECOND).layer(inner.clone());
    let service = DeadlineLayer::until(end).layer(tower::service_fn(move |number: u32| {
        let late = late.clone();
        async move {
            // Another service may take its time without leaving the poll.
            tokio::time::advance(SECOND).await;
            late.oneshot(number).await
        }
    }));
    let error = service.oneshot(1).await.unwrap_err();
    assert!(exceeded(&error).is_call(), "the end is the call's");
    assert!(exceeded(&error).is_before_call());
    assert_eq!(inner.calls(), 0);
}

#[derive(Debug)]
struct Outer(BoxError);

impl fmt::Display for Outer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("outer")
    }
}

impl std::error::Error for Outer {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&*self.0)
    }
}

#[tokio::test(start_paused = true)]
async fn case_080_it_is_found_through_any_number_of_boxes() {
    let service = ServiceBuilder::new()
        .layer(RetryLayer::new(Effect::Write))
        .map_err(|error: BoxError| -> BoxError { Outer(error).into() })
        .map_err(|error: BoxError| -> BoxError { std::io::Error::other(error).into() })
        .map_err(|error: BoxError| -> BoxError { Outer(error).into() })
        .buffer(1)
        .layer(DeadlineLayer::attempt(SECOND))
        .service(Inner::new([Step::Hang]));
    let (outcome, report) = CallReport::of(service.oneshot(1)).await;
    assert!(exceeded(&outcome.unwrap_err()).is_attempt());
    assert_eq!(
        report.unwrap().stop_reason(),
        Some(StopReason::OutcomeUnknown)
    );
}
