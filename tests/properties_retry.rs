//! What a retry never does, whatever verdicts it is told and however it is set.
#![cfg(not(loom))]
#![expect(clippy::unwrap_used, reason = "a test may")]

mod support;

use std::fmt;
use std::time::Duration;

use proptest::prelude::*;
use support::{Script, Step};
use tower::{BoxError, ServiceBuilder, ServiceExt};
use tower_composure::{
    Attempt, Backoff, Budget, BudgetLayer, CallReport, DeadlineExceeded, DeadlineLayer, Effect,
    Hint, Jitter, RetryLayer, StopReason, Verdict, policy_fn,
};

/// The longest hint that is honoured, in milliseconds.
const MAX_HINT: u64 = 2000;

/// What the script does in one attempt.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Act {
    takes: u64,
    verdict: Verdict,
}

/// An error that says what it means.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Said(Act);

impl fmt::Display for Said {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a scripted failure")
    }
}

impl std::error::Error for Said {}

#[derive(Debug, Clone)]
struct Play {
    acts: Vec<Act>,
    effect: Effect,
    max_attempts: Option<u32>,
    tokens: Option<u32>,
    deadline: u64,
    backoff: Backoff,
    seed: u64,
}

/// What was seen of it.
#[derive(Debug)]
struct Seen {
    /// When the attempts came, in milliseconds.
    at: Vec<u64>,
    /// The outcome of the last attempt and its report, where the deadline did not cut it off.
    ended: Option<(Act, CallReport)>,
}

impl Play {
    fn act(&self, attempt: usize) -> Act {
        // The last step of a script is played for ever.
        self.acts[attempt.min(self.acts.len() - 1)]
    }

    /// The pairs of an attempt that was followed by another one, and the wait between them.
    fn retried(&self, seen: &Seen) -> Vec<(Verdict, u64)> {
        let pairs = seen.at.windows(2).enumerate();
        pairs
            .map(|(index, at)| {
                let act = self.act(index);
                (act.verdict, at[1] - at[0] - act.takes)
            })
            .collect()
    }

    fn perform(&self) -> Seen {
        tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap()
            .block_on(self.call())
    }

    async fn call(&self) -> Seen {
        let script = Script::<(), Act, Said>::new(self.acts.iter().map(|act| {
            let step = match act.verdict {
                Verdict::Success => Step::Ok(*act),
                _ => Step::Err(Said(*act)),
            };
            step.taking(act.takes)
        }));
        let policy = policy_fn(|_: &Attempt, outcome: Result<&Act, &Said>| match outcome {
            Ok(act) | Err(Said(act)) => act.verdict,
        });
        let mut retry = RetryLayer::builder(policy.with_effect(self.effect))
            .backoff(self.backoff)
            .max_hint(Duration::from_millis(MAX_HINT))
            .seed(self.seed);
        retry = match self.max_attempts {
            Some(attempts) => retry.max_attempts(attempts),
            None => retry.unlimited_attempts(),
        };
        let budget = self.tokens.map_or_else(BudgetLayer::no_budget, |tokens| {
            BudgetLayer::new(Budget::new(0.0, tokens).unwrap())
        });
        let service = ServiceBuilder::new()
            .layer(DeadlineLayer::call(Duration::from_millis(self.deadline)))
            .layer(budget)
            .layer(retry.build().unwrap())
            .service(script.clone());
        let (outcome, report) = CallReport::of(service.oneshot(())).await;
        let times = script.times();
        Seen {
            at: times.iter().map(|at| u64::try_from(*at).unwrap()).collect(),
            ended: ended(outcome).zip(report),
        }
    }
}

fn ended(outcome: Result<Act, BoxError>) -> Option<Act> {
    match outcome {
        Ok(act) => Some(act),
        Err(error) if error.is::<DeadlineExceeded>() => None,
        Err(error) => Some(error.downcast::<Said>().unwrap().0),
    }
}

fn milliseconds(wait: Duration) -> u64 {
    u64::try_from(wait.as_micros().div_ceil(1000)).unwrap_or(u64::MAX)
}

fn any_hint() -> impl Strategy<Value = Option<Hint>> {
    let wait = prop_oneof![Just(0), 1..50_u64, 50..2 * MAX_HINT].prop_map(Duration::from_millis);
    let hint = (wait, any::<bool>(), any::<bool>()).prop_map(|(wait, exact, once)| {
        let hint = if exact {
            Hint::exactly(wait)
        } else {
            Hint::after(wait)
        };
        if once { hint.once() } else { hint }
    });
    prop_oneof![4 => Just(None), 4 => hint.prop_map(Some), 1 => Just(Some(Hint::never()))]
}

fn any_act() -> impl Strategy<Value = Act> {
    let verdict = prop_oneof![
        1 => Just(Verdict::Success),
        1 => Just(Verdict::Fault),
        1 => Just(Verdict::Rejected),
        4 => Just(Verdict::THROTTLED),
        4 => Just(Verdict::REFUSED),
        6 => Just(Verdict::UNKNOWN),
    ];
    let takes = prop_oneof![2 => Just(0), 1 => 1..300_u64];
    (takes, verdict, any_hint()).prop_map(|(takes, verdict, hint)| Act {
        takes,
        verdict: verdict.with_hint(hint),
    })
}

fn any_backoff() -> impl Strategy<Value = Backoff> {
    let jitter = prop_oneof![
        Just(Jitter::None),
        Just(Jitter::Full),
        Just(Jitter::Equal),
        Just(Jitter::Decorrelated),
    ];
    let some = (1..200_u64, 0..1000_u64, jitter).prop_map(|(base, more, jitter)| {
        let base = Duration::from_millis(base);
        Backoff::exponential(base, base + Duration::from_millis(more)).jitter(jitter)
    });
    prop_oneof![2 => some, 1 => Just(Backoff::none())]
}

fn any_play() -> impl Strategy<Value = Play> {
    let effect = prop_oneof![
        Just(Effect::Read),
        Just(Effect::IdempotentWrite),
        Just(Effect::Write),
    ];
    (
        prop::collection::vec(any_act(), 1..8),
        effect,
        prop::option::weighted(0.8, 1..7_u32),
        prop::option::of(1..4_u32),
        prop_oneof![1..500_u64, 500..10_000_u64],
        any_backoff(),
        any::<u64>(),
    )
        .prop_map(
            |(acts, effect, max_attempts, tokens, deadline, backoff, seed)| Play {
                acts,
                effect,
                // Without an end and without a wait the paused clock would never reach the deadline.
                max_attempts: max_attempts.or((backoff == Backoff::none()).then_some(7)),
                tokens,
                deadline,
                backoff,
                seed,
            },
        )
}

proptest! {
    #[test]
    fn attempts_and_tokens_bound_the_calls(play in any_play()) {
        let seen = play.perform();
        let calls = u32::try_from(seen.at.len()).unwrap();
        prop_assert!(calls >= 1);
        prop_assert!(play.max_attempts.is_none_or(|max| calls <= max));
        prop_assert!(play.tokens.is_none_or(|tokens| calls <= 1 + tokens));
    }

    #[test]
    fn only_what_may_be_repeated_is_sent_again(play in any_play()) {
        let seen = play.perform();
        let retried = play.retried(&seen);
        for (verdict, _) in &retried {
            prop_assert!(verdict.is_retryable(), "{verdict:?}");
            prop_assert!(play.effect != Effect::Write || !verdict.is_unknown());
        }
        let hints = retried.iter().filter_map(|(verdict, _)| verdict.hint());
        prop_assert!(hints.filter(|hint| hint.is_once()).count() <= 1);
    }

    #[test]
    fn no_attempt_comes_before_its_hint_or_long_after(play in any_play()) {
        let seen = play.perform();
        for (verdict, waited) in play.retried(&seen) {
            let most = milliseconds(play.backoff.ceiling(u32::MAX));
            let Some(hint) = verdict.hint() else {
                prop_assert!(waited <= most);
                continue;
            };
            let floor = milliseconds(hint.wait());
            prop_assert!(floor <= MAX_HINT);
            prop_assert!(waited >= floor, "{waited} ms, asked for {floor}");
            if hint.is_exact() && play.max_attempts.is_some() {
                prop_assert_eq!(waited, floor);
            } else if hint.is_exact() {
                prop_assert!(waited <= most.max(floor));
            } else {
                let base = milliseconds(play.backoff.ceiling(1));
                prop_assert!(waited <= most.max(floor + base.max(floor / 4 + 1)));
            }
        }
    }

    #[test]
    fn nothing_happens_after_the_deadline(play in any_play()) {
        let seen = play.perform();
        prop_assert!(seen.at.iter().all(|at| *at <= play.deadline), "{:?}", seen.at);
        let last = seen.at.len() - 1;
        let end = seen.at[last] + play.act(last).takes;
        match seen.ended {
            Some(_) => prop_assert!(end <= play.deadline),
            None => prop_assert!(end >= play.deadline, "cut off although it had answered"),
        }
    }

    #[test]
    fn the_last_outcome_goes_up_with_a_true_report(play in any_play()) {
        let seen = play.perform();
        let Some((outcome, report)) = seen.ended else {
            return Ok(());
        };
        let acts: Vec<_> = (0..seen.at.len()).map(|index| play.act(index)).collect();
        let last = acts[acts.len() - 1];
        prop_assert_eq!(outcome, last);
        prop_assert_eq!(report.verdict(), last.verdict);
        prop_assert_eq!(report.attempts() as usize, acts.len());
        prop_assert_eq!(report.hint(), last.verdict.hint());
        prop_assert_eq!(report.stop_reason().is_some(), last.verdict.is_retryable());
        // Uncertainty is kept until an attempt succeeds.
        let unknown = acts.iter().any(|act| act.verdict.is_unknown());
        let expected = play.effect.is_write() && unknown && !last.verdict.is_success();
        prop_assert_eq!(report.outcome_unknown(), expected);
        // Each wait ends with the next tick of the timer, at most a millisecond late.
        let waited: u64 = play.retried(&seen).iter().map(|(_, waited)| waited).sum();
        let planned = milliseconds(report.backoff());
        prop_assert!(planned <= waited && waited <= planned + u64::from(report.attempts()));
    }

    #[test]
    fn a_call_stops_only_for_its_reason(play in any_play()) {
        let seen = play.perform();
        let Some((last, report)) = seen.ended else {
            return Ok(());
        };
        let calls = report.attempts();
        let hint = last.verdict.hint();
        match report.stop_reason() {
            None => prop_assert!(!last.verdict.is_retryable()),
            Some(StopReason::Attempts) => prop_assert!(
                play.max_attempts == Some(calls) || hint.is_some_and(Hint::is_once)
            ),
            Some(StopReason::OutcomeUnknown) => {
                prop_assert!(last.verdict.is_unknown() && play.effect == Effect::Write);
            }
            Some(StopReason::HintExceedsLimit) => {
                let limit = Duration::from_millis(MAX_HINT);
                prop_assert!(hint.is_some_and(|hint| hint.wait() > limit));
            }
            Some(StopReason::Deadline) => {
                // Not even the longest wait that could have been meant fits.
                let most = milliseconds(play.backoff.ceiling(u32::MAX));
                let wait = most.max(hint.map_or(0, |hint| milliseconds(hint.wait())));
                let end = seen.at[seen.at.len() - 1] + last.takes;
                prop_assert!(end + wait >= play.deadline);
            }
            Some(StopReason::BudgetExhausted) => {
                prop_assert_eq!(play.tokens, Some(calls - 1));
            }
            Some(reason) => prop_assert!(false, "{reason:?}"),
        }
    }
}
