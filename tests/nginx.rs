//! The layers in front of nginx, a server that nobody here wrote.
//!
//! Needs an nginx on the machine and is skipped without one, except where `COMPOSURE_REQUIRE_NGINX` is set.
#![cfg(all(not(loom), unix, feature = "http"))]
#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "a test may")]

#[path = "support/clients.rs"]
mod clients;
#[path = "support/proxy.rs"]
mod proxy;
#[path = "support/server.rs"]
mod server;

use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use clients::{Ask, Client, Kind, Outcome};
use http::{Method, StatusCode};
use server::Server;
use tempfile::TempDir;
use tokio::net::TcpSocket;
use tower_composure::stack::StackBuilder;
use tower_composure::{Backoff, Hint, HttpPolicy, Stack, StopReason, Verdict};

/// The clients that speak HTTP/1.1, as this nginx does without TLS.
const KINDS: &[Kind] = &[
    Kind::Http1,
    #[cfg(feature = "reqwest")]
    Kind::Reqwest,
];

const KEY: Option<&str> = Some("order-7");

/// nginx while it runs, in front of a server of ours.
struct Nginx {
    program: &'static str,
    process: Child,
    port: u16,
    server: Server,
    /// What the configuration names, held for as long as nginx runs.
    _dead: TcpSocket,
    _silent: TcpListener,
    directory: TempDir,
}

impl Nginx {
    /// None, and a word on why, where there is no nginx.
    async fn start(keepalive: &str) -> Option<Self> {
        let program = find()?;
        let server = Server::start().await;
        let directory = tempfile::tempdir().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let (dead, held) = proxy::refusing();
        let silent = TcpListener::bind("127.0.0.1:0").unwrap();
        let numbers = [
            ("{listen}", port),
            ("{upstream}", server.address.port()),
            ("{dead}", dead.port()),
            ("{silent}", silent.local_addr().unwrap().port()),
        ];
        let template = include_str!("nginx/main.conf").replace("{keepalive}", keepalive);
        let configuration = numbers.iter().fold(template, |text, (name, port)| {
            text.replace(name, &port.to_string())
        });
        std::fs::write(directory.path().join("main.conf"), configuration).unwrap();
        let process = nginx(program, &directory)
            // It takes over a socket that listens already, as in an upgrade of its own: so there is no port that
            // somebody else could take first, and no moment in which it is not up.
            .env("NGINX", "0;")
            .stdin(Stdio::from(OwnedFd::from(listener)))
            .spawn()
            .unwrap();
        Some(Self {
            program,
            process,
            port,
            server,
            _dead: held,
            _silent: silent,
            directory,
        })
    }

    fn ask(&self, method: Method, path: &str, key: Option<&'static str>) -> Ask {
        Ask {
            key,
            ..Ask::new(method, format!("http://127.0.0.1:{}{path}", self.port))
        }
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let log = std::fs::read_to_string(self.directory.path().join("error.log"));
            println!("nginx says: {}", log.unwrap_or_default());
        }
        // Its worker would outlive a master that is killed.
        let mut stop = nginx(self.program, &self.directory);
        if !stop.args(["-s", "stop"]).status().unwrap().success() {
            self.process.kill().unwrap();
        }
        self.process.wait().unwrap();
    }
}

fn nginx(program: &str, directory: &TempDir) -> Command {
    let mut command = Command::new(program);
    command.args(["-e", "error.log", "-c", "main.conf", "-p"]);
    command.arg(directory.path()).stderr(Stdio::null());
    command
}

/// Debian has it where only root looks.
fn find() -> Option<&'static str> {
    let found = ["nginx", "/usr/sbin/nginx"].into_iter().find(|program| {
        let version = Command::new(program)
            .arg("-v")
            .stderr(Stdio::null())
            .status();
        version.is_ok_and(|status| status.success())
    });
    if found.is_none() {
        assert!(
            std::env::var_os("COMPOSURE_REQUIRE_NGINX").is_none(),
            "there is no nginx, and COMPOSURE_REQUIRE_NGINX is set"
        );
        println!("skipped: there is no nginx on this machine");
    }
    found
}

/// No deadline, so that no timer but that of a wait moves a paused clock.
fn stack(policy: HttpPolicy) -> StackBuilder<HttpPolicy> {
    Stack::builder(policy.server_honours_keys(true))
        .call_deadline(Duration::MAX)
        .attempt_deadline(Duration::MAX)
        .max_attempts(2)
        .backoff(Backoff::none())
}

/// How a call ended that did not succeed.
fn assert_told(outcome: &Outcome, status: u16, attempts: u32, stop: StopReason, what: &str) {
    assert_eq!(outcome.status(), Some(status), "{what}: {:?}", outcome.head);
    assert_eq!(outcome.report.attempts(), attempts, "{what}");
    assert_eq!(outcome.report.stop_reason(), Some(stop), "{what}");
}

#[tokio::test(start_paused = true)]
async fn case_019_a_limit_of_requests_is_waited_for() {
    for &kind in KINDS {
        for (path, status, policy) in [
            ("/too-many", 429, HttpPolicy::new()),
            (
                "/unavailable",
                503,
                // nginx refuses before it passes anything on, as its documentation says.
                HttpPolicy::new().status(StatusCode::SERVICE_UNAVAILABLE, Verdict::REFUSED),
            ),
        ] {
            let Some(nginx) = Nginx::start("").await else {
                return;
            };
            let client = Client::new(kind, stack(policy));
            let first = client.send(nginx.ask(Method::POST, path, None)).await;
            assert_eq!(first.status(), Some(200));
            let second = client.send(nginx.ask(Method::POST, path, None)).await;
            let what = format!("{kind:?} {path}");
            assert_told(&second, status, 2, StopReason::Attempts, &what);
            let report = second.report;
            let asked = Hint::after(Duration::from_secs(7));
            assert_eq!(report.hint(), Some(asked), "{what}");
            assert!(!report.outcome_unknown(), "{what}");
            let waits = Duration::from_secs(7)..=Duration::from_millis(8750);
            assert!(waits.contains(&report.backoff()), "{what}: {report:?}");
            assert_eq!(nginx.server.seen().len(), 1, "{what}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn case_037_a_503_of_which_nothing_is_known_stops_a_write() {
    for &kind in KINDS {
        let Some(nginx) = Nginx::start("").await else {
            return;
        };
        let client = Client::new(kind, stack(HttpPolicy::new()));
        let path = "/unavailable";
        client.send(nginx.ask(Method::GET, path, None)).await;
        let post = client.send(nginx.ask(Method::POST, path, None)).await;
        assert_told(&post, 503, 1, StopReason::OutcomeUnknown, "without a key");
        let keyed = client.send(nginx.ask(Method::POST, path, KEY)).await;
        assert_told(&keyed, 503, 2, StopReason::Attempts, "with a key");
        assert!(keyed.report.outcome_unknown());
    }
}

#[tokio::test(start_paused = true)]
async fn case_054_a_gateway_s_errors_stop_a_write_without_a_key() {
    for &kind in KINDS {
        for (path, status) in [("/dead", 502), ("/slow", 504)] {
            let Some(nginx) = Nginx::start("").await else {
                return;
            };
            let client = Client::new(kind, stack(HttpPolicy::new()));
            for (method, key, attempts, stop, unknown) in [
                (Method::GET, None, 2, StopReason::Attempts, false),
                (Method::PUT, None, 2, StopReason::Attempts, true),
                (Method::POST, KEY, 2, StopReason::Attempts, true),
                (Method::POST, None, 1, StopReason::OutcomeUnknown, true),
            ] {
                let what = format!("{kind:?} {method} {path} {key:?}");
                let outcome = client.send(nginx.ask(method, path, key)).await;
                assert_told(&outcome, status, attempts, stop, &what);
                assert_eq!(outcome.report.outcome_unknown(), unknown, "{what}");
            }
        }
    }
}

/// A number in a header of nginx's.
fn number(outcome: &Outcome, header: &str) -> u64 {
    let (_, headers) = outcome.head.as_ref().unwrap();
    headers[header].to_str().unwrap().parse().unwrap()
}

#[tokio::test]
async fn connections_of_a_few_requests_are_replaced_without_a_failure() {
    for &kind in KINDS {
        for (most, expected) in [(1, [1, 1, 1, 1, 1, 1]), (2, [1, 2, 1, 2, 1, 2])] {
            let keepalive = format!("keepalive_requests {most};");
            let Some(nginx) = Nginx::start(&keepalive).await else {
                return;
            };
            let client = Client::new(kind, stack(HttpPolicy::new()));
            let mut requests = Vec::new();
            let mut connections = Vec::new();
            for _ in 0..6 {
                // Without a key: no connection that nginx has announced to close is used again.
                let outcome = client.send(nginx.ask(Method::POST, "/", None)).await;
                assert_eq!(outcome.status(), Some(200));
                assert_eq!(outcome.report.attempts(), 1);
                requests.push(number(&outcome, "x-request"));
                connections.push(number(&outcome, "x-connection"));
                back_in_the_pool().await;
            }
            connections.dedup();
            assert_eq!(requests, expected, "{kind:?}");
            assert_eq!(connections.len(), 6 / most, "{kind:?}");
            assert_eq!(nginx.server.seen().len(), 6, "{kind:?}");
        }
    }
}

/// Blocks until nginx has closed the one connection that there is to it. The kernel knows, and the client, whose thread
/// this is, has had no chance to hear of it; false where it had, and has closed its side too.
#[cfg(target_os = "linux")]
fn is_closed_unnoticed(port: u16) -> bool {
    const ESTABLISHED: &str = "01";
    const CLOSE_WAIT: &str = "08";
    let remote = format!("0100007F:{port:04X}");
    loop {
        let connections = std::fs::read_to_string("/proc/self/net/tcp").unwrap();
        let state = connections.lines().find_map(|line| {
            let fields: Vec<&str> = line.split_whitespace().collect();
            let live = [ESTABLISHED, CLOSE_WAIT].contains(&fields[3]);
            (fields[2] == remote && live).then(|| fields[3].to_owned())
        });
        match state.as_deref() {
            Some(ESTABLISHED) => std::thread::yield_now(),
            state => return state.is_some(),
        }
    }
}

/// nginx closes idle connections when it likes, also when a request is on its way. That costs an attempt and no call.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn case_046_a_connection_that_is_cut_while_idle() {
    for &kind in KINDS {
        for (method, key) in [
            (Method::GET, None),
            (Method::PUT, None),
            (Method::POST, KEY),
            (Method::POST, None),
        ] {
            let what = format!("{kind:?} {method} {key:?}");
            let Some(nginx) = Nginx::start("keepalive_timeout 50ms;").await else {
                return;
            };
            let client = Client::new(kind, stack(HttpPolicy::new()));
            let mut before = 0;
            loop {
                client.send(nginx.ask(Method::GET, "/", None)).await;
                before += 1;
                back_in_the_pool().await;
                if is_closed_unnoticed(nginx.port) {
                    break;
                }
            }
            let outcome = client.send(nginx.ask(method.clone(), "/", key)).await;
            let seen = nginx.server.seen().len() - before;
            let report = outcome.report;
            if method == Method::POST && key.is_none() {
                // Written to a connection that was closed already, but nobody can tell the client that.
                assert_eq!(outcome.status(), None, "{what}");
                assert_eq!(report.attempts(), 1, "{what}");
                assert!(report.outcome_unknown(), "{what}");
                assert_eq!(seen, 0, "{what}");
            } else {
                assert_eq!(outcome.status(), Some(200), "{what}: {:?}", outcome.head);
                assert_eq!(report.attempts(), 2, "{what}");
                assert_eq!(number(&outcome, "x-request"), 1, "{what}");
                assert_eq!(seen, 1, "{what}");
            }
        }
    }
}

/// The connection goes back once its task has had its turn.
async fn back_in_the_pool() {
    for _ in 0..10 {
        tokio::task::yield_now().await;
    }
}
