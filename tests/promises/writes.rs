//! The second promise: no write is sent twice but on proof, or with a key that the server honours.

use proptest::prelude::*;
use tower_composure::{Effect, Verdict};

use super::play::play;
use super::world::{Act, Does, Part, Patience, Retry, World, any_parts, any_world, one_retry};

const fn had_no_effect(verdict: Verdict) -> bool {
    matches!(verdict, Verdict::Throttled { .. } | Verdict::Refused { .. })
}

/// The second attempt of a write is cut off, by the deadline above or by a caller who has had enough.
#[test]
fn a_write_that_was_cut_off_may_have_had_its_effect() {
    let acts = vec![
        Act {
            takes: 0,
            does: Does::Fail(Verdict::THROTTLED),
        },
        Act {
            takes: 0,
            does: Does::Hang,
        },
    ];
    let parts = vec![Part::CallDeadline(9), Part::Retry(Retry::AT_ONCE)];
    for effect in [Effect::Read, Effect::IdempotentWrite, Effect::Write] {
        let mut world = World::of(parts.clone(), effect, acts.clone());
        play(&world, async |seen| {
            let report = seen.calls[0].report.unwrap();
            assert_eq!(
                (report.attempts(), report.verdict()),
                (2, Verdict::THROTTLED)
            );
            assert_eq!(report.outcome_unknown(), effect != Effect::Read);
        });
        world.callers[0].patience = Patience::Millis(5);
        play(&world, async |seen| {
            let told = format!(
                "outcome_unknown: {}, cancelled: true",
                effect != Effect::Read
            );
            assert!(
                seen.events.iter().any(|event| event.contains(&told)),
                "{:?}",
                seen.events
            );
        });
    }
}

proptest! {
    #[test]
    fn a_write_is_sent_again_only_on_proof(world in any_world(any_parts())) {
        let honoured = world.has(|part| matches!(part, Part::Retry(retry) if retry.honours_keys));
        let sent = play(&world, async |seen| -> Vec<Vec<_>> {
            let owned = |arrivals: Vec<_>| arrivals.into_iter().cloned().collect();
            seen.by_caller().map(owned).collect()
        });
        for (caller, arrivals) in world.callers.iter().zip(&sent) {
            // A key is the same on every attempt.
            prop_assert!(arrivals.windows(2).all(|pair| pair[0].key == pair[1].key));
            if caller.effect != Effect::Write || (caller.keyed && honoured) {
                continue;
            }
            let Some((_, earlier)) = arrivals.split_last() else { continue };
            for arrival in earlier {
                let proven = arrival.act.verdict().is_some_and(had_no_effect);
                prop_assert!(proven && arrival.ended.is_some(), "sent again after {:?}", arrival.act);
            }
        }
    }

    /// Nobody is told that a write has failed without an effect while an attempt of it may have had one.
    #[test]
    fn uncertainty_is_kept(world in any_world(one_retry())) {
        play(&world, async |seen| {
            for (caller, (call, arrivals)) in world.callers.iter().zip(seen.calls.iter().zip(seen.by_caller())) {
                let Some((report, outcome)) = call.report.as_ref().zip(call.outcome.as_ref()) else { continue };
                if caller.effect == Effect::Read || outcome.as_ref().is_ok_and(|answer| answer.0.is_success()) {
                    continue;
                }
                let says_unknown = |verdict: Verdict| verdict.is_unknown();
                let unknown = arrivals.iter().any(|arrival| match arrival.ended {
                    Some(_) => arrival.act.verdict().is_some_and(says_unknown),
                    None => true,
                });
                prop_assert!(!unknown || report.outcome_unknown(), "{report:?}");
            }
            Ok(())
        })?;
    }
}
