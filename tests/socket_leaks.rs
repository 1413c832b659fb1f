//! What a call over a bad connection leaves running: nothing, once the client is gone.
#![cfg(all(not(loom), feature = "http"))]

#[path = "support/clients.rs"]
mod clients;
#[path = "support/proxy.rs"]
mod proxy;
#[path = "support/server.rs"]
mod server;

use std::time::Duration;

use clients::{Ask, Client, Kind};
use http::Method;
use proxy::{Fault, Proxy};
use server::Server;
use tokio::runtime::Handle;
use tokio::task::yield_now;
use tokio::time::timeout;
use tower_composure::{Backoff, HttpPolicy, Stack};

fn tasks() -> usize {
    Handle::current().metrics().num_alive_tasks()
}

/// Until no more than so many tasks are left. The time is against a hang only.
async fn until_left(tasks_before: usize, what: &str) {
    let ended = async {
        while tasks() > tasks_before {
            yield_now().await;
        }
    };
    let ended = timeout(Duration::from_secs(30), ended).await;
    assert!(ended.is_ok(), "{what}: {} of {tasks_before}", tasks());
}

fn client(kind: Kind) -> Client {
    let policy = HttpPolicy::new().server_honours_keys(true);
    let stack = Stack::builder(policy).max_attempts(2);
    Client::new(kind, stack.backoff(Backoff::none()))
}

#[tokio::test]
async fn no_fault_leaves_a_task_behind() {
    for fault in [
        Fault::None,
        Fault::ResetUnread,
        Fault::ResetCarriedOut,
        Fault::HalfBody,
        Fault::Silence,
        Fault::Drip,
        Fault::Deaf,
        Fault::Partition,
    ] {
        for &kind in Kind::ALL {
            let server = Server::start().await;
            let mut proxy = Proxy::start(&server, [fault; 2]).await;
            let before = tasks();
            let client = client(kind);
            let ask = Ask::new(Method::PUT, format!("http://{}/", proxy.address));
            let outcome = proxy.drive(client.send(ask)).await;
            let what = format!("{fault:?} {kind:?}: {:?}", outcome.head);
            drop((client, proxy));
            until_left(before, &what).await;
        }
    }
}

/// Given up by the caller while the answer is on its way, and not by a deadline.
#[tokio::test]
async fn a_call_that_is_dropped_over_a_bad_connection_leaves_no_task_behind() {
    for fault in [Fault::Silence, Fault::Drip, Fault::Deaf, Fault::Partition] {
        for &kind in Kind::ALL {
            let server = Server::start().await;
            let mut proxy = Proxy::start(&server, [fault; 2]).await;
            let before = tasks();
            let client = client(kind);
            let ask = Ask::new(Method::PUT, format!("http://{}/", proxy.address));
            proxy.until_stalled(client.send(ask)).await;
            drop((client, proxy));
            until_left(before, &format!("{fault:?} {kind:?}")).await;
        }
    }
}

/// Over one connection that nothing comes back on, calls come and go and the tasks stay as many.
#[tokio::test]
async fn calls_over_a_partitioned_connection_do_not_add_up() {
    let server = Server::start().await;
    let mut proxy = Proxy::start(&server, [Fault::Partition]).await;
    let before = tasks();
    let client = client(Kind::Http2);
    let mut after_first = None;
    for call in 1..=20 {
        let ask = Ask::new(Method::GET, format!("http://{}/", proxy.address));
        let outcome = proxy.drive(client.send(ask)).await;
        assert_eq!(outcome.status(), None, "call {call}");
        assert_eq!(outcome.report.attempts(), 2, "call {call}");
        let most = *after_first.get_or_insert_with(tasks);
        until_left(most, &format!("call {call}")).await;
    }
    assert_eq!(proxy.connections(), 1);
    assert_eq!(server.seen().len(), 1);
    drop((client, proxy));
    until_left(before, "in the end").await;
}
