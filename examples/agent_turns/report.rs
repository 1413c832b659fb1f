//! What was called, retried and refused, and what the model was told: as a table and as JSON.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Mutex, PoisonError};

use serde::Serialize;
use serde_json::Value;

use crate::api::Ledger;
use crate::args::Args;
use crate::tools::{CHARGE, FIND, RECEIPT, Refusals, marks, name};

/// What the model was told, by tool.
#[derive(Default)]
pub(crate) struct Told(Mutex<BTreeMap<String, BTreeMap<String, u32>>>);

impl Told {
    /// A success counts as `ok`, everything else as its code and what to do.
    pub(crate) fn count(&self, tool: &str, answer: &Value) {
        let text = |value: &Value| value.as_str().unwrap_or("?").to_owned();
        let mut words = vec![text(&answer["status"])];
        if answer["status"] == "error" {
            words = vec![text(&answer["error"]["code"]), text(&answer["action"])];
        }
        let mut told = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let told = told.entry(tool.to_owned()).or_default();
        *told.entry(words.join(" ")).or_default() += 1;
        // A call that a breaker refused has no report of its own.
        if answer["reason"] == "breaker_open" && answer["attempts"] == 0 {
            *told.entry(REJECTED.to_owned()).or_default() += 1;
        }
    }

    fn of(&self, tool: &str) -> BTreeMap<String, u32> {
        let told = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        told.get(tool).cloned().unwrap_or_default()
    }
}

/// Calls that an open breaker kept from the API.
const REJECTED: &str = "breaker_rejected";

#[derive(Debug, PartialEq, Serialize)]
pub(crate) struct Report {
    pub(crate) seed: u64,
    pub(crate) sessions: u32,
    /// Orders with more than one charge.
    pub(crate) charged_twice: usize,
    /// Orders with more than one receipt.
    pub(crate) receipts_twice: usize,
    pub(crate) charged: usize,
    /// Charges that were asked for again, by a retry or by the model, and found by their key.
    pub(crate) replayed: u32,
    pub(crate) tools: BTreeMap<&'static str, OfTool>,
}

#[derive(Debug, PartialEq, Serialize)]
pub(crate) struct OfTool {
    pub(crate) effect: &'static str,
    /// Calls by the model.
    pub(crate) calls: u32,
    /// Requests that were sent for them.
    pub(crate) attempts: u32,
    /// Requests beyond the first of a call.
    pub(crate) retried: u32,
    /// Retries that were not made, by reason, and calls that a breaker rejected.
    pub(crate) refused: BTreeMap<&'static str, u32>,
    /// What the model was told, and how often.
    pub(crate) told: BTreeMap<String, u32>,
}

impl Report {
    pub(crate) fn new(args: &Args, ledger: &Ledger, refusals: &Refusals, told: &Told) -> Self {
        let twice = |done: &BTreeMap<u64, u32>| done.values().filter(|times| **times > 1).count();
        let tools = [FIND, CHARGE, RECEIPT].map(|tool| {
            let mut told = told.of(tool);
            let mut refused = refusals.of(tool);
            let rejected = told.remove(REJECTED).unwrap_or(0);
            if rejected > 0 {
                refused.insert(REJECTED, rejected);
            }
            let calls = told.values().sum();
            let attempts = ledger.attempts.get(tool).copied().unwrap_or(0);
            let of_tool = OfTool {
                effect: name(marks().effect(tool)),
                calls,
                attempts,
                retried: attempts.saturating_sub(calls - rejected),
                refused,
                told,
            };
            (tool, of_tool)
        });
        Self {
            seed: args.seed,
            sessions: args.sessions,
            charged_twice: twice(&ledger.charged),
            receipts_twice: twice(&ledger.receipts),
            charged: ledger.charged.len(),
            replayed: ledger.replayed,
            tools: tools.into(),
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{} sessions of three orders each go through an outage of 30 s (seed {}).\n",
            self.sessions, self.seed
        )?;
        for (tool, of_tool) in &self.tools {
            writeln!(
                f,
                "{tool} ({}): {} calls, {} requests, {} of them retries",
                of_tool.effect, of_tool.calls, of_tool.attempts, of_tool.retried
            )?;
            writeln!(f, "    refused: {}", listed(&of_tool.refused))?;
            writeln!(f, "    told:    {}", listed(&of_tool.told))?;
        }
        write!(
            f,
            "\n{} orders were charged, {} of them twice; {} requests for a charge found the one that there was.\n\
             Receipts that were sent twice: {}. One that may have been sent is never sent again.",
            self.charged,
            count(self.charged_twice),
            self.replayed,
            count(self.receipts_twice),
        )
    }
}

fn listed<K: fmt::Display>(counts: &BTreeMap<K, u32>) -> String {
    let counts: Vec<_> = counts
        .iter()
        .map(|(what, count)| format!("{what} {count}"))
        .collect();
    match counts.as_slice() {
        [] => "-".to_owned(),
        counts => counts.join(", "),
    }
}

fn count(many: usize) -> String {
    match many {
        0 => "none".to_owned(),
        many => many.to_string(),
    }
}
