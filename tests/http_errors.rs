//! What the errors of HTTP clients mean, by their types.
#![cfg(all(not(loom), feature = "http"))]

mod support;

use std::error::Error;
use std::fmt;
use std::io;

use http::{Method, Request, Response};
use proptest::prelude::*;
use support::Step;
use support::http_policy::{SECOND, Server, calls, classify, ok, policy, request, run};
use tower::{BoxError, ServiceBuilder, ServiceExt};
use tower_composure::{Attempt, Effect, HttpPolicy, Policy, Verdict};

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

/// An error with another one below it.
#[derive(Debug)]
struct Outer(BoxError);

impl fmt::Display for Outer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("x")
    }
}

impl Error for Outer {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&*self.0)
    }
}

#[tokio::test(start_paused = true)]
async fn a_timeout_is_unknown_whoever_made_it() {
    let hangs = tower::service_fn(|()| std::future::pending::<io::Result<()>>());
    let tower = ServiceBuilder::new().timeout(SECOND).service(hangs);
    let error = tower.oneshot(()).await.unwrap_err();
    assert!(error.is::<tower::timeout::error::Elapsed>());
    assert_eq!(classify(&policy(), Err(&error)), Verdict::UNKNOWN);
    let pending = std::future::pending::<()>();
    let error = tokio::time::timeout(SECOND, pending).await.unwrap_err();
    let error: BoxError = Outer(error.into()).into();
    assert_eq!(classify(&policy(), Err(&error)), Verdict::UNKNOWN);
}

#[test]
fn a_target_that_is_no_uri_is_rejected() {
    let error = Request::get("http://[/").body(()).unwrap_err();
    let bare: &dyn Policy<Request<()>, Response<()>, http::Error> = &policy();
    let attempt = Attempt::first(Effect::Read);
    assert_eq!(bare.classify(&attempt, Err(&error)), Verdict::Rejected);
    let boxed: BoxError = Outer(error.into()).into();
    assert_eq!(classify(&policy(), Err(&boxed)), Verdict::Rejected);
    let invalid: BoxError = "http://[/".parse::<http::Uri>().unwrap_err().into();
    assert_eq!(classify(&policy(), Err(&invalid)), Verdict::Rejected);
}

#[test]
fn a_type_can_be_taught_at_any_depth_and_by_itself() {
    let taught = policy().recognise(|error: &Worded| match &*error.0 {
        "certificate" => Some(Verdict::Fault),
        _ => None,
    });
    let error = |words: &str| -> BoxError {
        Outer(io::Error::other(Worded(words.to_owned())).into()).into()
    };
    assert_eq!(
        classify(&taught, Err(&error("certificate"))),
        Verdict::Fault
    );
    assert_eq!(classify(&taught, Err(&error("other"))), Verdict::UNKNOWN);
    assert_eq!(
        classify(&policy(), Err(&error("certificate"))),
        Verdict::UNKNOWN
    );

    let bare = |policy: &HttpPolicy| {
        let policy: &dyn Policy<Request<()>, Response<()>, Worded> = policy;
        let error = Worded("certificate".to_owned());
        policy.classify(&Attempt::first(Effect::Read), Err(&error))
    };
    assert_eq!(bare(&taught), Verdict::Fault);
    assert_eq!(bare(&policy()), Verdict::UNKNOWN);

    // What is taught comes before what is known.
    let refused = io::Error::from(io::ErrorKind::ConnectionRefused);
    let cautious = policy().recognise(|_: &Outer| Some(Verdict::UNKNOWN));
    let error: BoxError = Outer(refused.into()).into();
    assert_eq!(classify(&policy(), Err(&error)), Verdict::REFUSED);
    assert_eq!(classify(&cautious, Err(&error)), Verdict::UNKNOWN);
}

#[test]
fn a_chain_without_an_end_has_one() {
    #[derive(Debug)]
    struct Loop;
    impl fmt::Display for Loop {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("x")
        }
    }
    impl Error for Loop {
        fn source(&self) -> Option<&(dyn Error + 'static)> {
            Some(&Loop)
        }
    }
    let error: BoxError = Loop.into();
    assert_eq!(classify(&policy(), Err(&error)), Verdict::UNKNOWN);
}
