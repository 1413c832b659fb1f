//! Replays what the fuzzers were given and have found, and runs the same properties on mutations of it.
#![cfg(all(not(loom), feature = "grpc", feature = "tool"))]
#![allow(clippy::unwrap_used, reason = "the helpers of tests are tests too")]

#[path = "support/targets.rs"]
mod targets;

use std::fs;
use std::path::Path;
use std::sync::LazyLock;

use proptest::prelude::*;
use proptest::sample::Index;

/// What is in the folder of each target.
static CORPORA: LazyLock<[Vec<Vec<u8>>; targets::ALL.len()]> =
    LazyLock::new(|| targets::ALL.map(|(name, _)| read(name)));

fn read(name: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/corpora")
        .join(name);
    let files = fs::read_dir(folder).unwrap();
    let mut inputs: Vec<_> = files
        .map(|file| fs::read(file.unwrap().path()).unwrap())
        .collect();
    inputs.sort();
    assert!(inputs.len() >= 5, "{name} has {} inputs", inputs.len());
    inputs
}

#[test]
fn each_input_holds() {
    for ((_, holds), corpus) in targets::ALL.iter().zip(&*CORPORA) {
        for input in corpus {
            holds(input);
        }
    }
}

/// One change of an input: a byte for another, a byte more, a piece gone, a piece of another input.
#[derive(Debug, Clone)]
enum Change {
    Set(Index, u8),
    Insert(Index, u8),
    Remove(Index, Index),
    Splice(Index, Index),
}

fn any_change() -> impl Strategy<Value = Change> {
    let byte = || {
        prop_oneof![
            any::<u8>(),
            prop::sample::select(b"\"\\,;=:-+.0159 {}[]emu".to_vec())
        ]
    };
    prop_oneof![
        (any::<Index>(), byte()).prop_map(|(at, byte)| Change::Set(at, byte)),
        (any::<Index>(), byte()).prop_map(|(at, byte)| Change::Insert(at, byte)),
        any::<(Index, Index)>().prop_map(|(from, to)| Change::Remove(from, to)),
        any::<(Index, Index)>().prop_map(|(at, other)| Change::Splice(at, other)),
    ]
}

fn change(input: &mut Vec<u8>, by: &Change, corpus: &[Vec<u8>]) {
    let at = |index: &Index| index.index(input.len() + 1);
    match by {
        Change::Set(index, byte) => {
            let at = at(index);
            if let Some(old) = input.get_mut(at) {
                *old = *byte;
            }
        }
        Change::Insert(index, byte) => input.insert(at(index), *byte),
        Change::Remove(from, to) => {
            let (from, to) = (at(from), at(to));
            input.drain(from.min(to)..from.max(to));
        }
        Change::Splice(index, other) => {
            let at = at(index);
            input.splice(at..at, other.get(corpus).iter().copied());
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn each_mutation_holds(
        target in 0..targets::ALL.len(),
        seed in any::<Index>(),
        changes in prop::collection::vec(any_change(), 0..6),
    ) {
        let (_, holds) = targets::ALL[target];
        let corpus = &CORPORA[target];
        let mut input = seed.get(corpus).clone();
        for by in &changes {
            change(&mut input, by, corpus);
        }
        holds(&input);
    }
}
