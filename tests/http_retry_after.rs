//! How long a server asks to wait, and in which words.
#![cfg(all(not(loom), feature = "http"))]

mod support;

use std::time::{Duration, SystemTime};

use http::{Method, Request, Response, StatusCode};
use support::Step;
use support::http_policy::{
    Reply, SECOND, Server, answer, calls, classify, hint, hint_of, ok, policy, request, run, told,
    w0,
};
use tower::{BoxError, Layer, ServiceBuilder, ServiceExt};
use tower_composure::{
    Attempt, Backoff, DeadlineLayer, Effect, Hint, HttpPolicy, Jitter, Policy, RetryLayer,
    StopReason, Verdict,
};

#[tokio::test(start_paused = true)]
async fn case_001_a_date_is_a_hint_like_seconds() {
    let server = Server::new([told(503, "Thu, 01 Jan 2026 00:02:00 GMT"), ok(200)]);
    let (outcome, _) = run(policy(), request(Method::GET), 600 * SECOND, &server).await;
    assert_eq!(outcome.unwrap().status(), StatusCode::OK);
    // On top comes up to a quarter of it, so that not everybody comes back at once.
    let second = server.seen()[1].at;
    assert!(
        (120 * SECOND..=150 * SECOND).contains(&second),
        "{second:?}"
    );
}

#[test]
fn case_002_all_three_forms_and_no_other() {
    for form in [
        "Thu, 01 Jan 2026 00:02:00 GMT",
        "Thursday, 01-Jan-26 00:02:00 GMT",
        "Thu Jan  1 00:02:00 2026",
    ] {
        assert_eq!(hint(form), Some(120 * SECOND), "{form}");
    }
    for other in [
        "2026-01-01T00:02:00Z",
        "Jan 1 2026",
        "Thu, 01 Jan 2026 00:02:00 +0000",
        "Thu, 01 Jan 2026 00:02:00",
        "Thursday, 01-Jan-2026 00:02:00 GMT",
        "Thursday, 01-Jan-6 00:02:00 GMT",
        "Thursday, 01-Jan-+6 00:02:00 GMT",
    ] {
        assert_eq!(hint(other), None, "{other}");
    }
}

#[test]
fn case_003_a_two_digit_year_is_at_most_fifty_years_ahead() {
    assert_eq!(hint("Thursday, 01-Jan-26 00:02:00 GMT"), Some(120 * SECOND));
    let huge = hint("Tuesday, 01-Jan-75 00:00:00 GMT").unwrap();
    assert_eq!(huge.as_secs() / (365 * 24 * 3600), 49, "2075");
    assert_eq!(
        hint("Saturday, 01-Jan-77 00:00:00 GMT"),
        Some(Duration::ZERO),
        "1977"
    );
}

#[test]
fn case_004_an_impossible_date_is_none() {
    assert_eq!(hint("Tue, 31 Feb 2026 00:00:00 GMT"), None);
    assert_eq!(hint("Thu, 01 Foo 2026 00:00:00 GMT"), None);
    let before_midnight = policy().wall_clock(|| w0() - 30 * SECOND);
    let leap = [("retry-after", b"Wed, 31 Dec 2025 23:59:60 GMT".as_slice())];
    assert_eq!(hint_of(&before_midnight, &leap), Some(30 * SECOND));
    // A weekday that does not fit its date: one of the two is wrong, and nobody knows which.
    assert_eq!(hint("Mon, 01 Jan 2026 00:02:00 GMT"), None);
}

#[tokio::test(start_paused = true)]
async fn case_005_a_date_in_the_past_is_a_hint_of_nothing() {
    assert_eq!(hint("Wed, 31 Dec 2025 23:59:00 GMT"), Some(Duration::ZERO));
    let server = Server::new([told(503, "Wed, 31 Dec 2025 23:59:00 GMT"), ok(200)]);
    run(policy(), request(Method::GET), 60 * SECOND, &server)
        .await
        .0
        .unwrap();
    assert_eq!(server.times(), [0, 100]);
}

#[test]
fn case_006_a_sign_is_malformed() {
    for signed in ["-5", "-0", "−5", "+5"] {
        assert_eq!(hint(signed), None, "{signed}");
    }
}

#[test]
fn case_007_a_fraction_is_rounded_up() {
    assert!(hint("299.997").unwrap() >= Duration::from_millis(299_997));
    assert_eq!(hint("0.493"), Some(Duration::from_millis(493)));
    assert_eq!(hint("1.0000000001"), Some(SECOND + Duration::from_nanos(1)));
    for malformed in ["1e3", "inf", "NaN", "1.", ".5", "1.2.3"] {
        assert_eq!(hint(malformed), None, "{malformed}");
    }
}

#[test]
fn case_008_the_whole_value_is_digits_and_the_longest_of_several_counts() {
    for spaced in [" 5 ", "5\t"] {
        assert_eq!(hint(spaced), Some(5 * SECOND));
    }
    for malformed in ["0x10", "5s", "5;", "5 6", "٥", "10, 20"] {
        assert_eq!(hint(malformed), None, "{malformed}");
    }
    let twice = [("retry-after", b"10".as_slice()), ("retry-after", b"30")];
    assert_eq!(hint_of(&policy(), &twice), Some(30 * SECOND));
}

#[tokio::test(start_paused = true)]
async fn case_010_digits_out_of_range_are_a_very_long_wait() {
    for huge in [
        "9999999999",
        "18446744073709551615",
        "99999999999999999999999",
    ] {
        let server = Server::new([told(503, huge), ok(200)]);
        let (outcome, report) = run(policy(), request(Method::GET), 60 * SECOND, &server).await;
        assert_eq!(outcome.unwrap().status(), StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!((server.calls(), server.age()), (1, Duration::ZERO));
        assert_eq!(report.stop_reason(), Some(StopReason::HintExceedsLimit));

        let server = Server::new([told(503, huge), ok(200)]);
        let endless = run(policy(), request(Method::GET), Duration::MAX, &server);
        tokio::time::timeout(3600 * SECOND, endless)
            .await
            .unwrap_err();
        assert_eq!(server.calls(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn case_011_a_hint_beyond_the_limit_or_the_deadline_ends_the_call_at_once() {
    let server = Server::new([told(429, "10800"), ok(200)]);
    let (outcome, report) = run(policy(), request(Method::GET), 60 * SECOND, &server).await;
    assert_eq!(outcome.unwrap().headers()["retry-after"], "10800");
    assert_eq!(report.stop_reason(), Some(StopReason::HintExceedsLimit));
    assert_eq!((report.attempts(), server.age()), (1, Duration::ZERO));

    let server = Server::new([told(429, "45"), ok(200)]);
    let service = DeadlineLayer::call(30 * SECOND).layer(tower::service_fn({
        let server = server.clone();
        move |request: Request<String>| {
            let server = server.clone();
            async move { run(policy(), request, 60 * SECOND, &server).await.0 }
        }
    }));
    let response = service.oneshot(request(Method::GET)).await.unwrap();
    assert_eq!(response.status(), StatusCode::TOO_MANY_REQUESTS);
    assert_eq!((server.calls(), server.age()), (1, Duration::ZERO));
}

#[tokio::test(start_paused = true)]
async fn case_014_zero_is_a_hint_and_no_hot_loop() {
    assert_eq!(hint("0"), Some(Duration::ZERO));
    let headers = vec![
        ("retry-after-ms", "0".to_owned()),
        ("retry-after", "60".to_owned()),
    ];
    let server = Server::new([Step::Ok(Reply(503, headers)), ok(200)]);
    run(policy(), request(Method::GET), 60 * SECOND, &server)
        .await
        .0
        .unwrap();
    assert_eq!(server.times(), [0, 100]);

    let server = Server::new([told(503, "0")]);
    run(policy(), request(Method::GET), 60 * SECOND, &server)
        .await
        .0
        .unwrap();
    assert_eq!(server.times(), [0, 100, 300]);
}

#[test]
fn case_015_an_empty_value_is_none() {
    for empty in ["", "   ", "\t"] {
        assert_eq!(hint(empty), None);
    }
}

#[test]
fn case_017_a_date_is_relative_to_the_responses_own() {
    let headers: [(&str, &[u8]); 2] = [
        ("date", b"Thu, 01 Jan 2026 00:00:00 GMT"),
        ("retry-after", b"Thu, 01 Jan 2026 00:00:41 GMT"),
    ];
    let fast = policy().wall_clock(|| w0() + 600 * SECOND);
    let slow = policy().wall_clock(|| w0() - 600 * SECOND);
    assert_eq!(hint_of(&fast, &headers), Some(41 * SECOND));
    assert_eq!(hint_of(&slow, &headers), Some(41 * SECOND));
    // Without a date, or with one that is none, the local clock is all there is.
    assert_eq!(hint_of(&fast, &headers[1..]), Some(Duration::ZERO));
    assert_eq!(hint_of(&slow, &headers[1..]), Some(641 * SECOND));
    let dated = [("date", b"yesterday".as_slice()), headers[1]];
    assert_eq!(hint_of(&slow, &dated), Some(641 * SECOND));
}

#[test]
fn a_wrong_clock_is_no_panic() {
    let headers: [(&str, &[u8]); 2] = [
        ("retry-after", b"Thursday, 01-Jan-26 00:02:00 GMT"),
        ("date", b"Fri, 31 Dec 9999 23:59:60 GMT"),
    ];
    let early = policy().wall_clock(|| SystemTime::UNIX_EPOCH - SECOND);
    let late = policy().wall_clock(|| w0() + Duration::from_secs(300_000_000_000));
    // Where the present has no year to slide with, two digits are 2026.
    let from_1969 = Duration::from_secs(1_767_225_721);
    assert_eq!(hint_of(&early, &headers[..1]), Some(from_1969));
    assert_eq!(hint_of(&late, &headers[..1]), Some(Duration::ZERO));
    assert_eq!(hint_of(&policy(), &headers), Some(Duration::ZERO));
    assert_eq!(hint_of(&policy(), &headers[..1]), Some(120 * SECOND));
}

#[tokio::test(start_paused = true)]
async fn case_018_a_hint_is_a_floor_with_a_spread() {
    let mut seconds = Vec::new();
    for seed in 0..200 {
        let server = Server::new([told(429, "5"), ok(200)]);
        let backoff = Backoff::exponential(SECOND / 10, 10 * SECOND).jitter(Jitter::None);
        let layer = RetryLayer::builder(policy())
            .backoff(backoff)
            .seed(seed)
            .build()
            .unwrap();
        let service = layer.layer(
            ServiceBuilder::new()
                .map_response(|Reply(status, headers): Reply| {
                    let value = headers.first().map_or("", |(_, value)| value);
                    answer(status, &[("retry-after", value.as_bytes())])
                })
                .service(server.clone()),
        );
        service.oneshot(request(Method::GET)).await.unwrap();
        seconds.push(server.seen()[1].at);
    }
    let bounds = 5 * SECOND..=6250 * SECOND / 1000;
    assert!(seconds.iter().all(|second| bounds.contains(second)));
    seconds.sort();
    seconds.dedup();
    assert!(
        seconds.len() >= 100,
        "{} different milliseconds",
        seconds.len()
    );
}

#[tokio::test(start_paused = true)]
async fn case_019_a_hint_counts_with_every_status_that_is_retried() {
    let extended = policy().status(StatusCode::from_u16(529).unwrap(), Verdict::UNKNOWN);
    for status in [408, 429, 502, 503, 504, 529, 413] {
        let server = Server::new([told(status, "7"), ok(200)]);
        run(extended.clone(), request(Method::GET), 60 * SECOND, &server)
            .await
            .0
            .unwrap();
        let second = server.seen()[1].at;
        assert!(
            (7 * SECOND..=9 * SECOND).contains(&second),
            "{status} at {second:?}"
        );
    }
    for status in [404, 422] {
        assert_eq!(
            calls(Method::GET, vec![told(status, "7"), ok(200)]).await,
            1
        );
    }
    assert_eq!(
        calls(Method::GET, vec![ok(413), ok(200)]).await,
        1,
        "413 without it"
    );
}

#[test]
fn milliseconds_count_before_seconds_where_they_are_valid() {
    let both = |millis: &'static str| {
        let headers = [
            ("retry-after", b"60".as_slice()),
            ("retry-after-ms", millis.as_bytes()),
        ];
        hint_of(&policy(), &headers)
    };
    assert_eq!(both("1500"), Some(Duration::from_millis(1500)));
    assert_eq!(both(" 90000\t"), Some(90 * SECOND));
    assert_eq!(both("0.0000001"), Some(Duration::from_nanos(1)));
    assert_eq!(
        both("99999999999999999999"),
        Some(Duration::from_secs(u64::MAX))
    );
    for malformed in ["", "-1", "+5", "1e3", "soon", "1,2", ".5"] {
        assert_eq!(both(malformed), Some(60 * SECOND), "{malformed}");
    }
}

#[test]
fn a_status_that_is_retried_once_stays_so_with_a_wait() {
    for status in [421, 425] {
        let answer = answer(status, &[("retry-after", b"7")]);
        let hint = classify(&policy(), Ok(&answer)).hint();
        assert_eq!(hint, Some(Hint::after(7 * SECOND).once()));
    }
}

#[test]
fn of_several_dates_the_earliest_is_the_present() {
    let headers: [(&str, &[u8]); 3] = [
        ("date", b"Thu, 01 Jan 2026 00:00:30 GMT"),
        ("date", b"Thu, 01 Jan 2026 00:00:00 GMT"),
        ("retry-after", b"Thu, 01 Jan 2026 00:00:41 GMT"),
    ];
    assert_eq!(hint_of(&policy(), &headers), Some(41 * SECOND));
}

/// The verdict on a status with this word on whether to retry.
fn should_retry(policy: &HttpPolicy, status: u16, word: &str) -> Verdict {
    let headers = [("x-should-retry", word.as_bytes()), ("retry-after", b"7")];
    classify(policy, Ok(&answer(status, &headers)))
}

#[tokio::test(start_paused = true)]
async fn a_server_that_wants_no_retry_gets_none() {
    let never = Some(Hint::never());
    for status in [408, 413, 421, 429, 503] {
        let verdict = should_retry(&policy(), status, "false");
        assert!(verdict.is_retryable(), "the status is what it was");
        assert_eq!(verdict.hint(), never, "{status}");
    }
    assert_eq!(should_retry(&policy(), 200, "false"), Verdict::Success);
    assert_eq!(should_retry(&policy(), 500, "false"), Verdict::Fault);
    // One that does is enough.
    for (one, other) in [
        (b"true".as_slice(), b"false".as_slice()),
        (b"false", b"true"),
    ] {
        let both = [("x-should-retry", one), ("stripe-should-retry", other)];
        assert_eq!(classify(&policy(), Ok(&answer(503, &both))).hint(), never);
    }

    for limit in [60 * SECOND, Duration::MAX] {
        let headers = vec![("x-should-retry", "false".to_owned())];
        let server = Server::new([Step::Ok(Reply(429, headers)), ok(200)]);
        let (outcome, report) = run(policy(), request(Method::GET), limit, &server).await;
        assert_eq!(outcome.unwrap().status(), StatusCode::TOO_MANY_REQUESTS);
        assert_eq!((server.calls(), server.age()), (1, Duration::ZERO));
        assert_eq!(report.stop_reason(), Some(StopReason::HintExceedsLimit));
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_wants_a_retry_proves_nothing_for_a_write() {
    let unknown = Verdict::UNKNOWN.with_hint(Some(Hint::after(7 * SECOND)));
    for status in [409, 500, 501, 520] {
        assert_eq!(should_retry(&policy(), status, "true"), unknown, "{status}");
        assert!(!should_retry(&policy(), status, "1").is_retryable());
    }
    // The request's own fault stays so, and so does what the user says and what was retried anyway.
    for status in [400, 401, 404, 422] {
        assert_eq!(should_retry(&policy(), status, "true"), Verdict::Rejected);
    }
    let settled = policy().status(StatusCode::INTERNAL_SERVER_ERROR, Verdict::Fault);
    assert_eq!(should_retry(&settled, 500, "true"), Verdict::Fault);
    assert_eq!(should_retry(&policy(), 200, "true"), Verdict::Success);
    let throttled = should_retry(&policy(), 429, "true");
    assert!(matches!(throttled, Verdict::Throttled { .. }));

    // For a write it is what it was, and its outcome no less known.
    let verdict = |effect| {
        let response = answer(500, &[("x-should-retry", b"true")]);
        let policy: &dyn Policy<Request<()>, Response<()>, BoxError> = &policy();
        policy.classify(&Attempt::first(effect), Ok(&response))
    };
    assert_eq!(verdict(Effect::Write), Verdict::Fault);
    assert_eq!(verdict(Effect::IdempotentWrite), Verdict::UNKNOWN);

    let failing = || {
        let headers = vec![("x-should-retry", "true".to_owned())];
        vec![Step::Ok(Reply(500, headers)), ok(200)]
    };
    assert_eq!(calls(Method::POST, failing()).await, 1);
    assert_eq!(calls(Method::GET, failing()).await, 2);
}
