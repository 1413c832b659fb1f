//! Metrics of what the layers decide, through the [`metrics`](https://docs.rs/metrics) facade.
//!
//! [`MetricsObserver`] is an [`Observer`](crate::Observer), given once to a stack. Any recorder of the facade may stand
//! behind it, Prometheus' among them; names and units are Prometheus'.
//!
//! | metric | kind | labels beside `dependency` | what |
//! |---|---|---|---|
//! | `composure_calls_total` | counter | `outcome`: a verdict, or `cancelled` | calls that have ended |
//! | `composure_calls_outcome_unknown_total` | counter | | those that did not succeed and may have changed something |
//! | `composure_call_attempts` | histogram | | attempts of a call |
//! | `composure_call_duration_seconds` | histogram | | from a call to its end, waits included |
//! | `composure_call_backoff_seconds` | histogram | | the sum of all waits of a call |
//! | `composure_attempts_total` | counter | | attempts that have started |
//! | `composure_attempt_duration_seconds` | histogram | `verdict` | from an attempt's start to its outcome |
//! | `composure_retries_total` | counter | `delayed_by`: `backoff`, `hint` | retries decided |
//! | `composure_retry_delay_seconds` | histogram | | the wait before a retry |
//! | `composure_retries_refused_total` | counter | `reason`: a [`StopReason`](crate::StopReason) | retries that were not made |
//! | `composure_budget_tokens` | gauge | | tokens left |
//! | `composure_budget_deposits_total` | counter | | successes that earned their part of a token |
//! | `composure_budget_withdrawals_total` | counter | | retries that the budget has paid for |
//! | `composure_budget_exhausted_total` | counter | | retries that it could not pay for |
//! | `composure_breaker_state` | gauge | `state`: a [`CircuitState`](crate::CircuitState) | 1 for the state it is in, 0 for the others |
//! | `composure_breaker_transitions_total` | counter | `to`: the same | transitions, by the state entered |
//! | `composure_breaker_rejected_total` | counter | | calls refused |
//! | `composure_breaker_probes_total` | counter | | calls let through by a half-open breaker |
//! | `composure_deadlines_exceeded_total` | counter | `limit`: `call`, `attempt` | deadlines that have passed |
//! | `composure_idempotency_keys_total` | counter | `source`: `minted`, `kept` | requests with a key |
//!
//! `dependency` is the name that the stack was given; for the breaker's metrics it is the breaker's name, so give both
//! the same. All other labels have the values of an enum. Of dependencies the first 100 have metrics of their own, and
//! all further ones are `(other)` together, so that a gateway which names them by host cannot be made to grow without
//! end. No label is ever a URL, a header, a key, an argument or the text of an error.
//!
//! Calls and attempts are counted apart. A call that the breaker refuses is not in `composure_calls_total`, since it
//! never got as far as the retry layer; calls and refusals together are all that there was.
//!
//! What an operator asks:
//!
//! - *Is it retried too much?* `rate(composure_attempts_total[5m]) / rate(composure_calls_total[5m])`, of which
//!   [`Budget`](crate::Budget) keeps 1.1 by default.
//! - *Is the budget empty?* `increase(composure_budget_exhausted_total[1m]) > 0`.
//! - *Is the breaker open?* `composure_breaker_state{state="open"} == 1`.
//! - *Which stop reason dominates?* `topk(1, rate(composure_retries_refused_total[5m]))`.
//! - *What did a call cost?* The histograms `composure_call_attempts`, `_duration_seconds` and `_backoff_seconds`.
//!
//! The folder `observability` of the repository has alerts for Prometheus and a dashboard for Grafana.
//!
//! # Where in the stack
//!
//! Beside it: [`StackBuilder::observer`](crate::stack::StackBuilder::observer) hands it to all layers, and each layer that
//! stands alone has a setter of that name. A breaker that is given to a stack brings its own.
//!
//! # Cancellation, errors
//!
//! A call that is dropped is counted, with the outcome `cancelled`. There are no errors.
//!
//! # Example
//!
//! ```
//! use std::sync::Arc;
//! use metrics_exporter_prometheus::{BuildError, Matcher, PrometheusBuilder};
//! use tower_composure::metrics::{ATTEMPTS, MetricsObserver, SECONDS};
//! use tower_composure::{Effect, Stack};
//!
//! let prometheus = PrometheusBuilder::new()
//!     .set_buckets_for_metric(Matcher::Full("composure_call_attempts".into()), &ATTEMPTS)?
//!     .set_buckets_for_metric(Matcher::Suffix("_seconds".into()), &SECONDS)?
//!     .install_recorder()
//!     .unwrap();
//!
//! let metrics = Arc::new(MetricsObserver::new());
//! metrics.register("payments");
//! let stack = Stack::builder(Effect::Read).dependency("payments").observer(metrics).build();
//! # assert!(stack.is_ok());
//! assert!(prometheus.render().contains(r#"composure_attempts_total{dependency="payments"} 0"#));
//! # Ok::<_, BuildError>(())
//! ```
//!
//! # OpenTelemetry
//!
//! There is no feature for its metrics API: it would be a second seam with the same names. Its collector scrapes
//! Prometheus, and recorders of the facade that export to it exist. For traces see `TracingObserver`, whose fields are
//! OpenTelemetry's.

mod by;
mod handles;
mod names;
mod observer;

pub use observer::MetricsObserver;

/// Bounds of buckets in seconds, for all histograms of times: those that OpenTelemetry advises for the duration of HTTP
/// requests.
pub const SECONDS: [f64; 14] = [
    0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0,
];

/// Bounds of buckets for `composure_call_attempts`.
pub const ATTEMPTS: [f64; 6] = [1.0, 2.0, 3.0, 4.0, 5.0, 10.0];
