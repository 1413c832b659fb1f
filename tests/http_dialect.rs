//! How servers say when a quota comes back, beyond `Retry-After`.
#![cfg(all(not(loom), feature = "http"))]

mod support;

use std::time::{Duration, SystemTime};

use http::HeaderName;
use support::http_policy::{SECOND, answer, classify, hint_of, policy, w0};
use tower_composure::http::Dialect;
use tower_composure::{Hint, HttpPolicy};

const RESET: HeaderName = HeaderName::from_static("x-ratelimit-reset");

/// The hint of a 429 with this reset header, in a dialect.
fn reset(dialect: Dialect, value: &str) -> Option<Duration> {
    let answer = answer(429, &[("x-ratelimit-reset", value.as_bytes())]);
    let verdict = classify(&policy().dialect(dialect), Ok(&answer));
    verdict.hint().map(Hint::wait)
}

#[test]
fn case_013_a_time_that_has_passed_is_a_wait_of_nothing() {
    let seconds = |value| reset(Dialect::EpochSeconds(RESET), value);
    assert_eq!(seconds("1767225590"), Some(Duration::ZERO));
    assert_eq!(seconds("1767225630"), Some(30 * SECOND));
    // The dialect says that it is a time, so it is one of 1970.
    assert_eq!(seconds("30"), Some(Duration::ZERO));
    assert_eq!(
        seconds("1767225630.25"),
        Some(Duration::from_millis(30_250))
    );
    let millis = |value| reset(Dialect::EpochMillis(RESET), value);
    assert_eq!(millis("1767225590000"), Some(Duration::ZERO));
    assert_eq!(millis("1767225630001"), Some(Duration::from_millis(30_001)));
    let century = Duration::from_secs(100 * 365 * 24 * 3600);
    for out_of_range in ["18446744073709551615", "99999999999999999999999"] {
        assert!(seconds(out_of_range).unwrap() > century);
        assert!(millis(out_of_range).unwrap() > century);
    }
    for malformed in [
        "-1",
        "+1767225630",
        "0x10",
        "",
        "Thu, 01 Jan 2026 00:02:00 GMT",
    ] {
        assert_eq!(seconds(malformed), None, "{malformed}");
    }
}

#[test]
fn a_time_is_relative_to_the_responses_own_date_and_no_clock_is_too_wrong() {
    let headers: [(&str, &[u8]); 2] = [
        ("x-ratelimit-reset", b"1767225630"),
        ("date", b"Thu, 01 Jan 2026 00:00:00 GMT"),
    ];
    let hint = |policy: HttpPolicy, headers: &[(&str, &[u8])]| {
        let policy = policy.dialect(Dialect::EpochSeconds(RESET));
        classify(&policy, Ok(&answer(429, headers)))
            .hint()
            .unwrap()
            .wait()
    };
    let fast = policy().wall_clock(|| w0() + 600 * SECOND);
    assert_eq!(hint(fast.clone(), &headers), 30 * SECOND);
    assert_eq!(hint(fast, &headers[..1]), Duration::ZERO);
    let early = policy().wall_clock(|| SystemTime::UNIX_EPOCH - SECOND);
    let from_1969 = Duration::from_secs(1_767_225_631);
    assert_eq!(hint(early, &headers[..1]), from_1969);
}

#[test]
fn a_delay_is_in_the_unit_that_the_dialect_says() {
    assert_eq!(reset(Dialect::DeltaSeconds(RESET), "30"), Some(30 * SECOND));
    let millis = reset(Dialect::DeltaMillis(RESET), "30");
    assert_eq!(millis, Some(Duration::from_millis(30)));
    assert_eq!(reset(Dialect::DeltaSeconds(RESET), "12ms"), None);
    let other = HeaderName::from_static("x-other");
    assert_eq!(reset(Dialect::DeltaSeconds(other), "30"), None);
    // Nobody said what it means.
    let untold = [("x-ratelimit-reset", b"30".as_slice())];
    assert_eq!(classify(&policy(), Ok(&answer(429, &untold))).hint(), None);
}

#[test]
fn a_reset_time_counts_only_where_the_quota_is_the_matter() {
    let policy = policy().dialect(Dialect::DeltaSeconds(RESET));
    let headers = [("x-ratelimit-reset", b"3000".as_slice())];
    assert_eq!(hint_of(&policy, &headers), None, "503");
    let left = [("ratelimit", br#""default";r=0;t=30"#.as_slice())];
    let rate_limit = policy.dialect(Dialect::RateLimit);
    assert_eq!(hint_of(&rate_limit, &left), Some(30 * SECOND), "503");
}

#[test]
fn of_several_dialects_the_longest_wait_counts_and_retry_after_before_all() {
    let policy = policy()
        .dialect(Dialect::DeltaSeconds(RESET))
        .dialect(Dialect::RateLimit);
    let hint = |headers: &[(&str, &[u8])]| {
        let verdict = classify(&policy, Ok(&answer(429, headers)));
        verdict.hint().map(Hint::wait)
    };
    let mut headers: Vec<(&str, &[u8])> = vec![
        ("x-ratelimit-reset", b"20"),
        ("ratelimit", br#""default";r=0;t=30"#),
        ("x-ratelimit-reset", b"25"),
    ];
    assert_eq!(hint(&headers), Some(30 * SECOND));
    headers.push(("retry-after", b"tomorrow"));
    assert_eq!(hint(&headers), Some(30 * SECOND));
    headers.push(("retry-after", b"5"));
    assert_eq!(hint(&headers), Some(5 * SECOND));
}

/// The hint of a 429 with these lines of `RateLimit`.
fn rate_limit(lines: &[&str]) -> Option<Duration> {
    let lines = lines.iter().map(|line| ("ratelimit", line.as_bytes()));
    let lines: Vec<_> = lines.collect();
    let verdict = classify(
        &policy().dialect(Dialect::RateLimit),
        Ok(&answer(429, &lines)),
    );
    verdict.hint().map(Hint::wait)
}

#[test]
fn a_rate_limit_says_whether_anything_is_left() {
    for (lines, expected) in [
        (&[r#""default";r=0;t=30"#][..], Some(30)),
        (&[r#""default";r=0;t=0"#], Some(0)),
        (&[r#""default";t=30;r=0"#], Some(30)),
        (&[r#""default"; r=0; t=30"#], Some(30)),
        (&[r#""a\"b\\c";r=0;t=30"#], Some(30)),
        // The last of equal names counts, and of several quotas the one that is longest used up.
        (&[r#""default";r=9;t=40;r=0;t=30"#], Some(30)),
        (
            &["\"burst\";r=0;t=3, \"day\";r=0;t=900 ,\t\"hour\";r=8;t=3000"],
            Some(900),
        ),
        (&[r#""burst";r=0;t=3"#, r#""day";r=0;t=900"#], Some(900)),
        // Other parameters, of any type.
        (
            &[r#""p";r=0;pk=:cHsdsRa894==:;a;b=?1;c=tok/en;d="x";e=-1.5;f=@99;g=%"f%c3";t=7"#],
            Some(7),
        ),
        (&[r#""p";r=0;*a=1;t=7"#], Some(7)),
        (&[r#""p";r=0;a=999999999999.125;t=7"#], Some(7)),
        (
            &[r#""default";r=0;t=999999999999999"#],
            Some(999_999_999_999_999),
        ),
        // Something is left, or nobody says when something will be.
        (&[r#""default";r=1;t=30"#], None),
        (&[r#""default";r=0"#], None),
        (&[""], None),
    ] {
        assert_eq!(
            rate_limit(lines),
            expected.map(Duration::from_secs),
            "{lines:?}"
        );
    }
    // Out of a cache.
    let cached = [
        ("ratelimit", br#""default";r=0;t=30"#.as_slice()),
        ("age", b"10"),
    ];
    assert_eq!(
        hint_of(&policy().dialect(Dialect::RateLimit), &cached),
        None
    );
}

#[test]
fn a_rate_limit_with_one_wrong_byte_says_nothing() {
    for malformed in [
        r"default;r=0;t=30",
        r#""default";t=30"#,
        r#""default";r=-1;t=30"#,
        r#""default";r=0;t=-30"#,
        r#""default";r=0;t=30.5"#,
        r#""default";r=0;t="30""#,
        r#""default";r=0;t"#,
        r#""default";r=0;t="#,
        r#""default";r=0;t=9999999999999999"#,
        r#""default";r=0;T=30"#,
        r#""default";r=0;t=30,"#,
        r#""default";r=0;t=30 "b";r=0"#,
        r#""default;r=0;t=30"#,
        r#""de\fault";r=0;t=30"#,
        r#"("default");r=0;t=30"#,
        r#""default" ;r=0;t=30"#,
        r#""a";r=0;t=30, b;r=0;t=40"#,
        r#""a";r=0;t=30;x=%"f%C3""#,
        r#""a";r=0;t=30;x=?2"#,
        r#""a";r=0;t=30;x=@1.5"#,
        r#""a";r=0;t=30;x=:a"#,
        r#""a";r=0;t=30;x=1."#,
        r#""a";r=0;t=30;x=.5"#,
        r#""a";r=0;t=30;x=1.0625"#,
        r#""a";r=0;t=30;x=9999999999999.5"#,
        r#""a";r=0;t=30;1x=1"#,
        r#""a";r=0;t=30;_x=1"#,
        "limit=10, remaining=0, reset=30",
    ] {
        assert_eq!(rate_limit(&[malformed]), None, "{malformed}");
    }
}
