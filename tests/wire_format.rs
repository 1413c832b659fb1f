//! The grammar of the headers that say how much time is left.
#![cfg(all(not(loom), feature = "http"))]
#![expect(clippy::unwrap_used, reason = "a test may")]

use std::time::Duration;

use proptest::prelude::*;
use tower_composure::wire::TimeoutFormat::{self, Grpc, Millis};

fn written(format: TimeoutFormat, left: Duration) -> Option<String> {
    let value = format.write(left)?;
    Some(value.to_str().unwrap().to_owned())
}

#[test]
fn each_unit_is_read() {
    for (text, nanos) in [
        ("1n", 1),
        ("2u", 2_000),
        ("3m", 3_000_000),
        ("4S", 4_000_000_000),
        ("5M", 300_000_000_000),
        ("6H", 21_600_000_000_000),
        ("00000100m", 100_000_000),
        (" 7S\t", 7_000_000_000),
    ] {
        let expected = Duration::from_nanos(nanos);
        assert_eq!(Grpc.read(text.as_bytes()), Some(expected), "{text}");
    }
    let longest = Duration::from_secs(99_999_999 * 3600);
    assert_eq!(Grpc.read(b"99999999H"), Some(longest));
    assert_eq!(Grpc.read(b"0n"), Some(Duration::ZERO));
    assert_eq!(Millis.read(b"0"), Some(Duration::ZERO));
    assert_eq!(Millis.read(b"250"), Some(Duration::from_millis(250)));
    let endless = Duration::from_millis(u64::MAX);
    assert_eq!(Millis.read(b"99999999999999999999999"), Some(endless));
}

#[test]
fn nothing_else_is() {
    for malformed in [
        "",
        " ",
        "n",
        "S",
        "1",
        "1s",
        "1h",
        "1 S",
        "1SS",
        "S1",
        "-1S",
        "+1S",
        "1.5S",
        "1e3S",
        "123456789n",
        "000000001n",
        "٥S",
        "0x1S",
        "1S,2S",
        "inf",
    ] {
        assert_eq!(Grpc.read(malformed.as_bytes()), None, "{malformed:?}");
    }
    for malformed in [
        "", " ", "-1", "+1", "1.5", "1e3", "1m", "1 2", "٥", "0x1", "1,2",
    ] {
        assert_eq!(Millis.read(malformed.as_bytes()), None, "{malformed:?}");
    }
}

#[test]
fn the_finest_unit_that_eight_digits_hold_is_written() {
    let nanos = Duration::from_nanos;
    for (left, grpc, millis) in [
        (Duration::ZERO, None, None),
        (nanos(1), Some("1n"), None),
        (nanos(99_999_999), Some("99999999n"), Some("99")),
        (nanos(100_000_000), Some("100000u"), Some("100")),
        (nanos(99_999_999_999), Some("99999999u"), Some("99999")),
        (nanos(100_000_000_001), Some("100000m"), Some("100000")),
        (
            Duration::from_secs(100_000),
            Some("100000S"),
            Some("100000000"),
        ),
        (
            Duration::from_secs(100_000_000),
            Some("1666666M"),
            Some("100000000000"),
        ),
        (
            Duration::MAX,
            Some("99999999H"),
            Some("18446744073709551615"),
        ),
    ] {
        assert_eq!(written(Grpc, left).as_deref(), grpc, "{left:?}");
        assert_eq!(written(Millis, left).as_deref(), millis, "{left:?}");
    }
}

/// Lengths of every size, not only of the largest.
fn lengths() -> impl Strategy<Value = Duration> {
    (any::<u64>(), 0..64u32, 0..1_000_000_000u32)
        .prop_map(|(seconds, shift, nanos)| Duration::new(seconds >> shift, nanos))
}

/// Almost the grammar: what a peer that means well gets wrong.
fn nearly() -> impl Strategy<Value = Vec<u8>> {
    "[ \t+-]?[0-9]{0,10}[.,]?[HMSmunhsx]{0,2}[ ]?".prop_map(String::into_bytes)
}

proptest! {
    #[test]
    fn whatever_a_peer_sends_is_read_or_not_and_never_a_panic(
        value in prop_oneof![proptest::collection::vec(any::<u8>(), 0..40), nearly()],
    ) {
        for format in [Grpc, Millis] {
            let Some(read) = format.read(&value) else { continue };
            match format.write(read) {
                // Passed on, it is never longer.
                Some(again) => prop_assert!(format.read(again.as_bytes()).unwrap() <= read),
                None => prop_assert!(read.is_zero()),
            }
        }
    }

    #[test]
    fn what_is_written_is_legal_and_never_more_than_is_left(left in lengths()) {
        let text = written(Grpc, left);
        if let Some(text) = &text {
            let (digits, unit) = text.split_at(text.len() - 1);
            prop_assert!((1..=8).contains(&digits.len()) && "HMSmun".contains(unit), "{}", text);
            prop_assert!(!digits.starts_with('0') && digits.bytes().all(|digit| digit.is_ascii_digit()));
            let read = Grpc.read(text.as_bytes()).unwrap();
            prop_assert!(read <= left);
            // And not much less, unless no unit is long enough.
            let longest = Duration::from_secs(99_999_999 * 3600);
            let lost = left.min(longest).as_nanos() - read.as_nanos();
            prop_assert!(lost * 100_000 <= left.as_nanos(), "{} of {:?}", text, left);
        } else {
            prop_assert!(left.is_zero());
        }

        match Millis.write(left) {
            Some(text) => {
                let read = Millis.read(text.as_bytes()).unwrap();
                let lost = left.as_millis() - read.as_millis();
                prop_assert!(read <= left && (lost == 0 || read.as_millis() == u128::from(u64::MAX)));
            }
            None => prop_assert!(left < Duration::from_millis(1)),
        }
    }

    #[test]
    fn a_longer_time_is_never_written_as_a_shorter_one(one in lengths(), other in lengths()) {
        let (shorter, longer) = (one.min(other), one.max(other));
        for format in [Grpc, Millis] {
            let read = |left| format.write(left).and_then(|text| format.read(text.as_bytes()));
            prop_assert!(read(shorter) <= read(longer));
        }
    }
}
