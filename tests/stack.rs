//! The preset: the layers together, and that their order matters.
#![cfg(not(loom))]
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test may")]

mod support;

use std::error::Error;
use std::fmt;
use std::time::Duration;

use support::{Readiness, Script, Step};
use tokio_test::{assert_pending, task};
use tower::{BoxError, Layer, Service, ServiceBuilder, ServiceExt};
use tower_composure::stack::{StackBuilder, StackService};
use tower_composure::{
    Attempt, Backoff, BreakerOpen, Budget, CallReport, CircuitBreaker, CircuitState, Count,
    DeadlineExceeded, DeadlineLayer, Effect, Hint, Jitter, Policy, RetryLayer, Stack, StopReason,
    Verdict,
};

const MS: Duration = Duration::from_millis(1);

/// An outcome that says what it means, as an error.
#[derive(Debug, Clone, PartialEq)]
struct Failed(Verdict);

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.as_str())
    }
}

impl Error for Failed {}

/// Reads the verdict that an outcome carries; any other error is `Unknown`, as a policy should have it.
#[derive(Debug, Clone, Copy)]
struct Says(Effect);

impl Policy<u32, Verdict, BoxError> for Says {
    fn effect(&self, _: &u32) -> Effect {
        self.0
    }

    fn classify(&self, _: &Attempt, outcome: Result<&Verdict, &BoxError>) -> Verdict {
        match outcome {
            Ok(verdict) => *verdict,
            Err(error) => error
                .downcast_ref::<Failed>()
                .map_or(Verdict::UNKNOWN, |failed| failed.0),
        }
    }
}

type Dependency = Script<u32, Verdict, Failed>;

fn step(verdict: Verdict, as_error: bool) -> Step<Verdict, Failed> {
    if as_error {
        Step::Err(Failed(verdict))
    } else {
        Step::Ok(verdict)
    }
}

fn always(verdict: Verdict) -> Dependency {
    Script::new([Step::Ok(verdict)])
}

/// Two attempts at once, one after the other.
fn eager(effect: Effect) -> StackBuilder<Says> {
    Stack::builder(Says(effect))
        .max_attempts(2)
        .backoff(Backoff::none())
}

/// Opens on its first failure, for exactly 5 s.
fn touchy() -> CircuitBreaker {
    CircuitBreaker::builder()
        .window(10)
        .minimum_calls(1)
        .open_time(5000 * MS)
        .open_jitter(0.0)
        .probes(1)
        .build()
        .unwrap()
}

/// A budget of which one token is gone, so that a deposit shows.
fn budget() -> Budget {
    let budget = Budget::new(0.1, 20).unwrap();
    budget.try_withdraw(Verdict::UNKNOWN).unwrap().spend();
    assert_balance(&budget, 19.0);
    budget
}

#[track_caller]
fn assert_balance(budget: &Budget, tokens: f64) {
    assert!(
        (budget.balance() - tokens).abs() < 1e-9,
        "{} tokens instead of {tokens}",
        budget.balance()
    );
}

fn breaker_open(error: &BoxError) -> &BreakerOpen {
    BreakerOpen::find(&**error).expect("a BreakerOpen")
}

fn exceeded(error: &BoxError) -> &DeadlineExceeded {
    DeadlineExceeded::find(&**error).expect("a DeadlineExceeded")
}

const VERDICTS: [Verdict; 6] = [
    Verdict::Success,
    Verdict::THROTTLED,
    Verdict::REFUSED,
    Verdict::UNKNOWN,
    Verdict::Fault,
    Verdict::Rejected,
];
const EFFECTS: [Effect; 3] = [Effect::Read, Effect::IdempotentWrite, Effect::Write];

/// What three layers make of a dependency that always answers the same: calls, balance, counts, stop reason.
type Row = (usize, f64, (u32, u32), Option<StopReason>);

fn row(verdict: Verdict, effect: Effect) -> Row {
    let attempts = Some(StopReason::Attempts);
    match (verdict, effect) {
        (Verdict::Success, _) => (1, 19.1, (1, 0), None),
        (Verdict::Throttled { .. }, _) => (2, 18.0, (0, 0), attempts),
        (Verdict::Unknown { .. }, Effect::Write) => {
            (1, 19.0, (1, 1), Some(StopReason::OutcomeUnknown))
        }
        (Verdict::Refused { .. } | Verdict::Unknown { .. }, _) => (2, 18.0, (1, 1), attempts),
        (Verdict::Fault, _) => (1, 19.0, (1, 1), None),
        (Verdict::Rejected, _) => (1, 19.0, (0, 0), None),
    }
}

#[tokio::test(start_paused = true)]
async fn one_verdict_is_read_alike_by_retry_budget_and_breaker() {
    for effect in EFFECTS {
        for verdict in VERDICTS {
            for as_error in [false, true] {
                let (budget, breaker) = (budget(), CircuitBreaker::default());
                let script: Dependency = Script::new([step(verdict, as_error)]);
                let service = eager(effect)
                    .budget(budget.clone())
                    .breaker(breaker.clone())
                    .build()
                    .unwrap()
                    .layer(script.clone());
                let (outcome, report) = CallReport::of(service.oneshot(1)).await;

                let (calls, balance, counts, stop) = row(verdict, effect);
                let what = format!("{verdict:?} of a {effect:?}, as an error: {as_error}");
                assert_eq!(script.calls(), calls, "{what}");
                assert_balance(&budget, balance);
                assert_eq!(recorded(&breaker), counts, "{what}");
                assert_eq!(report.unwrap().stop_reason(), stop, "{what}");
                match outcome {
                    Ok(answer) => assert_eq!((answer, as_error), (verdict, false), "{what}"),
                    Err(error) => {
                        assert_eq!(error.downcast_ref(), Some(&Failed(verdict)), "{what}");
                    }
                }
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_breaker_that_counts_attempts_reads_the_same_verdicts_once_each() {
    for effect in EFFECTS {
        for verdict in VERDICTS {
            let breaker = CircuitBreaker::builder()
                .count(Count::Attempts)
                .build()
                .unwrap();
            let service = eager(effect)
                .breaker(breaker.clone())
                .build()
                .unwrap()
                .layer(always(verdict));
            service.oneshot(1).await.unwrap();

            let (calls, _, (counted, failed), _) = row(verdict, effect);
            let calls = u32::try_from(calls).unwrap();
            let counts = (counted * calls, failed * calls);
            assert_eq!(recorded(&breaker), counts, "{verdict:?} of a {effect:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_retry_that_succeeds_costs_a_token_earns_a_tenth_and_is_one_success() {
    for verdict in [Verdict::THROTTLED, Verdict::REFUSED, Verdict::UNKNOWN] {
        let (budget, breaker) = (budget(), CircuitBreaker::default());
        let script: Dependency = Script::new([Step::Ok(verdict), Step::Ok(Verdict::Success)]);
        let service = eager(Effect::Read)
            .budget(budget.clone())
            .breaker(breaker.clone())
            .build()
            .unwrap()
            .layer(script.clone());
        assert_eq!(service.oneshot(1).await.unwrap(), Verdict::Success);
        assert_eq!(script.calls(), 2);
        assert_balance(&budget, 18.1);
        assert_eq!(recorded(&breaker), (1, 0));
    }
}

#[tokio::test(start_paused = true)]
async fn a_probe_makes_one_attempt_and_its_verdict_decides() {
    for verdict in VERDICTS {
        for as_error in [false, true] {
            let (budget, breaker) = (budget(), touchy());
            let script = Script::new([Step::Ok(Verdict::Fault), step(verdict, as_error)]);
            let mut service = eager(Effect::Read)
                .budget(budget.clone())
                .breaker(breaker.clone())
                .build()
                .unwrap()
                .layer(script.clone());
            service.ready().await.unwrap().call(1).await.unwrap();
            assert_eq!(breaker.state(), CircuitState::Open);
            tokio::time::advance(5000 * MS).await;
            assert_eq!(breaker.state(), CircuitState::HalfOpen);

            let probe = async { service.ready().await?.call(2).await };
            let (_, report) = CallReport::of(probe).await;
            let what = format!("{verdict:?}, as an error: {as_error}");
            assert_eq!(script.calls(), 2, "{what}");
            let stop = verdict.is_retryable().then_some(StopReason::Probe);
            assert_eq!(report.unwrap().stop_reason(), stop, "{what}");
            let (state, balance) = match verdict {
                Verdict::Success => (CircuitState::Closed, 19.1),
                Verdict::Rejected if !as_error => (CircuitState::Closed, 19.0),
                Verdict::Throttled { .. } | Verdict::Rejected => (CircuitState::HalfOpen, 19.0),
                _ => (CircuitState::Open, 19.0),
            };
            assert_eq!(breaker.state(), state, "{what}");
            assert_balance(&budget, balance);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_open_breaker_costs_no_attempt_no_wait_and_no_token() {
    let (budget, breaker) = (budget(), touchy());
    let script = always(Verdict::Fault);
    let mut service = Stack::builder(Says(Effect::Read))
        .budget(budget.clone())
        .breaker(breaker.clone())
        .build()
        .unwrap()
        .layer(script.clone());
    service.ready().await.unwrap().call(1).await.unwrap();
    tokio::time::advance(1000 * MS).await;

    let refused = async { service.ready().await?.call(2).await };
    let (outcome, report) = CallReport::of(refused).await;
    let error = outcome.unwrap_err();
    // The clock has not moved: 5 s less the second that was spent above.
    assert_eq!(breaker_open(&error).remaining(), 4000 * MS);
    assert_eq!(breaker.metrics().remaining(), 4000 * MS);
    assert_eq!(report, None);
    assert_eq!(script.calls(), 1);
    assert_balance(&budget, 19.0);
}

#[tokio::test(start_paused = true)]
async fn the_call_deadline_covers_attempts_and_waits() {
    let script: Dependency = Script::new([Step::Hang]);
    let service = Stack::builder(Says(Effect::Read))
        .backoff(Backoff::constant(100 * MS).jitter(Jitter::None))
        .attempt_deadline(250 * MS)
        .call_deadline(500 * MS)
        .build()
        .unwrap()
        .layer(script.clone());
    let (outcome, report) = CallReport::of(service.oneshot(1)).await;
    let error = outcome.unwrap_err();
    assert_eq!(script.times(), [0, 350]);
    assert!(exceeded(&error).is_call());
    assert_eq!(exceeded(&error).report().unwrap().attempts(), 2);
    assert_eq!(report.unwrap().backoff(), 100 * MS);
    assert_eq!(script.in_flight(), 0);
    // The second attempt had 150 ms left of its 250.
    assert_eq!(script.age(), 500 * MS);
}

#[tokio::test(start_paused = true)]
async fn the_call_deadline_covers_readiness_between_attempts() {
    let script = always(Verdict::REFUSED).readiness([Readiness::Ready, Readiness::Never]);
    let budget = budget();
    let service = Stack::builder(Says(Effect::Write))
        .backoff(Backoff::none())
        .call_deadline(500 * MS)
        .budget(budget.clone())
        .build()
        .unwrap()
        .layer(script.clone());
    let error = service.oneshot(1).await.unwrap_err();
    let exceeded = exceeded(&error);
    assert!(exceeded.is_call());
    assert_eq!(exceeded.report().unwrap().verdict(), Verdict::REFUSED);
    assert_eq!(exceeded.report().unwrap().attempts(), 1);
    assert_eq!(script.calls(), 1);
    assert_eq!(script.age(), 500 * MS);
    assert_balance(&budget, 19.0);
}

#[tokio::test(start_paused = true)]
async fn a_wait_beyond_the_call_deadline_is_not_begun() {
    let hint = Some(Hint::after(10_000 * MS));
    let script = always(Verdict::REFUSED.with_hint(hint));
    let budget = budget();
    let service = Stack::builder(Says(Effect::Read))
        .budget(budget.clone())
        .build()
        .unwrap()
        .layer(script.clone());
    let (outcome, report) = CallReport::of(service.oneshot(1)).await;
    assert_eq!(outcome.unwrap(), Verdict::REFUSED.with_hint(hint));
    assert_eq!(report.unwrap().stop_reason(), Some(StopReason::Deadline));
    assert_eq!(script.age(), Duration::ZERO);
    assert_balance(&budget, 19.0);
}

#[tokio::test(start_paused = true)]
async fn the_attempt_deadline_stands_below_the_retry() {
    let script: Dependency = Script::new([Step::Hang, Step::Ok(Verdict::Success)]);
    let service = eager(Effect::Read)
        .attempt_deadline(200 * MS)
        .build()
        .unwrap()
        .layer(script.clone());
    assert_eq!(service.oneshot(1).await.unwrap(), Verdict::Success);
    assert_eq!(script.times(), [0, 200]);
    assert_eq!(script.in_flight(), 0);
}

#[tokio::test(start_paused = true)]
async fn the_budget_is_lent_to_the_retry_and_shared_by_every_service() {
    let budget = Budget::new(0.0, 3).unwrap();
    let stack = eager(Effect::Read)
        .no_breaker()
        .budget(budget.clone())
        .build()
        .unwrap();
    let script = always(Verdict::REFUSED);
    for _ in 0..5 {
        let service = stack.clone().layer(script.clone());
        service.oneshot(1).await.unwrap();
    }
    assert_eq!(script.calls(), 5 + 3);
    assert_balance(&budget, 0.0);
    let last = CallReport::of(stack.layer(script).oneshot(1)).await;
    let stop = last.1.unwrap().stop_reason();
    assert_eq!(stop, Some(StopReason::BudgetExhausted));
}

#[tokio::test(start_paused = true)]
async fn three_nested_layers_of_three_attempts_make_three_calls() {
    let script = always(Verdict::REFUSED);
    let retry = || {
        RetryLayer::builder(Says(Effect::Read))
            .max_attempts(3)
            .backoff(Backoff::none())
            .build()
            .unwrap()
    };
    let service = ServiceBuilder::new()
        .layer(retry())
        .layer(retry())
        .layer(retry())
        .map_err(BoxError::from)
        .service(script.clone());
    service.oneshot(1).await.unwrap();
    assert_eq!(script.calls(), 3);
}

#[tokio::test(start_paused = true)]
async fn three_nested_stacks_make_three_calls_and_spend_only_the_owner_s_tokens() {
    let script = always(Verdict::REFUSED);
    let budgets = [budget(), budget(), budget()];
    let breakers = [0; 3].map(|_| CircuitBreaker::default());
    let stack = |level: usize| {
        eager(Effect::Read)
            .max_attempts(3)
            .budget(budgets[level].clone())
            .breaker(breakers[level].clone())
            .build()
            .unwrap()
    };
    let service = ServiceBuilder::new()
        .layer(stack(0))
        .layer(stack(1))
        .layer(stack(2))
        .service(script.clone());
    service.oneshot(1).await.unwrap();
    assert_eq!(script.calls(), 3);
    assert_balance(&budgets[0], 17.0);
    assert_balance(&budgets[1], 19.0);
    assert_balance(&budgets[2], 19.0);
    // Each breaker counts the calls that came through it.
    assert_eq!(recorded(&breakers[0]), (1, 1));
    assert_eq!(recorded(&breakers[1]), (3, 3));
    assert_eq!(recorded(&breakers[2]), (3, 3));
}

#[test]
fn the_builder_names_what_contradicts() {
    let build = |change: fn(StackBuilder<Says>) -> StackBuilder<Says>| {
        let error = change(Stack::builder(Says(Effect::Read)))
            .build()
            .unwrap_err();
        assert!(error.to_string().starts_with(error.setting()));
        error.to_string()
    };
    assert_eq!(
        build(|b| b.call_deadline(Duration::ZERO)),
        "call_deadline: 0ns lets no call be made"
    );
    assert_eq!(
        build(|b| b.attempt_deadline(Duration::ZERO)),
        "attempt_deadline: 0ns lets no attempt be made"
    );
    assert_eq!(
        build(|b| b.attempt_deadline(9000 * MS)),
        "attempt_deadline: 9s is above the call deadline 8s"
    );
    assert_eq!(
        build(|b| b
            .call_deadline(11_000 * MS)
            .breaker(CircuitBreaker::default())),
        "probe_lease: 10s is below the call deadline 11s"
    );
    assert_eq!(
        build(|b| b.max_attempts(0)),
        "max_attempts: 0 would never call the service; 1 makes no retries"
    );
    assert_eq!(
        build(|b| b.backoff(Backoff::exponential(5000 * MS, 1000 * MS))),
        "backoff: the base 5s is above the cap 1s"
    );
}

#[test]
fn the_builder_takes_what_does_not_contradict() {
    let fits = |change: fn(StackBuilder<Says>) -> StackBuilder<Says>| {
        change(Stack::builder(Says(Effect::Read))).build().unwrap()
    };
    fits(|b| b);
    // The default of the attempt follows a shorter call.
    fits(|b| b.call_deadline(1000 * MS));
    fits(|b| b.call_deadline(Duration::MAX));
    fits(|b| {
        b.call_deadline(Duration::MAX)
            .breaker(CircuitBreaker::default())
    });
    fits(|b| b.attempt_deadline(Duration::MAX));
    fits(|b| b.attempt_deadline(8000 * MS));
    // A breaker of the stack's own has a lease as long as the call.
    fits(|b| b.call_deadline(60_000 * MS));
}

#[tokio::test(start_paused = true)]
async fn no_breaker_lets_every_call_through() {
    let script = always(Verdict::Fault);
    let service = Stack::builder(Says(Effect::Read))
        .no_breaker()
        .build()
        .unwrap()
        .layer(script.clone());
    for _ in 0..150 {
        let answer = service.clone().oneshot(1).await.unwrap();
        assert_eq!(answer, Verdict::Fault);
    }
    assert_eq!(script.calls(), 150);
}

#[tokio::test(start_paused = true)]
async fn no_budget_leaves_retries_to_the_attempts() {
    let script = always(Verdict::REFUSED);
    let service = Stack::builder(Says(Effect::Read))
        .backoff(Backoff::none())
        .no_breaker()
        .no_budget()
        .build()
        .unwrap()
        .layer(script.clone());
    for _ in 0..50 {
        service.clone().oneshot(1).await.unwrap();
    }
    assert_eq!(script.calls(), 50 * 4);
}

/// The service of a stack has a name, so it can be a field.
struct Client {
    service: StackService<Dependency, Says>,
}

#[tokio::test(start_paused = true)]
async fn a_stack_and_its_service_can_be_named() {
    let stack: Stack<Says> = Stack::builder(Says(Effect::Read)).build().unwrap();
    let mut client = Client {
        service: stack.layer(always(Verdict::Success)),
    };
    let service = client.service.ready().await.unwrap();
    assert_eq!(service.call(1).await.unwrap(), Verdict::Success);
}

#[tokio::test(start_paused = true)]
async fn calls_in_backoff_stop_retrying_when_the_breaker_opens() {
    const ASLEEP: usize = 200;
    const INSIDE: usize = 10;
    const FAULTS: usize = 20;
    let budget = Budget::new(0.0, 500).unwrap();
    let breaker = CircuitBreaker::builder()
        .window(20)
        .minimum_calls(20)
        .build()
        .unwrap();
    let refused = Step::Ok(Verdict::REFUSED);
    let steps = std::iter::repeat_n(refused.clone(), ASLEEP)
        .chain(std::iter::repeat_n(refused.after(700 * MS), INSIDE))
        .chain([Step::Ok(Verdict::Fault)]);
    let script: Dependency = Script::new(steps);
    let service = Stack::builder(Says(Effect::Read))
        .backoff(Backoff::constant(1000 * MS).jitter(Jitter::None))
        .budget(budget.clone())
        .breaker(breaker.clone())
        .build()
        .unwrap()
        .layer(script.clone());

    let mut calls: Vec<_> = (0..ASLEEP + INSIDE)
        .map(|_| task::spawn(CallReport::of(service.clone().oneshot(1))))
        .collect();
    for call in &mut calls {
        assert_pending!(call.poll());
    }
    assert_balance(&budget, 300.0);
    tokio::time::advance(500 * MS).await;
    for _ in 0..FAULTS {
        service.clone().oneshot(1).await.unwrap();
    }
    assert_eq!(breaker.state(), CircuitState::Open);

    let inside = calls.split_off(ASLEEP);
    let ends = futures_of(inside).await;
    for (outcome, report) in ends {
        // Their attempt ended after the breaker had opened: the outcome is their own.
        assert_eq!(outcome.unwrap(), Verdict::REFUSED);
        assert_eq!(report.unwrap().stop_reason(), Some(StopReason::BreakerOpen));
    }
    let asleep = futures_of(calls).await;
    for (outcome, _) in asleep {
        breaker_open(&outcome.unwrap_err());
    }
    assert_eq!(script.calls(), ASLEEP + INSIDE + FAULTS);
    assert!(budget.is_full());
    // What they came to was not counted into the period that refused them.
    assert_eq!(breaker.state(), CircuitState::Open);
    assert_eq!(script.in_flight(), 0);
}

async fn futures_of<F: Future>(calls: Vec<task::Spawn<F>>) -> Vec<F::Output> {
    let mut outcomes = Vec::new();
    for call in calls {
        outcomes.push(call.await);
    }
    outcomes
}

#[tokio::test(start_paused = true)]
async fn an_impatient_caller_does_not_open_the_breaker_of_a_healthy_stack() {
    let breaker = touchy();
    let slow = Step::Ok(Verdict::Success).after(100 * MS);
    let script: Dependency = Script::new([slow]);
    let stack = Stack::builder(Says(Effect::Read))
        .breaker(breaker.clone())
        .build()
        .unwrap();
    let impatient = ServiceBuilder::new()
        .layer(DeadlineLayer::call(50 * MS))
        .layer(stack.clone())
        .service(script.clone());
    for _ in 0..30 {
        let error = impatient.clone().oneshot(1).await.unwrap_err();
        assert!(exceeded(&error).is_call());
    }
    assert_eq!(script.times()[1], 50);
    assert_eq!(recorded(&breaker), (0, 0));
    assert_eq!(breaker.state(), CircuitState::Closed);

    // With time enough the same stack answers.
    let patient = stack.layer(script).oneshot(1).await;
    assert_eq!(patient.unwrap(), Verdict::Success);
    assert_eq!(recorded(&breaker), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn a_dropped_call_counts_nothing() {
    let (budget, breaker) = (budget(), touchy());
    let script: Dependency = Script::new([Step::Hang]);
    let service = Stack::builder(Says(Effect::Read))
        .budget(budget.clone())
        .breaker(breaker.clone())
        .build()
        .unwrap()
        .layer(script.clone());
    let timed = ServiceBuilder::new().timeout(1000 * MS).service(service);
    for _ in 0..100 {
        timed.clone().oneshot(1).await.unwrap_err();
    }
    assert_eq!(script.calls(), 100);
    assert_eq!(script.in_flight(), 0);
    assert_eq!(recorded(&breaker), (0, 0));
    assert_eq!(breaker.state(), CircuitState::Closed);
    assert_balance(&budget, 19.0);
}

#[tokio::test(start_paused = true)]
async fn a_call_deadline_below_the_breaker_is_a_failure() {
    let breaker = touchy();
    let script: Dependency = Script::new([Step::Hang]);
    let service = Stack::builder(Says(Effect::Write))
        .call_deadline(300 * MS)
        .breaker(breaker.clone())
        .build()
        .unwrap()
        .layer(script.clone());
    let error = service.oneshot(1).await.unwrap_err();
    assert!(exceeded(&error).is_call());
    assert_eq!(script.age(), 300 * MS);
    assert_eq!(
        recorded(&breaker),
        (0, 0),
        "the window of a new period is empty"
    );
    assert_eq!(breaker.state(), CircuitState::Open);
}

#[cfg(feature = "http")]
mod keys {
    use http::{HeaderMap, Request, Response, StatusCode};
    use tower_composure::{HttpPolicy, IdempotencyKeyLayer};

    use super::*;

    type Api = Script<Request<()>, Response<()>, Failed>;
    type Keyed = StackService<Api, HttpPolicy, IdempotencyKeyLayer>;

    fn api(statuses: impl IntoIterator<Item = u16>) -> Api {
        Script::new(statuses.into_iter().map(|status| {
            let response = Response::builder().status(status).body(()).unwrap();
            Step::Ok(response)
        }))
    }

    fn post() -> Request<()> {
        Request::post("/charges").body(()).unwrap()
    }

    fn keys(api: &Api) -> Vec<String> {
        let key = |headers: &HeaderMap| headers["idempotency-key"].to_str().unwrap().to_owned();
        api.seen()
            .iter()
            .map(|seen| key(seen.request.headers()))
            .collect()
    }

    #[tokio::test(start_paused = true)]
    async fn one_key_a_call_goes_with_every_attempt() {
        let api = api([503, 503, 200]);
        let mut service: Keyed = Stack::builder(HttpPolicy::new())
            .idempotency_key(IdempotencyKeyLayer::new())
            .build()
            .unwrap()
            .layer(api.clone());
        for _ in 0..2 {
            let service = service.ready().await.unwrap();
            let response = service.call(post()).await.unwrap();
            assert_eq!(response.status(), StatusCode::OK);
        }
        let keys = keys(&api);
        assert_eq!(keys.len(), 4);
        assert!(keys[..3].iter().all(|key| *key == keys[0]));
        assert_ne!(keys[3], keys[0], "another call, another key");
    }

    #[tokio::test(start_paused = true)]
    async fn naming_the_key_layer_states_that_the_server_honours_keys() {
        let api = api([503, 200]);
        let stack = Stack::builder(HttpPolicy::new())
            .idempotency_key(IdempotencyKeyLayer::new())
            .build()
            .unwrap();
        let response = stack.layer(api.clone()).oneshot(post()).await.unwrap();
        assert_eq!(response.status(), StatusCode::OK);
        assert_eq!(api.calls(), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn without_the_key_layer_a_post_is_sent_once_also_with_a_key() {
        for key in [None, Some("order-7")] {
            let api = api([503, 200]);
            let stack = Stack::builder(HttpPolicy::new()).build().unwrap();
            let mut request = post();
            if let Some(key) = key {
                let key = key.parse().unwrap();
                request.headers_mut().insert("idempotency-key", key);
            }
            let service = stack.layer(api.clone());
            let (outcome, report) = CallReport::of(service.oneshot(request)).await;
            let report = report.unwrap();
            assert_eq!(outcome.unwrap().status(), StatusCode::SERVICE_UNAVAILABLE);
            assert_eq!(api.calls(), 1);
            assert_eq!(report.stop_reason(), Some(StopReason::OutcomeUnknown));
            assert_eq!(report.last_attempt().keyed(), key.is_some());
            assert!(report.outcome_unknown());
        }
    }
}

/// Outcomes in the window, and the failures among them.
fn recorded(breaker: &CircuitBreaker) -> (u32, u32) {
    let metrics = breaker.metrics();
    (metrics.recorded(), metrics.failures())
}
