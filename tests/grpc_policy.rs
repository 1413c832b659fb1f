//! What the gRPC policy says: of codes, pushback, answers that are not gRPC, and bodies that are trailers only.
#![cfg(all(not(loom), feature = "grpc"))]
#![expect(clippy::unwrap_used, reason = "a test may")]

mod support;

use std::io;
use std::time::Duration;

use http::{Request, Response};
use proptest::prelude::*;
use static_assertions::assert_impl_all;
use support::{Script, Step};
use tower::{BoxError, Layer, ServiceExt};
use tower_composure::grpc::Code;
use tower_composure::{
    Attempt, Backoff, CallReport, Effect, GrpcPolicy, Hint, Jitter, Policy, RetryLayer, StopReason,
    Verdict,
};

const MS: Duration = Duration::from_millis(1);

assert_impl_all!(GrpcPolicy: Send, Sync, Unpin, Clone);

/// A status, and the fields of the headers.
type Fields<'a> = &'a [(&'a str, &'a str)];

fn answer(status: u16, fields: Fields<'_>) -> Response<()> {
    let mut response = Response::builder().status(status);
    for (name, value) in fields {
        response = response.header(*name, *value);
    }
    response.body(()).unwrap()
}

fn classify(policy: &GrpcPolicy, outcome: Result<&Response<()>, &BoxError>) -> Verdict {
    let policy: &dyn Policy<Request<()>, Response<()>, BoxError> = policy;
    policy.classify(&Attempt::first(Effect::Read), outcome)
}

fn of(status: u16, fields: Fields<'_>) -> Verdict {
    classify(&GrpcPolicy::new(), Ok(&answer(status, fields)))
}

const CODES: [(u64, Code, Verdict); 17] = [
    (0, Code::Ok, Verdict::Success),
    (1, Code::Cancelled, Verdict::UNKNOWN),
    (2, Code::Unknown, Verdict::Fault),
    (3, Code::InvalidArgument, Verdict::Rejected),
    (4, Code::DeadlineExceeded, Verdict::UNKNOWN),
    (5, Code::NotFound, Verdict::Rejected),
    (6, Code::AlreadyExists, Verdict::Rejected),
    (7, Code::PermissionDenied, Verdict::Rejected),
    (8, Code::ResourceExhausted, Verdict::THROTTLED),
    (9, Code::FailedPrecondition, Verdict::Rejected),
    (10, Code::Aborted, Verdict::UNKNOWN),
    (11, Code::OutOfRange, Verdict::Rejected),
    (12, Code::Unimplemented, Verdict::Rejected),
    (13, Code::Internal, Verdict::Fault),
    (14, Code::Unavailable, Verdict::UNKNOWN),
    (15, Code::DataLoss, Verdict::Fault),
    (16, Code::Unauthenticated, Verdict::Rejected),
];

#[test]
fn each_code_has_its_verdict() {
    for (number, code, verdict) in CODES {
        assert_eq!(Code::from_number(number), code);
        assert_eq!(u64::from(code.number()), number);
        assert_eq!(
            of(200, &[("grpc-status", &number.to_string())]),
            verdict,
            "{code:?}"
        );
    }
    for unheard_of in ["17", "99999999999999999999999", "-1", "", "OK", "1x"] {
        assert_eq!(
            of(200, &[("grpc-status", unheard_of)]),
            Verdict::Fault,
            "{unheard_of:?}"
        );
    }
    // Headers without a status: it comes in the trailers, after what the caller reads.
    assert_eq!(of(200, &[]), Verdict::Success);
}

#[test]
fn a_code_means_what_the_servers_author_says() {
    let policy = GrpcPolicy::new()
        .code(Code::Unavailable, Verdict::REFUSED)
        .code(Code::Unknown, Verdict::Rejected);
    let of = |status, fields| classify(&policy, Ok(&answer(status, fields)));
    assert_eq!(of(200, &[("grpc-status", "14")]), Verdict::REFUSED);
    assert_eq!(of(200, &[("grpc-status", "77")]), Verdict::Rejected);
    let pushed = of(
        200,
        &[("grpc-status", "14"), ("grpc-retry-pushback-ms", "5")],
    );
    assert_eq!(
        pushed,
        Verdict::REFUSED.with_hint(Some(Hint::exactly(5 * MS)))
    );
    // What answers in HTTP is not that server.
    assert_eq!(of(503, &[]), Verdict::UNKNOWN);
    assert_eq!(of(500, &[]), Verdict::Fault);
}

#[test]
fn an_answer_in_http_has_the_code_that_the_mapping_gives_it() {
    for (status, code) in [
        (400, Code::Internal),
        (401, Code::Unauthenticated),
        (403, Code::PermissionDenied),
        (404, Code::Unimplemented),
        (429, Code::Unavailable),
        (502, Code::Unavailable),
        (503, Code::Unavailable),
        (504, Code::Unavailable),
        (201, Code::Unknown),
        (302, Code::Unknown),
        (408, Code::Unknown),
        (500, Code::Unknown),
    ] {
        let (_, _, expected) = CODES[usize::from(code.number())];
        assert_eq!(of(status, &[]), expected, "{status}");
    }
    // A status in the headers is the status, whatever HTTP says.
    assert_eq!(of(503, &[("grpc-status", "3")]), Verdict::Rejected);
    // A proxy asks for a wait in the way of HTTP.
    for status in [429, 502, 503, 504] {
        let told = of(status, &[("retry-after", "7")]);
        assert_eq!(told.hint(), Some(Hint::after(7000 * MS)), "{status}");
    }
    assert_eq!(of(500, &[("retry-after", "7")]), Verdict::Fault);
}

fn pushed(values: &[&str]) -> Option<Hint> {
    let mut fields = vec![("grpc-status", "14")];
    fields.extend(
        values
            .iter()
            .map(|value| ("grpc-retry-pushback-ms", *value)),
    );
    of(200, &fields).hint()
}

#[test]
fn pushback_is_taken_exactly_or_is_a_no() {
    for (text, millis) in [
        ("0", 0),
        ("1", 1),
        ("1500", 1500),
        ("2147483647", 2_147_483_647),
    ] {
        let hint = pushed(&[text]);
        assert_eq!(
            hint,
            Some(Hint::exactly(Duration::from_millis(millis))),
            "{text}"
        );
    }
    for no in [
        "-1",
        "-0",
        "-2147483648",
        "2147483648",
        "99999999999999999999",
        "",
        " ",
        "+5",
        "05",
        "00",
        "1.5",
        "1s",
        "soon",
        "5 6",
        "٥",
    ] {
        assert_eq!(pushed(&[no]), Some(Hint::never()), "{no:?}");
    }
    assert_eq!(pushed(&[]), None);
    assert_eq!(pushed(&["10", "30", "20"]), Some(Hint::exactly(30 * MS)));
    assert_eq!(pushed(&["10", "-1"]), Some(Hint::never()));
    // It does not make a code retryable.
    for code in ["0", "3", "13"] {
        let verdict = of(
            200,
            &[("grpc-status", code), ("grpc-retry-pushback-ms", "5")],
        );
        assert!(!verdict.is_retryable(), "{code}");
    }
}

type Server = Script<Request<()>, Response<()>, &'static str>;

async fn run(
    policy: GrpcPolicy,
    server: &Server,
) -> (Result<Response<()>, &'static str>, CallReport) {
    let layer = RetryLayer::builder(policy)
        .backoff(Backoff::constant(100 * MS).jitter(Jitter::None))
        .max_attempts(3)
        .build()
        .unwrap();
    let request = Request::post("/payments.Payments/Look").body(()).unwrap();
    let (outcome, report) = CallReport::of(layer.layer(server.clone()).oneshot(request)).await;
    (outcome, report.unwrap())
}

fn unavailable(pushback: &str) -> Step<Response<()>, &'static str> {
    Step::Ok(answer(
        200,
        &[("grpc-status", "14"), ("grpc-retry-pushback-ms", pushback)],
    ))
}

#[tokio::test(start_paused = true)]
async fn a_retry_comes_exactly_when_it_was_told_to() {
    let read = || GrpcPolicy::new().effect_fn(|_| Effect::Read);
    let ok = || Step::Ok(answer(200, &[("grpc-status", "0")]));
    let server = Server::new([unavailable("7"), unavailable("1234"), ok()]);
    let (outcome, report) = run(read(), &server).await;
    assert_eq!(outcome.unwrap().headers()["grpc-status"], "0");
    assert_eq!((server.times(), report.attempts()), (vec![0, 7, 1241], 3));

    for no in ["-1", "soon", "2147483648"] {
        let server = Server::new([unavailable(no), ok()]);
        let (outcome, report) = run(read(), &server).await;
        assert_eq!(outcome.unwrap().headers()["grpc-status"], "14");
        assert_eq!(server.calls(), 1);
        assert_eq!(report.stop_reason(), Some(StopReason::HintExceedsLimit));
    }
}

#[tokio::test(start_paused = true)]
async fn an_unmarked_call_is_a_write() {
    let server = Server::new([unavailable("7"), unavailable("7")]);
    let (_, report) = run(GrpcPolicy::new(), &server).await;
    assert_eq!(server.calls(), 1);
    assert_eq!(report.stop_reason(), Some(StopReason::OutcomeUnknown));
    assert!(report.outcome_unknown());

    let refused = GrpcPolicy::new().code(Code::Unavailable, Verdict::REFUSED);
    let server = Server::new([unavailable("7")]);
    let (_, report) = run(refused, &server).await;
    assert_eq!((server.calls(), report.outcome_unknown()), (3, false));
}

#[test]
fn an_effect_is_found_on_the_request_then_by_its_path_then_by_its_key() {
    let effect = |policy: &GrpcPolicy, request: &Request<()>| {
        let policy: &dyn Policy<Request<()>, Response<()>, BoxError> = policy;
        (policy.effect(request), policy.keyed(request))
    };
    let by_path = GrpcPolicy::new().effect_fn(|path| match path {
        "/payments.Payments/Look" => Effect::Read,
        _ => Effect::Write,
    });
    let look = || {
        Request::post("http://pay:50051/payments.Payments/Look")
            .body(())
            .unwrap()
    };
    let charge = || Request::post("/payments.Payments/Charge").body(()).unwrap();
    assert_eq!(effect(&by_path, &look()), (Effect::Read, false));
    assert_eq!(effect(&by_path, &charge()), (Effect::Write, false));
    assert_eq!(effect(&GrpcPolicy::new(), &look()), (Effect::Write, false));

    let mut marked = look();
    marked.extensions_mut().insert(Effect::IdempotentWrite);
    assert_eq!(effect(&by_path, &marked), (Effect::IdempotentWrite, false));

    let mut keyed = charge();
    keyed
        .headers_mut()
        .insert("idempotency-key", "k".parse().unwrap());
    assert_eq!(effect(&by_path, &keyed), (Effect::Write, true));
    let honours = by_path.clone().server_honours_keys(true);
    assert_eq!(effect(&honours, &keyed), (Effect::IdempotentWrite, true));
    assert_eq!(effect(&honours, &charge()), (Effect::Write, false));
    let elsewhere = honours.key_header("x-key".parse().unwrap());
    assert_eq!(effect(&elsewhere, &keyed), (Effect::Write, false));
}

/// An error that is not boxed.
struct Own(io::Error);

#[test]
fn an_error_means_what_it_means_to_http() {
    let refused = BoxError::from(io::Error::from(io::ErrorKind::ConnectionRefused));
    assert_eq!(
        classify(&GrpcPolicy::new(), Err(&refused)),
        Verdict::REFUSED
    );
    let other = BoxError::from("no connection, transport error, unavailable");
    assert_eq!(classify(&GrpcPolicy::new(), Err(&other)), Verdict::UNKNOWN);

    let own = Own(io::Error::from(io::ErrorKind::ConnectionRefused));
    let classify = |policy: GrpcPolicy| {
        let policy: &dyn Policy<Request<()>, Response<()>, Own> = &policy;
        policy.classify(&Attempt::first(Effect::Write), Err(&own))
    };
    assert_eq!(classify(GrpcPolicy::new()), Verdict::UNKNOWN);
    assert_eq!(
        classify(GrpcPolicy::new().see::<Own>(|own| Some(&own.0))),
        Verdict::REFUSED
    );
}

proptest! {
    #[test]
    fn whatever_a_server_sends_is_no_panic_and_no_shorter_wait(
        status in proptest::collection::vec(any::<u8>(), 0..12),
        pushback in prop_oneof![
            proptest::collection::vec(any::<u8>(), 0..12),
            "[ +-]?[0-9]{0,12}[a-z]?".prop_map(String::into_bytes),
        ],
    ) {
        let mut response = answer(200, &[("grpc-status", "14")]);
        let value = |bytes: &[u8]| http::HeaderValue::from_bytes(bytes).ok();
        let Some(pushback) = value(&pushback) else { return Ok(()) };
        let asked = pushback.to_str().ok().and_then(|text| text.parse::<i32>().ok());
        response.headers_mut().insert("grpc-retry-pushback-ms", pushback);
        let hint = classify(&GrpcPolicy::new(), Ok(&response)).hint().unwrap();
        let least = asked.map_or(Duration::MAX, |millis| {
            u64::try_from(millis).map_or(Duration::MAX, Duration::from_millis)
        });
        prop_assert!(hint.wait() >= least);
        if let Some(status) = value(&status) {
            response.headers_mut().insert("grpc-status", status);
            classify(&GrpcPolicy::new(), Ok(&response));
        }
    }
}
