//! What no header and no body can do to the HTTP policy: make it panic, or make it wait for less than it was asked.
#![cfg(all(not(loom), feature = "http"))]
#![expect(clippy::unwrap_used, reason = "a test may")]

mod support;

use std::time::{Duration, SystemTime};

use http::{HeaderName, HeaderValue, Request, Response};
use proptest::prelude::*;
use support::http_policy::{hint, hint_of, policy};
use support::paused;
use tower::{BoxError, Layer, ServiceExt};
use tower_composure::http::Dialect;
use tower_composure::{
    Attempt, Effect, Hint, HttpPolicy, IdempotencyKey, IdempotencyKeyLayer, KeyFormat, Policy,
    Verdict,
};

const RESET: HeaderName = HeaderName::from_static("x-reset");

/// 2026-01-01T00:00:00Z, in seconds.
const W0: u64 = 1_767_225_600;

/// Everything that this room reads.
const NAMES: [&str; 8] = [
    "retry-after",
    "retry-after-ms",
    "ratelimit",
    "x-reset",
    "date",
    "age",
    "x-should-retry",
    "stripe-should-retry",
];

fn dialects() -> Vec<Dialect> {
    vec![
        Dialect::RateLimit,
        Dialect::DeltaSeconds(RESET),
        Dialect::DeltaMillis(RESET),
        Dialect::EpochSeconds(RESET),
        Dialect::EpochMillis(RESET),
    ]
}

fn classify(policy: &HttpPolicy, status: u16, headers: &[(usize, Vec<u8>)]) -> Verdict {
    let mut response = Response::new(());
    *response.status_mut() = status.try_into().unwrap();
    for (name, value) in headers {
        if let Ok(value) = HeaderValue::from_bytes(value) {
            response.headers_mut().append(NAMES[*name], value);
        }
    }
    let policy: &dyn Policy<Request<()>, Response<()>, BoxError> = policy;
    policy.classify(&Attempt::first(Effect::Read).with_key(true), Ok(&response))
}

/// The hint of a 429 with this value in a dialect.
fn reset(dialect: Dialect, value: &str) -> Option<Duration> {
    let policy = policy().dialect(dialect);
    classify(&policy, 429, &[(3, value.into())])
        .hint()
        .map(Hint::wait)
}

/// Bytes of any kind, and those that the grammars are made of more often.
fn any_value() -> impl Strategy<Value = Vec<u8>> {
    let alphabet: Vec<u8> = b"019-+.,;:=\"\\?@% \tabrtTGM".to_vec();
    prop_oneof![
        prop::collection::vec(any::<u8>(), 0..64),
        prop::collection::vec(prop::sample::select(alphabet), 0..48),
        rate_limit().prop_map(String::into_bytes),
        date_like().prop_map(String::into_bytes),
        "(true|false|[0-9]{1,25}|[0-9]{1,4}\\.[0-9]{1,12})".prop_map(String::into_bytes),
    ]
}

fn any_headers() -> impl Strategy<Value = Vec<(usize, Vec<u8>)>> {
    prop::collection::vec((0..NAMES.len(), any_value()), 0..6)
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

fn rate_limit() -> impl Strategy<Value = String> {
    let member = "\"[a-z\\\\\"]{0,4}\"(; ?[rt](=[0-9\"?:@%.-]{0,18})?){0,4}";
    proptest::string::string_regex(&format!("{member}( ?, ?{member}){{0,2}},?")).unwrap()
}

/// What digits with at most 12 in their fraction mean, in nanoseconds, where a number holds that.
fn meaning(whole: &str, fraction: &str, nanos: u128) -> Option<u128> {
    let fraction: u128 = format!("{fraction:0<12}").parse().unwrap();
    let part = (fraction * nanos).div_ceil(10_u128.pow(12));
    whole
        .parse::<u128>()
        .ok()?
        .checked_mul(nanos)?
        .checked_add(part)
}

/// Whether a wait is no shorter than it should be, or longer than a life.
fn is_long_enough(wait: Duration, meant: Option<u128>) -> bool {
    let very_long = wait >= Duration::from_secs(1 << 53);
    very_long || meant.is_some_and(|meant| wait.as_nanos() >= meant)
}

proptest! {
    #[test]
    fn no_header_is_a_panic(
        headers in any_headers(),
        status in 100..600_u16,
        now in prop_oneof![Just(W0), any::<u64>()],
    ) {
        let mut policy = policy()
            .conflict_means_in_progress(true)
            .wall_clock(move || {
                let since = Duration::from_secs(now);
                SystemTime::UNIX_EPOCH.checked_add(since).unwrap_or(SystemTime::UNIX_EPOCH)
            });
        for dialect in dialects() {
            policy = policy.dialect(dialect);
        }
        let verdict = classify(&policy, status, &headers);
        prop_assert!((100..400).contains(&status) == verdict.is_success());
        // A header says when, and whether. It never makes a failure one that had no effect, but for a status that says so.
        if !matches!(status, 409 | 413 | 421 | 425 | 429) {
            let harmless = matches!(verdict, Verdict::Throttled { .. } | Verdict::Refused { .. });
            prop_assert!(!harmless, "{status}: {verdict:?}");
        }
    }

    #[test]
    fn nothing_like_a_date_is_a_panic(value in date_like(), date in date_like()) {
        let headers = [("date", date.as_bytes()), ("retry-after", value.as_bytes())];
        let _ = hint_of(&policy(), &headers);
    }

    #[test]
    fn a_number_is_never_shortened(whole in "[0-9]{1,30}", fraction in "[0-9]{0,12}") {
        let value = if fraction.is_empty() { whole.clone() } else { format!("{whole}.{fraction}") };
        let seconds = meaning(&whole, &fraction, 1_000_000_000);
        let millis = meaning(&whole, &fraction, 1_000_000);
        prop_assert!(is_long_enough(hint(&value).unwrap(), seconds), "Retry-After");
        let wait = hint_of(&policy(), &[("retry-after-ms", value.as_bytes())]).unwrap();
        prop_assert!(is_long_enough(wait, millis), "retry-after-ms");
        for (dialect, meant, past) in [
            (Dialect::DeltaSeconds(RESET), seconds, 0),
            (Dialect::DeltaMillis(RESET), millis, 0),
            (Dialect::EpochSeconds(RESET), seconds, u128::from(W0) * 1_000_000_000),
            (Dialect::EpochMillis(RESET), millis, u128::from(W0) * 1_000_000_000),
        ] {
            let wait = reset(dialect.clone(), &value).unwrap();
            let meant = meant.map(|meant| meant.saturating_sub(past));
            prop_assert!(is_long_enough(wait, meant), "{dialect:?}: {wait:?}");
        }
    }

    #[test]
    fn a_number_in_range_is_taken_as_it_is(seconds in any::<u64>(), fraction in "[0-9]{1,12}") {
        prop_assert_eq!(hint(&seconds.to_string()), Some(Duration::from_secs(seconds)));
        let wait = hint(&format!("{seconds}.{fraction}")).unwrap();
        prop_assert!(wait <= Duration::from_secs(seconds).saturating_add(Duration::from_secs(1)));
    }

    #[test]
    fn a_quota_that_is_used_up_is_waited_for(times in prop::collection::vec(0..10_u64.pow(15), 1..4), left in 0..3_u64) {
        let members = times.iter().map(|time| format!("\"p\";r={left};t={time}"));
        let field = members.collect::<Vec<_>>().join(", ");
        let policy = policy().dialect(Dialect::RateLimit);
        let longest = times.iter().max().copied().filter(|_| left == 0);
        prop_assert_eq!(
            hint_of(&policy, &[("ratelimit", field.as_bytes())]),
            longest.map(Duration::from_secs)
        );
    }

    #[test]
    fn a_malformed_rate_limit_is_none(field in rate_limit(), junk in "[^\t -~]|[(){}]|,") {
        let policy = policy().dialect(Dialect::RateLimit);
        let field = format!("{field}{junk}");
        if HeaderValue::from_bytes(field.as_bytes()).is_ok() {
            prop_assert_eq!(hint_of(&policy, &[("ratelimit", field.as_bytes())]), None);
        }
    }

    #[test]
    fn a_structured_key_is_a_string_that_reads_as_the_key(text in "[ -~]{1,40}|.{0,20}") {
        let valid = !text.is_empty() && text.bytes().all(|byte| (0x20..=0x7e).contains(&byte));
        let key = IdempotencyKey::new(&text);
        prop_assert_eq!(key.is_ok(), valid);
        if let Ok(key) = key {
            let written = written(&key);
            // Nothing but a string begins a member.
            let field = [written.as_bytes(), b";r=0;t=7"].concat();
            let policy = policy().dialect(Dialect::RateLimit);
            let read = hint_of(&policy, &[("ratelimit", &field)]);
            prop_assert_eq!(read, Some(Duration::from_secs(7)));
            let inside = &written[1..written.len() - 1];
            let quoted = inside.replace("\\\\", "\0").replace("\\\"", "\"").replace('\0', "\\");
            prop_assert_eq!(quoted, key.as_str());
        }
    }
}

/// The key as a layer writes it into the structured form.
fn written(key: &IdempotencyKey) -> String {
    let key = key.clone();
    let layer = IdempotencyKeyLayer::new()
        .format(KeyFormat::Structured)
        .key_fn(move |_: &Request<()>| key.clone());
    let service = layer.layer(tower::service_fn(async |request: Request<()>| {
        let value = request.headers()["idempotency-key"].clone();
        Ok::<_, BoxError>(value.to_str()?.to_owned())
    }));
    let request = Request::post("/").body(()).unwrap();
    paused(async || service.oneshot(request).await).unwrap()
}
