//! The first promise: what a dependency has to bear.

use std::collections::HashSet;

use proptest::prelude::*;
use tower_composure::{Effect, Verdict};

use super::play::play;
use super::world::{Part, World, any_parts, any_world, one_retry};

/// A budget directly above each retry.
fn budgeted(parts: Vec<Part>) -> Vec<Part> {
    let with_budget = |part: Part| match part {
        Part::Retry(_) => vec![Part::Budget, part],
        _ => vec![part],
    };
    parts.into_iter().flat_map(with_budget).collect()
}

/// Attempts beyond the first of each call, and what successes have earned, in thousandths.
fn load(world: &World) -> (u32, u32) {
    play(world, async |seen| {
        let first: HashSet<_> = seen.arrivals.iter().map(|seen| seen.caller).collect();
        let succeeded = seen.arrivals.iter().filter(|arrival| {
            arrival.ended.is_some() && arrival.act.verdict() == Some(Verdict::Success)
        });
        let retries = u32::try_from(seen.arrivals.len() - first.len()).unwrap();
        let successes = u32::try_from(succeeded.count()).unwrap();
        (retries, successes * world.ratio)
    })
}

proptest! {
    /// At most burst + ratio × successes more attempts than calls, however many retries are stacked, also where none of them
    /// owns the call, as over a write without a key. One that is `nested` opts out of that, and earns for itself.
    #[test]
    fn retries_are_paid_for(world in any_world(any_parts().prop_map(budgeted))) {
        let (retries, earned) = load(&world);
        let opted_out = |part: &&Part| matches!(part, Part::Retry(retry) if retry.nested);
        let opted_out = world.parts.iter().filter(opted_out).count();
        let earned = earned * (1 + u32::try_from(opted_out).unwrap());
        prop_assert!(retries * 1000 <= world.burst * 1000 + earned, "{retries} retries");
    }

    /// The same with one budget anywhere above one retry.
    #[test]
    fn retries_are_paid_for_from_anywhere_above(
        world in any_world(one_retry().prop_map(|parts| [vec![Part::Budget], parts].concat()))
    ) {
        let (retries, earned) = load(&world);
        prop_assert!(retries * 1000 <= world.burst * 1000 + earned, "{retries} retries");
    }

    /// Retries that are stacked make no more attempts than the most of them allows. Over a write that none of them may
    /// repeat without proof, none owns the call: what one has repeated no other one repeats, but one may go on where another
    /// one has stopped at its first attempt, so there the sum of their repeats is the limit.
    #[test]
    fn attempts_do_not_multiply(world in any_world(any_parts())) {
        let (mut most, mut sum, mut honoured) = (1, 1, true);
        for part in &world.parts {
            match part {
                Part::Retry(retry) if retry.nested => return Ok(()),
                Part::Retry(retry) => {
                    most = most.max(retry.attempts);
                    sum += retry.attempts - 1;
                    honoured &= retry.honours_keys;
                }
                _ => {}
            }
        }
        let attempts = play(&world, async |seen| -> Vec<usize> {
            seen.by_caller().map(|arrivals| arrivals.len()).collect()
        });
        for (caller, attempts) in world.callers.iter().zip(attempts) {
            let owned = caller.effect != Effect::Write || caller.keyed && honoured;
            let limit = if owned { most } else { sum };
            prop_assert!(attempts <= limit as usize, "{attempts} attempts");
        }
    }
}
