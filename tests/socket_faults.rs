//! Real faults on real sockets: what the caller gets, what the report says, and what the server was asked to do.
#![cfg(all(not(loom), feature = "http"))]

#[path = "support/clients.rs"]
mod clients;
#[path = "support/proxy.rs"]
mod proxy;
#[path = "support/server.rs"]
mod server;

use clients::{Ask, Client, Kind, Outcome};
use http::{Method, Version};
use proxy::{Fault, Proxy};
use server::{BODY, Server};
use tower_composure::stack::StackBuilder;
use tower_composure::{Backoff, DeadlineExceeded, HttpPolicy, Stack, StopReason, Verdict};

const KEY: &str = "order-7";

/// A read, an idempotent write, a write, and a write with a key.
const ASKS: [(Method, Option<&str>); 4] = [
    (Method::GET, None),
    (Method::PUT, None),
    (Method::POST, None),
    (Method::POST, Some(KEY)),
];

/// What became of a call, in the same words for all clients.
#[derive(Debug, PartialEq, Eq)]
struct Told {
    /// None is an error.
    status: Option<u16>,
    attempts: u32,
    verdict: &'static str,
    stop: Option<StopReason>,
    outcome_unknown: bool,
    /// The requests that the server carried out.
    at_server: usize,
}

/// Two attempts without a wait in between, and the deadlines of the preset.
fn stack() -> StackBuilder<HttpPolicy> {
    let policy = HttpPolicy::new().server_honours_keys(true);
    #[cfg(feature = "reqwest")]
    let policy = policy.redirects_keep_method(true);
    Stack::builder(policy)
        .max_attempts(2)
        .backoff(Backoff::none())
}

/// Sends each of the requests, with each of the clients, through a proxy whose first connection has this fault.
async fn through(fault: Fault, kinds: &[Kind], expect: impl Fn(Kind, &Ask) -> Told) {
    for &kind in kinds {
        for (method, key) in ASKS {
            let server = Server::start().await;
            let mut proxy = Proxy::start(&server, [fault]).await;
            let ask = Ask {
                key,
                body: if method == Method::GET { "" } else { "7 EUR" },
                ..Ask::new(method, format!("http://{}/", proxy.address))
            };
            let client = Client::new(kind, stack());
            let outcome = proxy.drive(client.send(ask.clone())).await;
            let what = format!("{fault:?} {kind:?} {ask:?}: {:?}", outcome.head);
            assert_eq!(told(&outcome, &server), expect(kind, &ask), "{what}");
            for seen in server.seen() {
                let version = match kind {
                    Kind::Http2 => Version::HTTP_2,
                    _ => Version::HTTP_11,
                };
                assert_eq!(seen.version, version, "{what}");
                assert_eq!(seen.method, ask.method, "{what}");
                assert_eq!(seen.key(), ask.key, "{what}");
                assert_eq!(seen.body, ask.body, "{what}");
            }
            if fault == Fault::HalfBody {
                assert_eq!(outcome.body, None, "{what}");
            } else if outcome.status().is_some() {
                assert_eq!(outcome.body.as_deref(), Some(BODY), "{what}");
            }
        }
    }
}

fn told(outcome: &Outcome, server: &Server) -> Told {
    let report = outcome.report;
    Told {
        status: outcome.status(),
        attempts: report.attempts(),
        verdict: report.verdict().as_str(),
        stop: report.stop_reason(),
        outcome_unknown: report.outcome_unknown(),
        at_server: server.seen().len(),
    }
}

/// After a failure that may have had its effect: all but a write without a key are sent again, and succeed.
fn repeated_where_safe(ask: &Ask, carried_out_first: bool) -> Told {
    let first = usize::from(carried_out_first);
    if ask.method == Method::POST && ask.key.is_none() {
        Told {
            status: None,
            attempts: 1,
            verdict: "unknown",
            stop: Some(StopReason::OutcomeUnknown),
            outcome_unknown: true,
            at_server: first,
        }
    } else {
        Told {
            status: Some(200),
            attempts: 2,
            verdict: "success",
            stop: None,
            outcome_unknown: false,
            at_server: first + 1,
        }
    }
}

#[tokio::test]
async fn nothing_between_them() {
    through(Fault::None, Kind::ALL, |_, _| Told {
        status: Some(200),
        attempts: 1,
        verdict: "success",
        stop: None,
        outcome_unknown: false,
        at_server: 1,
    })
    .await;
}

#[tokio::test]
async fn case_039_a_refused_connection_is_safe_for_any_method() {
    for &kind in Kind::ALL {
        for (method, key) in ASKS {
            let (address, _held) = proxy::refusing();
            let ask = Ask {
                key,
                ..Ask::new(method, format!("http://{address}/"))
            };
            let outcome = Client::new(kind, stack()).send(ask.clone()).await;
            let what = format!("{kind:?} {ask:?}: {:?}", outcome.head);
            assert_eq!(outcome.status(), None, "{what}");
            assert_eq!(outcome.report.attempts(), 2, "{what}");
            assert_eq!(outcome.report.verdict(), Verdict::REFUSED, "{what}");
            let stop = outcome.report.stop_reason();
            assert_eq!(stop, Some(StopReason::Attempts), "{what}");
            assert!(!outcome.report.outcome_unknown(), "{what}");
        }
    }
}

#[tokio::test]
async fn case_039_a_reset_before_the_server_has_read_proves_nothing() {
    through(Fault::ResetUnread, Kind::ALL, |_, ask| {
        repeated_where_safe(ask, false)
    })
    .await;
}

#[tokio::test]
async fn case_046_a_reset_after_the_request_was_carried_out() {
    through(Fault::ResetCarriedOut, Kind::ALL, |_, ask| {
        repeated_where_safe(ask, true)
    })
    .await;
}

#[tokio::test]
async fn half_a_head_is_no_answer() {
    let kinds: Vec<Kind> = Kind::ALL
        .iter()
        .copied()
        .filter(|kind| *kind != Kind::Http2)
        .collect();
    through(Fault::HalfHead, &kinds, |_, ask| {
        repeated_where_safe(ask, true)
    })
    .await;
}

#[tokio::test]
async fn case_063_half_a_body_is_the_caller_s() {
    through(Fault::HalfBody, Kind::ALL, |_, _| Told {
        status: Some(200),
        attempts: 1,
        verdict: "success",
        stop: None,
        outcome_unknown: false,
        at_server: 1,
    })
    .await;
}

/// HTTP/1.1 gives up the connection with the attempt. HTTP/2 gives up a stream, and sends the next one over the same
/// connection, where it fares no better. So many of the two arrive there.
fn stuck(kind: Kind, ask: &Ask, [first, second]: [bool; 2]) -> Told {
    let once = ask.method == Method::POST && ask.key.is_none();
    if kind != Kind::Http2 || once {
        return repeated_where_safe(ask, first);
    }
    Told {
        status: None,
        attempts: 2,
        verdict: "unknown",
        stop: Some(StopReason::Attempts),
        outcome_unknown: ask.method != Method::GET,
        at_server: usize::from(first) + usize::from(second),
    }
}

#[tokio::test]
async fn case_038_silence_ends_with_the_attempt_s_deadline() {
    through(Fault::Silence, Kind::ALL, |kind, ask| {
        stuck(kind, ask, [true, true])
    })
    .await;
}

#[tokio::test]
async fn a_drip_does_not_put_off_the_attempt_s_deadline() {
    through(Fault::Drip, Kind::ALL, |kind, ask| {
        stuck(kind, ask, [true, true])
    })
    .await;
}

#[tokio::test]
async fn a_partition_in_mid_call_ends_with_the_attempt_s_deadline() {
    through(Fault::Partition, Kind::ALL, |kind, ask| {
        stuck(kind, ask, [true, false])
    })
    .await;
}

#[tokio::test]
async fn a_half_open_connection_ends_with_the_attempt_s_deadline() {
    through(Fault::Deaf, Kind::ALL, |kind, ask| {
        stuck(kind, ask, [false, false])
    })
    .await;
}

/// Three connections that nothing comes back on, or one for all the attempts, and the call's deadline in the third.
#[tokio::test]
async fn the_call_s_deadline_ends_what_no_attempt_s_does() {
    for &kind in Kind::ALL {
        for fault in [Fault::Silence, Fault::Drip, Fault::Partition, Fault::Deaf] {
            let server = Server::start().await;
            let mut proxy = Proxy::start(&server, [fault; 3]).await;
            let ask = Ask::new(Method::GET, format!("http://{}/", proxy.address));
            let client = Client::new(kind, stack().max_attempts(10));
            let outcome = proxy.drive(client.send(ask)).await;
            let what = format!("{fault:?} {kind:?}: {:?}", outcome.head);
            let error = outcome.head.unwrap_err();
            let exceeded = DeadlineExceeded::find(&*error).expect(&what);
            assert!(exceeded.is_call(), "{what}");
            assert_eq!(outcome.report.attempts(), 3, "{what}");
            let connections = if kind == Kind::Http2 { 1 } else { 3 };
            assert_eq!(proxy.connections(), connections, "{what}");
        }
    }
}

#[tokio::test]
async fn what_a_silent_server_leaves_is_our_deadline() {
    for &kind in Kind::ALL {
        let server = Server::start().await;
        let mut proxy = Proxy::start(&server, [Fault::Silence]).await;
        let ask = Ask::new(Method::POST, format!("http://{}/", proxy.address));
        let outcome = proxy.drive(Client::new(kind, stack()).send(ask)).await;
        let error = outcome.head.unwrap_err();
        assert!(DeadlineExceeded::find(&*error).is_some(), "{kind:?}");
    }
}
