//! A retry at once has a way of its own where nobody watches: it is the same retry.
#![cfg(not(loom))]
#![expect(clippy::unwrap_used, reason = "a test may")]

mod support;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;
use support::told::{Deaf, Said};
use support::{Readiness, Script, Step};
use tokio::time::{sleep, timeout};
use tower::util::BoxCloneService;
use tower::{BoxError, Layer, ServiceExt};
use tower_composure::circuit_breaker::CircuitMetrics;
use tower_composure::retry::{Release, replay_fn};
use tower_composure::{
    Attempt, Backoff, Budget, BudgetLayer, CallReport, CircuitBreaker, CircuitBreakerLayer,
    DeadlineLayer, Effect, Hint, Policy, RetryLayer, RetryMode, StopReason, Verdict, policy_fn,
};

/// What the script does in one attempt.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Act {
    verdict: Verdict,
    is_response: bool,
    takes: u64,
    /// How long it takes to let go of the response.
    holds: u64,
}

#[derive(Debug, Clone)]
struct Play {
    acts: Vec<Act>,
    readiness: Vec<Readiness<Said>>,
    calls: usize,
    effect: Effect,
    max_attempts: u32,
    mode: RetryMode,
    tokens: Option<u32>,
    failures: Option<u32>,
    deadline: Option<u64>,
    replayable: bool,
}

/// Lets go of a response in its own time.
struct Slowly;

impl Release<Act> for Slowly {
    type Future = Pin<Box<dyn Future<Output = ()> + Send>>;

    fn release(&self, act: Act) -> Option<Self::Future> {
        (act.holds > 0).then(|| -> Self::Future { Box::pin(sleep(millis(act.holds))) })
    }
}

fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// All that a caller sees of a call, and of what it shares with others.
#[derive(Debug, PartialEq)]
struct Seen {
    outcome: Option<Result<Act, String>>,
    report: Option<(u32, Verdict, Option<StopReason>, bool, Duration)>,
    calls: Vec<u128>,
    readies: usize,
    in_flight: usize,
    tokens: Option<(f64, u64)>,
    breaker: Option<CircuitMetrics>,
}

type Scripted = Script<u32, Act, Said>;
type Boxed = BoxCloneService<u32, Act, BoxError>;

/// What the outcome says, above the layers that box errors as below them.
fn said(effect: Effect) -> impl Policy<u32, Act, BoxError> + Clone + Send + 'static {
    policy_fn(
        |_: &Attempt, outcome: Result<&Act, &BoxError>| match outcome {
            Ok(act) => act.verdict,
            Err(error) => error
                .downcast_ref()
                .map_or(Verdict::UNKNOWN, |Said(verdict)| *verdict),
        },
    )
    .with_effect(effect)
}

impl Play {
    fn perform(&self, watched: bool) -> Vec<Seen> {
        tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap()
            .block_on(self.play(watched))
    }

    fn script(&self) -> Scripted {
        let steps = self.acts.iter().map(|act| {
            let step = if act.is_response {
                Step::Ok(*act)
            } else {
                Step::Err(Said(act.verdict))
            };
            step.taking(act.takes)
        });
        Script::new(steps).readiness(self.readiness.clone())
    }

    fn retry(&self, watched: bool, script: Scripted) -> Boxed {
        let replayable = self.replayable;
        let mut retry = RetryLayer::builder(said(self.effect))
            .backoff(Backoff::none())
            .max_attempts(self.max_attempts)
            .release(Slowly)
            .replay(replay_fn(move |request: &u32| {
                replayable.then_some(*request)
            }));
        if watched {
            retry = retry.observer(Arc::new(Deaf));
        }
        let retry = retry.build().unwrap();
        retry.switch().set(self.mode);
        retry.layer(script.map_err(BoxError::from)).boxed_clone()
    }

    async fn play(&self, watched: bool) -> Vec<Seen> {
        let script = self.script();
        let mut service = self.retry(watched, script.clone());
        let budget = self.tokens.map(|tokens| Budget::new(0.3, tokens).unwrap());
        if let Some(budget) = budget.clone() {
            service = BudgetLayer::new(budget).layer(service).boxed_clone();
        }
        if let Some(limit) = self.deadline {
            service = DeadlineLayer::call(millis(limit))
                .layer(service)
                .boxed_clone();
        }
        let breaker = self.failures.map(|failures| {
            let breaker = CircuitBreaker::builder()
                .consecutive_failures(failures)
                .seed(1);
            breaker.build().unwrap()
        });
        if let Some(breaker) = breaker.clone() {
            let layer = CircuitBreakerLayer::new(breaker, said(self.effect));
            service = layer.layer(service).boxed_clone();
        }
        let mut seen = Vec::new();
        for _ in 0..self.calls {
            // Where the service is never ready, and no deadline says so.
            let call = timeout(millis(60_000), CallReport::of(service.clone().oneshot(7)));
            let (outcome, report) = call.await.ok().unzip();
            seen.push(Seen {
                outcome: outcome.map(|outcome| outcome.map_err(|error| error.to_string())),
                report: report.flatten().map(|report| {
                    let (attempts, stop) = (report.attempts(), report.stop_reason());
                    let unknown = report.outcome_unknown();
                    (attempts, report.verdict(), stop, unknown, report.backoff())
                }),
                calls: script.times(),
                readies: script.readies(),
                in_flight: script.in_flight(),
                tokens: budget
                    .as_ref()
                    .map(|budget| (budget.balance(), budget.refused())),
                breaker: breaker.as_ref().map(CircuitBreaker::metrics),
            });
        }
        seen
    }
}

fn any_verdict() -> impl Strategy<Value = Verdict> {
    let hint = prop_oneof![
        Just(Hint::exactly(Duration::ZERO)),
        Just(Hint::exactly(Duration::ZERO).once()),
        Just(Hint::exactly(millis(30))),
        Just(Hint::never()),
    ];
    let verdict = prop_oneof![
        2 => Just(Verdict::Success),
        1 => Just(Verdict::Fault),
        1 => Just(Verdict::Rejected),
        3 => Just(Verdict::THROTTLED),
        3 => Just(Verdict::REFUSED),
        3 => Just(Verdict::UNKNOWN),
    ];
    (verdict, prop::option::weighted(0.2, hint)).prop_map(|(verdict, hint)| verdict.with_hint(hint))
}

fn any_act() -> impl Strategy<Value = Act> {
    let some_time = || prop_oneof![3 => Just(0), 1 => 1..50_u64];
    (any_verdict(), any::<bool>(), some_time(), some_time()).prop_map(
        |(verdict, is_response, takes, holds)| Act {
            verdict,
            is_response: is_response || verdict.is_success(),
            takes,
            holds,
        },
    )
}

fn any_readiness() -> impl Strategy<Value = Readiness<Said>> {
    prop_oneof![
        12 => Just(Readiness::Ready),
        1 => Just(Readiness::Never),
        1 => Just(Readiness::Fail(Said(Verdict::REFUSED))),
    ]
}

prop_compose! {
    fn any_play()(
        acts in prop::collection::vec(any_act(), 1..10),
        readiness in prop::collection::vec(any_readiness(), 0..10),
        calls in 1..5_usize,
        effect in prop::sample::select(vec![Effect::Read, Effect::IdempotentWrite, Effect::Write]),
        // More than are made in one poll.
        max_attempts in prop_oneof![9 => 1..5_u32, 1 => Just(40)],
        mode in prop_oneof![
            8 => Just(RetryMode::On),
            1 => Just(RetryMode::Off),
            1 => Just(RetryMode::ObserveOnly),
        ],
        tokens in prop::option::of(1..5_u32),
        failures in prop::option::of(1..8_u32),
        deadline in prop::option::of(1..120_u64),
        replayable in prop::bool::weighted(0.9),
    ) -> Play {
        Play {
            acts, readiness, calls, effect, max_attempts, mode, tokens, failures, deadline, replayable,
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn who_watches_a_retry_at_once_sees_the_same_retry(play in any_play()) {
        prop_assert_eq!(play.perform(false), play.perform(true));
    }
}
