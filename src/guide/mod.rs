//! How to use it: what to decide, in which order, and why. Each page has code that compiles.
//!
//! In a hurry, read the [`checklist`]: seven steps, each a few lines.
//!
//! | page | it answers |
//! |---|---|
//! | [`checklist`] | what do I do next? |
//! | [`classify`] | which failures are worth a retry? |
//! | [`unknown_outcomes`] | it timed out: was it done? |
//! | [`numbers`] | how many attempts, how long, how large a budget? |
//! | [`one_owner`] | who retries, and how do I switch the others off? |
//! | [`server_side_keys`] | what does a server do with a key? |
//! | [`many_processes`] | does this hold with a hundred replicas? |
//! | [`testing`] | how do I see it work before the outage? |
//! | [`observability`] | what do I watch, and when do I wake somebody? |
//! | [`failure_modes`] | what does it look like when it goes wrong? |
//! | [`does_not_compile`] | what does the compiler mean? |
//! | [`from_tower`], [`from_tower_resilience`], [`from_resilience4j`], [`from_polly`] | which of my settings becomes which? |
//!
//! What a word means is said where its type is: [`Effect`](crate::Effect), [`Verdict`](crate::Verdict),
//! [`Budget`](crate::Budget), [`Deadline`](crate::Deadline), [`CircuitBreaker`](crate::CircuitBreaker),
//! [`IdempotencyKey`](crate::IdempotencyKey).

#[doc = include_str!("checklist.md")]
pub mod checklist {}

#[doc = include_str!("classify.md")]
pub mod classify {}

#[doc = include_str!("unknown_outcomes.md")]
pub mod unknown_outcomes {}

#[doc = include_str!("numbers.md")]
pub mod numbers {}

#[doc = include_str!("one_owner.md")]
pub mod one_owner {}

#[doc = include_str!("server_side_keys.md")]
pub mod server_side_keys {}

#[doc = include_str!("many_processes.md")]
pub mod many_processes {}

#[doc = include_str!("testing.md")]
pub mod testing {}

#[doc = include_str!("observability.md")]
pub mod observability {}

#[doc = include_str!("failure_modes.md")]
pub mod failure_modes {}

#[doc = include_str!("does_not_compile.md")]
pub mod does_not_compile {}

#[doc = include_str!("from_tower.md")]
pub mod from_tower {}

#[doc = include_str!("from_tower_resilience.md")]
pub mod from_tower_resilience {}

#[doc = include_str!("from_resilience4j.md")]
pub mod from_resilience4j {}

#[doc = include_str!("from_polly.md")]
pub mod from_polly {}
