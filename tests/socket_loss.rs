//! Connections of which three in ten are lost: each call ends, and the report says what is known.
#![cfg(all(not(loom), feature = "http"))]

#[path = "support/clients.rs"]
mod clients;
#[path = "support/proxy.rs"]
mod proxy;
#[path = "support/server.rs"]
mod server;

use clients::{Ask, Client, Kind};
use http::Method;
use proxy::{Fault, Proxy};
use server::Server;
use tower_composure::stack::StackBuilder;
use tower_composure::{Backoff, HttpPolicy, Stack};

const CALLS: usize = 30;

/// Those that make a connection for each attempt that has lost its own. Over HTTP/2 a client keeps the connection of an
/// attempt that was given up, and the next attempt is lost on it too, unless the client pings what is silent: hyper's
/// `http2_keep_alive_interval`.
fn kinds() -> impl Iterator<Item = Kind> {
    let kinds = Kind::ALL.iter().copied();
    kinds.filter(|kind| *kind != Kind::Http2)
}

fn stack() -> StackBuilder<HttpPolicy> {
    let policy = HttpPolicy::new().server_honours_keys(true);
    Stack::builder(policy)
        .max_attempts(2)
        .backoff(Backoff::none())
}

/// Three of ten connections fail, each in one of these ways, by a number that depends on nothing but its seed.
fn losses(mut seed: u64) -> Vec<Fault> {
    const WAYS: [Fault; 4] = [
        Fault::ResetUnread,
        Fault::ResetCarriedOut,
        Fault::Silence,
        Fault::Deaf,
    ];
    let mut next = || {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        usize::try_from(seed >> 40).unwrap_or(0)
    };
    let fault = |_| match next() % 10 {
        lost @ 0..3 => WAYS[(lost + next()) % WAYS.len()],
        _ => Fault::None,
    };
    (0..2 * CALLS).map(fault).collect()
}

/// Which of the attempts succeeds, and how often the server carries the call out.
fn foretold(faults: &mut impl Iterator<Item = Fault>) -> (Option<u32>, usize) {
    let mut carried_out = 0;
    for attempt in 1..=2 {
        match faults.next() {
            None | Some(Fault::None) => return (Some(attempt), carried_out + 1),
            Some(Fault::ResetCarriedOut | Fault::Silence) => carried_out += 1,
            Some(_) => {}
        }
    }
    (None, carried_out)
}

#[tokio::test]
async fn with_three_of_ten_connections_lost_each_call_ends_as_foretold() {
    for kind in kinds() {
        let server = Server::start().await;
        let faults = losses(0x2545_f491_4f6c_dd1d);
        let mut proxy = Proxy::start(&server, faults.clone()).await;
        let mut faults = faults.into_iter();
        let mut at_server = 0;
        for call in 0..CALLS {
            let ask = Ask {
                key: Some("order-7"),
                body: "7 EUR",
                ..Ask::new(Method::POST, format!("http://{}/", proxy.address))
            };
            // A client of its own, so that no connection is used twice.
            let client = Client::new(kind, stack());
            let outcome = proxy.drive(client.send(ask)).await;
            let (succeeds, carried_out) = foretold(&mut faults);
            at_server += carried_out;
            let what = format!("{kind:?}, call {call}: {:?}", outcome.head);
            assert_eq!(server.seen().len(), at_server, "{what}");
            let report = outcome.report;
            assert_eq!(report.attempts(), succeeds.unwrap_or(2), "{what}");
            assert_eq!(outcome.status(), succeeds.map(|_| 200), "{what}");
            assert_eq!(report.outcome_unknown(), succeeds.is_none(), "{what}");
        }
        assert!(at_server > CALLS);
    }
}
