//! Everything that is said through `tracing`, at TRACE, in lines.

use std::fmt;
use std::fmt::Write as _;
use std::sync::{Arc, Mutex};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::{Context, SubscriberExt};
use tracing_subscriber::registry::LookupSpan;

/// Collects events, and what is recorded on spans.
#[derive(Debug, Clone, Default)]
pub struct Records(Arc<Mutex<Vec<String>>>);

impl Records {
    /// Runs something whose records go here.
    pub fn capture<T>(&self, run: impl FnOnce() -> T) -> T {
        let subscriber = tracing_subscriber::registry().with(self.clone());
        tracing::subscriber::with_default(subscriber, run)
    }

    pub fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap())
    }

    fn push(&self, line: String) {
        self.0.lock().unwrap().push(line);
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Records {
    fn on_new_span(&self, span: &Attributes<'_>, _: &Id, _: Context<'_, S>) {
        let mut line = Line(span.metadata().name().to_owned());
        span.record(&mut line);
        if line.0 != span.metadata().name() {
            self.push(line.0);
        }
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        let mut line = Line(context.span(id).unwrap().name().to_owned());
        values.record(&mut line);
        self.push(line.0);
    }

    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let metadata = event.metadata();
        let mut fields = Line(String::new());
        event.record(&mut fields);
        let mut message = Message(String::new());
        event.record(&mut message);
        self.push(format!("{} {}{}", metadata.level(), message.0, fields.0));
    }
}

struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if field.name() != "message" {
            write!(self.0, " {}={value:?}", field.name()).unwrap();
        }
    }
}

struct Message(String);

impl Visit for Message {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if field.name() == "message" {
            self.0 = format!("{value:?}");
        }
    }
}
