//! The third promise: no wait ends after the deadline, and no retry comes earlier than a server asked.

use std::time::Duration;

use proptest::prelude::*;

use tower_composure::{DeadlineExceeded, Effect, Hint, Verdict};

use super::play::{ms, play};
use super::world::{Act, Does, Part, Retry, World, any_parts, any_world};

/// A timer of tokio's ends with the next tick.
const TICK: Duration = ms(1);

fn without_leaps(mut world: World) -> World {
    world.leaps.clear();
    world
}

/// Stopped during the wait before its second attempt, and woken up after the deadline.
#[test]
fn a_process_that_was_stopped_sends_nothing_late() {
    let throttled = Verdict::THROTTLED.with_hint(Some(Hint::after(ms(144))));
    let act = Act {
        takes: 0,
        does: Does::Fail(throttled),
    };
    let parts = vec![Part::CallDeadline(328), Part::Retry(Retry::AT_ONCE)];
    let mut world = World::of(parts, Effect::Read, vec![act]);
    world.leaps = vec![(0, 329)];
    play(&world, async |seen| {
        assert_eq!(seen.arrivals.len(), 1);
        let Some(Err(error)) = &seen.calls[0].outcome else {
            panic!("{:?}", seen.calls)
        };
        let exceeded = DeadlineExceeded::find(&**error).unwrap();
        assert_eq!(exceeded.report().unwrap().attempts(), 1);
    });
}

proptest! {
    #[test]
    fn no_retry_comes_earlier_than_asked(world in any_world(any_parts())) {
        play(&world, async |seen| {
            for arrivals in seen.by_caller() {
                for pair in arrivals.windows(2) {
                    let hint = pair[0].act.verdict().and_then(Verdict::hint);
                    let Some((hint, ended)) = hint.zip(pair[0].ended) else { continue };
                    let waited = pair[1].at - ended;
                    prop_assert!(waited >= hint.wait(), "waited {waited:?} of {hint:?}");
                }
            }
            Ok(())
        })?;
    }

    #[test]
    fn a_call_has_ended_by_its_deadline(world in any_world(any_parts()).prop_map(without_leaps)) {
        let Some(limit) = world.outer_deadline() else { return Ok(()) };
        play(&world, async |seen| {
            for call in &seen.calls {
                if let (Some(called), Some(ended), false) = (call.called, call.ended, call.panicked) {
                    prop_assert!(ended - called <= ms(limit) + TICK, "{:?}", ended - called);
                }
            }
            Ok(())
        })?;
    }

    /// Not even by a process that was stopped past its deadline.
    #[test]
    fn nothing_is_sent_after_the_deadline(world in any_world(any_parts())) {
        let Some(limit) = world.outer_deadline() else { return Ok(()) };
        play(&world, async |seen| {
            for (call, arrivals) in seen.calls.iter().zip(seen.by_caller()) {
                let Some(called) = call.called else { continue };
                for arrival in arrivals {
                    let after = arrival.at - called;
                    prop_assert!(after <= ms(limit), "sent after {after:?}");
                }
            }
            Ok(())
        })?;
    }
}
