//! What the HTTP policy says: of methods, statuses, errors, and of how long a server asks to wait.
#![cfg(all(not(loom), feature = "http"))]
#![expect(clippy::unwrap_used, reason = "a test may")]

mod support;

use std::error::Error;
use std::fmt;
use std::io;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use axum::body::Bytes;
use http::{HeaderMap, Method, Request, Response, StatusCode, Version};
use http_body_util::{BodyExt, Full};
use proptest::prelude::*;
use support::{Script, Step};
use tower::{BoxError, Layer, ServiceBuilder, ServiceExt};
use tower_composure::retry::replay_fn;
use tower_composure::{
    Attempt, Backoff, CallReport, DeadlineExceeded, DeadlineLayer, Effect, Hint, HttpPolicy,
    Jitter, Policy, RetryLayer, StopReason, Verdict,
};

const SECOND: Duration = Duration::from_secs(1);

/// 2026-01-01T00:00:00Z.
fn w0() -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(1_767_225_600)
}

fn policy() -> HttpPolicy {
    HttpPolicy::new().wall_clock(w0)
}

fn classify(policy: &HttpPolicy, outcome: Result<&Response<()>, &BoxError>) -> Verdict {
    let policy: &dyn Policy<Request<()>, Response<()>, BoxError> = policy;
    policy.classify(&Attempt::first(Effect::Read), outcome)
}

fn answer(status: u16, headers: &[(&str, &[u8])]) -> Response<()> {
    let mut response = Response::builder().status(status);
    for (name, value) in headers {
        response = response.header(*name, *value);
    }
    response.body(()).unwrap()
}

/// The hint of a 503 with these headers.
fn hint_of(policy: &HttpPolicy, headers: &[(&str, &[u8])]) -> Option<Duration> {
    classify(policy, Ok(&answer(503, headers)))
        .hint()
        .map(Hint::wait)
}

fn hint(value: &str) -> Option<Duration> {
    hint_of(&policy(), &[("retry-after", value.as_bytes())])
}

/// A scripted answer: a status and headers, or an error of a kind.
#[derive(Debug, Clone)]
struct Reply(u16, Vec<(&'static str, String)>);

type Server = Script<Request<String>, Reply, io::ErrorKind>;

fn ok(status: u16) -> Step<Reply, io::ErrorKind> {
    Step::Ok(Reply(status, Vec::new()))
}

fn told(status: u16, retry_after: &str) -> Step<Reply, io::ErrorKind> {
    Step::Ok(Reply(status, vec![("retry-after", retry_after.to_owned())]))
}

fn request(method: Method) -> Request<String> {
    Request::builder()
        .method(method)
        .uri("/")
        .body("hello".to_owned())
        .unwrap()
}

/// The settings of the cases: 3 attempts; 100, 200 ms; hints up to `max_hint`.
async fn run(
    policy: HttpPolicy,
    request: Request<String>,
    max_hint: Duration,
    server: &Server,
) -> (Result<Response<()>, BoxError>, CallReport) {
    let backoff = Backoff::exponential(SECOND / 10, 10 * SECOND).jitter(Jitter::None);
    let layer = RetryLayer::builder(policy)
        .max_attempts(3)
        .backoff(backoff)
        .max_hint(max_hint)
        .seed(1)
        .build()
        .unwrap();
    let service = layer.layer(
        ServiceBuilder::new()
            .map_response(|Reply(status, headers): Reply| {
                let mut response = answer(status, &[]);
                for (name, value) in headers {
                    response.headers_mut().append(name, value.parse().unwrap());
                }
                response
            })
            .map_err(|kind: io::ErrorKind| BoxError::from(io::Error::from(kind)))
            .service(server.clone()),
    );
    let (outcome, report) = CallReport::of(service.oneshot(request)).await;
    (outcome, report.unwrap())
}

async fn calls(method: Method, steps: Vec<Step<Reply, io::ErrorKind>>) -> usize {
    let server = Server::new(steps);
    run(policy(), request(method), 60 * SECOND, &server)
        .await
        .1
        .attempts() as usize
}

// A. Server wait hints.

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

proptest! {
    #[test]
    fn no_value_is_a_panic(value in prop::collection::vec(any::<u8>(), 0..64), date in ".{0,40}") {
        if let Ok(value) = http::HeaderValue::from_bytes(&value) {
            let mut headers = HeaderMap::new();
            headers.insert("retry-after", value.clone());
            let _ = hint_of(&policy(), &[("retry-after", value.as_bytes())]);
            if let Ok(date) = http::HeaderValue::from_str(&date) {
                let _ = hint_of(&policy(), &[("date", date.as_bytes()), ("retry-after", value.as_bytes())]);
            }
        }
    }

    #[test]
    fn nothing_like_a_date_is_a_panic(value in date_like(), date in date_like()) {
        let headers = [("date", date.as_bytes()), ("retry-after", value.as_bytes())];
        let _ = hint_of(&policy(), &headers);
    }

    #[test]
    fn seconds_are_never_shortened(seconds in any::<u64>(), fraction in "[0-9]{0,12}") {
        prop_assert_eq!(hint(&seconds.to_string()), Some(Duration::from_secs(seconds)));
        if !fraction.is_empty() && seconds < u64::MAX {
            let wait = hint(&format!("{seconds}.{fraction}")).unwrap();
            prop_assert!(wait >= Duration::from_secs(seconds));
            prop_assert!(wait <= Duration::from_secs(seconds + 1));
        }
    }
}

/// Something that looks like one of the forms of a date, at the edges more often than not.
fn date_like() -> impl Strategy<Value = String> {
    let time = "([0-9]{2}:[0-9]{2}:[0-9]{2}|00:00:00|23:59:59|23:59:60)";
    let month = "(Jan|Feb|Dec|Foo)";
    let year = "(19[0-9]{2}|[0-9]{4}|9999|[0-9]{5})";
    let day = "(31|01|[0-9]{2})";
    let forms = [
        format!("(Fri|Sat|Thu), {day} {month} {year} {time} GMT"),
        format!("(Friday|Monday), {day}-{month}-[0-9]{{2}} {time} GMT"),
        format!("(Fri|Sat|Thu) {month} ( [0-9]|{day}) {time} {year}"),
    ];
    let [imf, rfc850, asctime] = forms.map(|form| proptest::string::string_regex(&form).unwrap());
    prop_oneof![imf, rfc850, asctime]
}

// D. What may be retried.

#[tokio::test(start_paused = true)]
async fn case_037_a_request_is_not_repeated_because_it_can_be_cloned() {
    let steps = || vec![ok(502), ok(200)];
    let unknown = Method::from_bytes(b"FOO").unwrap();
    for method in [Method::POST, Method::PATCH, Method::CONNECT, unknown] {
        assert_eq!(calls(method.clone(), steps()).await, 1, "{method}");
    }
    for method in [
        Method::PUT,
        Method::DELETE,
        Method::GET,
        Method::HEAD,
        Method::OPTIONS,
        Method::TRACE,
    ] {
        assert_eq!(calls(method.clone(), steps()).await, 2, "{method}");
    }
    let server = Server::new(steps());
    let mut marked = request(Method::POST);
    marked.extensions_mut().insert(Effect::IdempotentWrite);
    run(policy(), marked, 60 * SECOND, &server).await.0.unwrap();
    assert_eq!(server.calls(), 2);
    let told = policy().method(Method::POST, Effect::IdempotentWrite);
    let server = Server::new(steps());
    run(told, request(Method::POST), 60 * SECOND, &server)
        .await
        .0
        .unwrap();
    assert_eq!(server.calls(), 2);
}

#[tokio::test(start_paused = true)]
async fn case_038_a_timeout_proves_nothing() {
    for (method, expected) in [(Method::POST, 1), (Method::GET, 2)] {
        let server = Server::new([Step::Hang, ok(200)]);
        let layer = RetryLayer::builder(policy())
            .backoff(Backoff::none())
            .build()
            .unwrap();
        let service = ServiceBuilder::new()
            .layer(DeadlineLayer::call(10 * SECOND))
            .layer(layer)
            .layer(DeadlineLayer::attempt(SECOND))
            .map_response(|Reply(status, _): Reply| answer(status, &[]))
            .map_err(|kind: io::ErrorKind| BoxError::from(io::Error::from(kind)))
            .service(server.clone());
        let outcome = service.oneshot(request(method)).await;
        assert_eq!((server.calls(), server.age()), (expected, SECOND));
        if expected == 1 {
            assert!(
                DeadlineExceeded::find(&*outcome.unwrap_err())
                    .unwrap()
                    .is_attempt()
            );
        }
    }
}

#[tokio::test(start_paused = true)]
async fn case_039_a_connection_that_was_refused_sent_nothing() {
    let refused = || vec![Step::Err(io::ErrorKind::ConnectionRefused), ok(200)];
    assert_eq!(calls(Method::POST, refused()).await, 2);
    let reset = || vec![Step::Err(io::ErrorKind::ConnectionReset), ok(200)];
    assert_eq!(calls(Method::POST, reset()).await, 1);
    assert_eq!(calls(Method::GET, reset()).await, 2);
}

#[tokio::test(start_paused = true)]
async fn case_046_a_message_that_was_not_completed_may_have_arrived() {
    let broken = || vec![Step::Err(io::ErrorKind::UnexpectedEof), ok(200)];
    assert_eq!(calls(Method::GET, broken()).await, 2);
    assert_eq!(calls(Method::POST, broken()).await, 1);
    let server = Server::new(broken());
    let mut keyed = request(Method::POST);
    keyed
        .headers_mut()
        .insert("idempotency-key", "k".parse().unwrap());
    let honours = policy().server_honours_keys(true);
    run(honours, keyed, 60 * SECOND, &server).await.0.unwrap();
    let keys: Vec<_> = server
        .seen()
        .iter()
        .map(|seen| seen.request.headers()["idempotency-key"].clone())
        .collect();
    assert_eq!(keys, ["k", "k"]);
}

#[tokio::test(start_paused = true)]
async fn case_040_an_error_nobody_knows_is_retried_where_that_is_safe() {
    let unknown = || vec![Step::Err(io::ErrorKind::Other), ok(200)];
    assert_eq!(calls(Method::GET, unknown()).await, 2);
    assert_eq!(calls(Method::POST, unknown()).await, 1);
}

#[derive(Debug)]
struct Worded(String);

impl fmt::Display for Worded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Error for Worded {}

proptest! {
    #[test]
    fn case_049_the_wording_of_an_error_is_no_interface(words in ".{0,40}|timeout|timed out|connection refused") {
        let error: BoxError = Worded(words).into();
        prop_assert_eq!(classify(&policy(), Err(&error)), Verdict::UNKNOWN);
    }
}

#[tokio::test(start_paused = true)]
async fn case_050_one_list_in_one_place() {
    for (status, expected) in [
        (408, 2),
        (429, 2),
        (502, 2),
        (503, 2),
        (504, 2),
        (500, 1),
        (499, 1),
    ] {
        assert_eq!(
            calls(Method::GET, vec![ok(status), ok(200)]).await,
            expected,
            "{status}"
        );
    }
    for status in [520, 522, 524, 529] {
        assert_eq!(
            calls(Method::GET, vec![ok(status), ok(200)]).await,
            1,
            "{status} by default"
        );
        let known = StatusCode::from_u16(status).unwrap();
        let server = Server::new([ok(status), ok(200)]);
        let extended = policy().status(known, Verdict::UNKNOWN);
        run(extended, request(Method::GET), 60 * SECOND, &server)
            .await
            .0
            .unwrap();
        assert_eq!(server.calls(), 2, "{status} by opt-in");
    }
}

#[tokio::test(start_paused = true)]
async fn case_051_too_early_is_retried_once() {
    assert_eq!(calls(Method::POST, vec![ok(425), ok(200)]).await, 2);
    assert_eq!(
        calls(Method::POST, vec![ok(425), ok(425), ok(200)]).await,
        2
    );
    assert_eq!(calls(Method::POST, vec![ok(421), ok(200)]).await, 2);
    assert_eq!(
        calls(Method::POST, vec![ok(429), ok(425), ok(200)]).await,
        3
    );
}

#[tokio::test(start_paused = true)]
async fn case_052_client_errors_are_not_retried() {
    for status in [400, 401, 403, 404, 405, 409, 410, 422] {
        let server = Server::new([ok(status), ok(200)]);
        run(policy(), request(Method::GET), 60 * SECOND, &server)
            .await
            .0
            .unwrap();
        assert_eq!(
            (server.calls(), server.age()),
            (1, Duration::ZERO),
            "{status}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn case_054_a_gateway_timeout_is_ambiguous() {
    let steps = || vec![ok(504), ok(200)];
    assert_eq!(calls(Method::GET, steps()).await, 2);
    assert_eq!(calls(Method::POST, steps()).await, 1);
}

#[test]
fn errors_are_found_by_type_at_any_depth() {
    let wrapped = |error: io::Error| -> BoxError {
        io::Error::other(BoxError::from(io::Error::other(error))).into()
    };
    let refused = wrapped(io::ErrorKind::ConnectionRefused.into());
    assert_eq!(classify(&policy(), Err(&refused)), Verdict::REFUSED);
    let reset = wrapped(io::ErrorKind::ConnectionReset.into());
    assert_eq!(classify(&policy(), Err(&reset)), Verdict::UNKNOWN);
}

struct Unboxed {
    source: io::Error,
}

#[test]
fn an_error_of_ones_own_is_seen_where_it_is_registered() {
    let error = Unboxed {
        source: io::ErrorKind::ConnectionRefused.into(),
    };
    let see = |policy: &HttpPolicy| {
        let policy: &dyn Policy<Request<()>, Response<()>, Unboxed> = policy;
        policy.classify(&Attempt::first(Effect::Read), Err(&error))
    };
    assert_eq!(see(&policy()), Verdict::UNKNOWN);
    let registered = policy().see::<Unboxed>(|error| Some(&error.source));
    assert_eq!(see(&registered), Verdict::REFUSED);
}

// E. Replaying the request.

#[tokio::test(start_paused = true)]
async fn case_055_and_060_a_replay_is_the_same_in_everything() {
    #[derive(Debug, Clone, PartialEq)]
    struct Ctx(u32);
    let server = Server::new([ok(503), ok(200)]);
    let mut put = request(Method::PUT);
    *put.version_mut() = Version::HTTP_2;
    put.headers_mut()
        .insert("content-length", "5".parse().unwrap());
    put.extensions_mut().insert(Ctx(7));
    run(policy(), put, 60 * SECOND, &server).await.0.unwrap();
    let seen = server.seen();
    assert_eq!(seen.len(), 2);
    for seen in seen {
        let request = seen.request;
        assert_eq!(
            (request.method(), request.version()),
            (&Method::PUT, Version::HTTP_2)
        );
        assert_eq!(
            request.headers().get_all("content-length").iter().count(),
            1
        );
        assert_eq!(request.extensions().get::<Ctx>(), Some(&Ctx(7)));
        assert_eq!(request.body(), "hello");
    }
}

/// A body that can be read once, so it cannot be cloned.
struct OneShot(Vec<u8>);

#[tokio::test(start_paused = true)]
async fn case_056_a_body_that_cannot_be_replayed_is_sent_once() {
    let sent = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&sent);
    let layer = RetryLayer::builder(policy())
        .replay(replay_fn(|_: &Request<OneShot>| None))
        .build()
        .unwrap();
    let service = layer.layer(tower::service_fn(move |request: Request<OneShot>| {
        log.lock().unwrap().push(request.into_body().0);
        async { Ok::<_, BoxError>(answer(503, &[("x-reason", b"db")])) }
    }));
    let put = Request::put("/").body(OneShot(b"three chunks".to_vec()));
    let (outcome, report) = CallReport::of(service.oneshot(put.unwrap())).await;
    let response = outcome.unwrap();
    assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(response.headers()["x-reason"], "db");
    assert_eq!(*sent.lock().unwrap(), [b"three chunks"]);
    let stop = report.unwrap().stop_reason();
    assert_eq!(stop.map(StopReason::as_str), Some("not_replayable"));
}

#[tokio::test(start_paused = true)]
async fn case_063_nothing_is_repeated_after_the_head() {
    let calls = Arc::new(AtomicU32::new(0));
    let count = Arc::clone(&calls);
    let layer = RetryLayer::new(policy());
    let service = layer.layer(tower::service_fn(move |_: Request<()>| {
        count.fetch_add(1, Ordering::Relaxed);
        let cut = async { Some(Err(io::Error::from(io::ErrorKind::ConnectionReset))) };
        let body = Full::new(Bytes::from_static(b"A")).map_err(|never| match never {});
        async { Ok::<_, io::Error>(Response::new(Box::pin(body.with_trailers(cut)))) }
    }));
    let (outcome, report) = CallReport::of(service.oneshot(Request::new(()))).await;
    let mut body = outcome.unwrap().into_body();
    let first = body.frame().await.unwrap().unwrap();
    assert_eq!(first.into_data().unwrap(), "A");
    let error = body.frame().await.unwrap().unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
    tokio::time::sleep(60 * SECOND).await;
    assert_eq!(calls.load(Ordering::Relaxed), 1);
    assert_eq!(report.unwrap().attempts(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_report_is_in_the_response_where_there_is_something_to_say() {
    let report = async |steps: Vec<_>| {
        let server = Server::new(steps);
        let (outcome, _) = run(policy(), request(Method::GET), 60 * SECOND, &server).await;
        outcome.unwrap().extensions().get::<CallReport>().copied()
    };
    assert_eq!(report(vec![ok(200)]).await, None);
    assert_eq!(report(vec![ok(503), ok(200)]).await.unwrap().attempts(), 2);
    let stopped = report(vec![ok(404)]).await.unwrap();
    assert_eq!(
        (stopped.attempts(), stopped.verdict()),
        (1, Verdict::Rejected)
    );
}
