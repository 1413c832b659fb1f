//! The sixth promise: nothing of ours prints a URL, a header's value, a key, an argument or the text of an error.

use std::error::Error;
use std::fmt;
use std::sync::Arc;

use proptest::prelude::*;
use tokio_test::task::spawn;
use tower::{BoxError, Layer, Service, ServiceBuilder, ServiceExt};
use tower_composure::{
    Attempt, BreakerOpen, CallContext, CallReport, CircuitBreaker, CircuitBreakerLayer,
    DeadlineExceeded, DeadlineLayer, Effect, IdempotencyKey, Policy, Stack, Verdict,
};

use super::ears::Ears;
use super::play::{ms, play};
use super::world::{any_parts, any_world};

const SECRET: &str = "SECRET123";

/// An error whose texts are all secret.
#[derive(Clone)]
struct Indiscreet;

impl fmt::Debug for Indiscreet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("https://u:SECRET123@h/p?sig=SECRET123")
    }
}

impl fmt::Display for Indiscreet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:?}")
    }
}

impl Error for Indiscreet {}

/// A policy that knows a secret, over requests that are one.
#[derive(Debug, Clone)]
struct Confidant(&'static str);

impl<R, E> Policy<String, R, E> for Confidant {
    fn effect(&self, request: &String) -> Effect {
        assert_eq!(request, self.0);
        Effect::IdempotentWrite
    }

    fn classify(&self, _: &Attempt, outcome: Result<&R, &E>) -> Verdict {
        outcome.map_or(Verdict::UNKNOWN, |_| Verdict::Success)
    }
}

/// The texts of an error of ours, without those of its sources.
fn texts_of_ours(error: &(dyn Error + 'static)) -> String {
    let exceeded = DeadlineExceeded::find(error).map(|ours| format!("{ours:?} {ours}"));
    let open = BreakerOpen::find(error).map(|ours| format!("{ours:?} {ours}"));
    format!("{exceeded:?} {open:?}")
}

#[tokio::test(start_paused = true)]
async fn case_149_nothing_of_ours_tells_a_secret() {
    let ears = Arc::new(Ears::default());
    let breaker = CircuitBreaker::builder()
        .consecutive_failures(2)
        .observer(Arc::clone(&ears) as Arc<dyn tower_composure::Observer>);
    let stack = Stack::builder(Confidant(SECRET))
        .dependency("payments")
        .breaker(breaker.build().unwrap())
        .call_deadline(ms(500))
        .max_attempts(2)
        .observer(Arc::clone(&ears) as Arc<dyn tower_composure::Observer>);
    let mut printed = vec![format!("{stack:?}")];
    let stack = stack.build().unwrap();
    printed.push(format!("{stack:?}"));
    let inner = tower::service_fn(|_: String| {
        let inside = format!(
            "{:?} {:?}",
            CallContext::current(),
            IdempotencyKey::current()
        );
        async move {
            assert!(!inside.contains(SECRET), "{inside}");
            tokio::time::sleep(ms(10)).await;
            Err::<String, _>(Indiscreet)
        }
    });
    let mut service = ServiceBuilder::new().layer(stack).service(inner);
    let key = IdempotencyKey::new(SECRET).unwrap();
    printed.push(format!("{key:?}"));
    for _ in 0..4 {
        let called = service.ready().await.unwrap().call(SECRET.to_owned());
        printed.push(format!("{called:?}"));
        let scoped = key.clone().scope(called);
        printed.push(format!("{scoped:?}"));
        let mut call = spawn(CallReport::of(scoped));
        printed.push(format!("{call:?}"));
        while call.poll().is_pending() {
            printed.push(format!("{call:?}"));
            tokio::time::advance(ms(100)).await;
        }
    }
    let (outcome, report) = CallReport::of(service.oneshot(SECRET.to_owned())).await;
    let error = outcome.unwrap_err();
    printed.extend([texts_of_ours(&*error), format!("{report:?}")]);
    printed.extend(ears.heard());
    assert!(printed.len() > 30);
    for text in printed {
        assert!(!text.contains(SECRET), "{text}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_error_of_the_service_goes_up_as_it_is() {
    let failing = || tower::service_fn(|_: String| async { Err::<(), _>(Indiscreet) });
    let whole = Stack::builder(Confidant(SECRET))
        .max_attempts(1)
        .build()
        .unwrap();
    let error: BoxError = whole
        .layer(failing())
        .oneshot(SECRET.to_owned())
        .await
        .unwrap_err();
    assert!(error.is::<Indiscreet>());
    let hanging = tower::service_fn(|_: String| std::future::pending::<Result<(), Indiscreet>>());
    let breaker = CircuitBreakerLayer::new(CircuitBreaker::default(), Confidant(SECRET));
    let service = breaker.layer(DeadlineLayer::call(ms(5)).layer(hanging));
    let error = service.oneshot(SECRET.to_owned()).await.unwrap_err();
    assert!(DeadlineExceeded::find(&*error).is_some());
    assert!(!format!("{error:?} {error}").contains(SECRET));
}

proptest! {
    /// No event in any world holds a key, and none the number of whoever called.
    #[test]
    fn no_event_tells_a_key(world in any_world(any_parts())) {
        play(&world, async |seen| {
            for event in &seen.events {
                prop_assert!(!event.contains("key-of-"), "{event}");
            }
            for call in &seen.calls {
                let report = format!("{:?}", call.report);
                prop_assert!(!report.contains("key-of-"), "{report}");
                if let Some(Err(error)) = &call.outcome {
                    prop_assert!(!texts_of_ours(&**error).contains("key-of-"));
                }
            }
            Ok(())
        })?;
    }
}
