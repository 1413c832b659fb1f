//! A real Prometheus looks at the example, and its alert fires in the outage and clears after it.
//!
//! Needs a prometheus on the machine and is skipped without one, except where `COMPOSURE_REQUIRE_PROMETHEUS` is set.
#![cfg(all(not(loom), unix, feature = "metrics", feature = "tracing"))]
#![expect(
    clippy::panic,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a test may"
)]

use std::fmt::Write as _;
use std::io;
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use axum::body::Bytes;
use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde_json::Value;
use tempfile::TempDir;
use tokio::time::{sleep, timeout};

use crate::app::App;

#[path = "../examples/observed/app.rs"]
mod app;

const ALERTS: &str = include_str!("../observability/alerts.yml");
const DASHBOARD: &str = include_str!("../observability/dashboard.json");

/// How long anything may take to become visible. Only a hang gets there.
const PATIENCE: Duration = Duration::from_secs(60);

/// Prometheus while it runs, with its data in a folder of its own.
struct Prometheus {
    process: Child,
    url: String,
    client: legacy::Client<HttpConnector, Full<Bytes>>,
    _directory: TempDir,
}

impl Prometheus {
    /// Looks at `target` each second. None, and a word on why, where there is no Prometheus.
    async fn start(target: &str) -> Option<Self> {
        if !is_installed() {
            return None;
        }
        // A port that is free now may be taken before Prometheus binds it: then it ends, and another one is tried.
        for _ in 0..5 {
            if let Some(started) = Self::try_start(target).await {
                return Some(started);
            }
        }
        panic!("Prometheus does not start");
    }

    async fn try_start(target: &str) -> Option<Self> {
        let directory = tempfile::tempdir().unwrap();
        configure(directory.path(), target);
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr();
        let address = format!("127.0.0.1:{}", port.unwrap().port());
        let at = |name: &str| directory.path().join(name).display().to_string();
        let process = Command::new("prometheus")
            .arg(format!("--config.file={}", at("prometheus.yml")))
            .arg(format!("--storage.tsdb.path={}", at("data")))
            .arg(format!("--web.listen-address={address}"))
            .arg("--log.level=error")
            .stdin(Stdio::null())
            .spawn()
            .unwrap();
        let mut started = Self {
            process,
            url: format!("http://{address}"),
            client: legacy::Client::builder(TokioExecutor::new()).build_http(),
            _directory: directory,
        };
        let ready = async {
            loop {
                if started.process.try_wait().unwrap().is_some() {
                    return false;
                }
                if started.get("/-/ready").await.is_ok() {
                    return true;
                }
                sleep(Duration::from_millis(50)).await;
            }
        };
        timeout(PATIENCE, ready).await.unwrap().then_some(started)
    }

    async fn get(&self, path: &str) -> Result<Bytes, io::Error> {
        let uri = format!("{}{path}", self.url).parse().unwrap();
        let response = self.client.get(uri).await.map_err(io::Error::other)?;
        let status = response.status();
        let body = response.into_body().collect().await;
        let body = body.map_err(io::Error::other)?.to_bytes();
        if status.is_success() {
            Ok(body)
        } else {
            Err(io::Error::other(String::from_utf8_lossy(&body)))
        }
    }

    /// What a query gives now.
    async fn query(&self, query: &str) -> Vec<Value> {
        let mut encoded = String::new();
        for byte in query.bytes() {
            write!(encoded, "%{byte:02X}").unwrap();
        }
        let path = format!("/api/v1/query?query={encoded}");
        let body = self.get(&path).await;
        let body = body.unwrap_or_else(|error| panic!("{query}: {error}"));
        let answer: Value = serde_json::from_slice(&body).unwrap();
        answer["data"]["result"].as_array().unwrap().clone()
    }

    async fn number(&self, query: &str) -> Option<f64> {
        let results = self.query(query).await;
        results.first()?["value"][1].as_str()?.parse().ok()
    }

    /// The alerts that fire now.
    async fn firing(&self) -> Vec<String> {
        let body = self.get("/api/v1/alerts").await.unwrap();
        let answer: Value = serde_json::from_slice(&body).unwrap();
        let alerts = answer["data"]["alerts"].as_array().unwrap();
        let mut names: Vec<_> = alerts
            .iter()
            .filter(|alert| alert["state"] == "firing")
            .map(|alert| {
                assert_eq!(alert["labels"]["dependency"], "payments");
                alert["labels"]["alertname"].as_str().unwrap().to_owned()
            })
            .collect();
        names.sort();
        names
    }

    /// Waits until these fire among others, or do not.
    async fn until(&self, what: &str, holds: impl Fn(&[String]) -> bool) {
        let waits = async {
            while !holds(&self.firing().await) {
                sleep(Duration::from_millis(200)).await;
            }
        };
        let waited = timeout(PATIENCE, waits).await;
        assert!(waited.is_ok(), "{what}: {:?}", self.firing().await);
    }
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn is_installed() -> bool {
    let version = Command::new("prometheus")
        .arg("--version")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    let found = version.is_ok_and(|status| status.success());
    let required = std::env::var_os("COMPOSURE_REQUIRE_PROMETHEUS").is_some();
    assert!(
        found || !required,
        "there is no prometheus, and there must be"
    );
    if !found {
        println!("skipped: there is no prometheus on this machine");
    }
    found
}

/// The alerts as they are, but over seconds where they look at minutes: `promtool test rules` takes their real time.
fn configure(directory: &Path, target: &str) {
    let mut alerts = ALERTS.to_owned();
    for (minutes, seconds) in [
        ("[1m]", "[4s]"),
        ("[2m]", "[8s]"),
        ("[5m]", "[8s]"),
        ("for: 2m", "for: 0s"),
        ("for: 5m", "for: 0s"),
    ] {
        assert!(alerts.contains(minutes), "{minutes}");
        alerts = alerts.replace(minutes, seconds);
    }
    let target = target.trim_start_matches("http://");
    let configuration = format!(
        "global:
  scrape_interval: 1s
  evaluation_interval: 1s
rule_files: [alerts.yml]
scrape_configs:
  - job_name: observed
    static_configs:
      - targets: ['{target}']
"
    );
    std::fs::write(directory.join("alerts.yml"), alerts).unwrap();
    std::fs::write(directory.join("prometheus.yml"), configuration).unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_alerts_fire_in_the_outage_and_clear_after_it() {
    let app = App::start().await.unwrap();
    let page = app.serve_metrics("127.0.0.1:0").await.unwrap();
    let Some(prometheus) = Prometheus::start(&page).await else {
        return;
    };
    tokio::select! {
        () = app.charge_for_ever() => {}
        () = an_outage(&app, &prometheus) => {}
    }
}

async fn an_outage(app: &App, prometheus: &Prometheus) {
    let calls = "sum(composure_calls_total{outcome='success'})";
    let seen = async {
        while prometheus.number(calls).await.unwrap_or(0.0) < 100.0 {
            sleep(Duration::from_millis(200)).await;
        }
    };
    timeout(PATIENCE, seen).await.unwrap();
    assert_eq!(prometheus.firing().await, [""; 0]);
    assert_eq!(
        prometheus.number("composure_budget_tokens").await,
        Some(20.0)
    );
    let closed = "composure_breaker_state{state='closed'}";
    assert_eq!(prometheus.number(closed).await, Some(1.0));

    app.take_down(true);
    let both = ["ComposureBudgetExhausted", "ComposureBreakerOpen"];
    prometheus
        .until("in the outage", |firing| {
            both.iter()
                .all(|name| firing.iter().any(|fires| fires == name))
        })
        .await;
    app.take_down(false);
    prometheus
        .until("after it", |firing| {
            !firing.iter().any(|fires| both.contains(&fires.as_str()))
        })
        .await;
    assert_eq!(prometheus.number(closed).await, Some(1.0));
    // What has been told twice, as an event and as a reason, has been counted alike.
    let exhausted = prometheus.number("composure_budget_exhausted_total");
    assert!(exhausted.await.unwrap() > 0.0);
    let reasons = "composure_retries_refused_total{reason='budget_exhausted'}
        == ignoring(reason) composure_budget_exhausted_total";
    assert_eq!(prometheus.query(reasons).await.len(), 1);
    let paid_for = "composure_retries_total{delayed_by='backoff'}
        == ignoring(delayed_by) composure_budget_withdrawals_total";
    assert_eq!(prometheus.query(paid_for).await.len(), 1);
    the_dashboard_can_be_drawn(prometheus).await;
}

/// Each of its queries is one that Prometheus takes, and finds something.
async fn the_dashboard_can_be_drawn(prometheus: &Prometheus) {
    let dashboard: Value = serde_json::from_str(DASHBOARD).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    assert_eq!(panels.len(), 12);
    for panel in panels {
        for target in panel["targets"].as_array().unwrap() {
            let query = target["expr"].as_str().unwrap();
            let query = query
                .replace("$__rate_interval", "10m")
                .replace("$dependency", ".*");
            let found = prometheus.query(&query).await;
            assert!(
                !found.is_empty(),
                "{} finds nothing: {query}",
                panel["title"]
            );
        }
    }
}
