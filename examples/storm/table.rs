//! What a scenario found: rows of figures, sentences, and the lines of a chart.

use std::fmt;

use serde_json::{Map, Value, json};

/// The result of one scenario.
#[derive(Debug, Clone)]
pub(crate) struct Table {
    pub(crate) scenario: u8,
    pub(crate) name: &'static str,
    pub(crate) title: String,
    pub(crate) rows: Vec<Row>,
    /// What the rows show, in words.
    pub(crate) says: Vec<String>,
    pub(crate) chart: Chart,
}

/// One client, or one setting.
#[derive(Debug, Clone)]
pub(crate) struct Row {
    pub(crate) name: String,
    /// Named figures, the same ones in each row. Infinity is "never".
    pub(crate) figures: Vec<(&'static str, f64)>,
}

/// Lines over one pair of axes.
#[derive(Debug, Clone)]
pub(crate) struct Chart {
    pub(crate) x: &'static str,
    pub(crate) y: &'static str,
    /// From where to where something was wrong.
    pub(crate) shade: Option<(f64, f64)>,
    pub(crate) lines: Vec<Line>,
}

#[derive(Debug, Clone)]
pub(crate) struct Line {
    pub(crate) name: String,
    pub(crate) points: Vec<(f64, f64)>,
}

impl Line {
    /// Counts of equal spans, from the start, each at its middle.
    pub(crate) fn of_spans(name: &str, span: f64, counts: &[u32]) -> Self {
        let middle = |nth: u32| (f64::from(nth) + 0.5) * span;
        let points = (0..).map(middle).zip(counts.iter().copied().map(f64::from));
        Self {
            name: name.to_owned(),
            points: points.collect(),
        }
    }
}

impl Row {
    pub(crate) fn new(name: impl Into<String>, figures: &[(&'static str, f64)]) -> Self {
        Self {
            name: name.into(),
            figures: figures.to_vec(),
        }
    }

    /// The figure of this name; not a number where there is none.
    pub(crate) fn get(&self, figure: &str) -> f64 {
        let found = self.figures.iter().find(|(name, _)| *name == figure);
        found.map_or(f64::NAN, |(_, value)| *value)
    }
}

impl Table {
    /// The figure of this name in the row of that name; not a number where there is none.
    pub(crate) fn get(&self, row: &str, figure: &str) -> f64 {
        let found = self.rows.iter().find(|has| has.name == row);
        found.map_or(f64::NAN, |row| row.get(figure))
    }

    /// The rows as JSON. What never came is null.
    pub(crate) fn json(&self) -> Value {
        let rows: Vec<Value> = self
            .rows
            .iter()
            .map(|row| {
                let mut object = Map::new();
                object.insert("row".to_owned(), json!(row.name));
                for (name, value) in &row.figures {
                    object.insert((*name).to_owned(), number(*value));
                }
                Value::Object(object)
            })
            .collect();
        json!({"scenario": self.scenario, "name": self.name, "rows": rows})
    }
}

fn number(value: f64) -> Value {
    if value.fract() == 0.0 && value.abs() < 1e15 {
        #[expect(clippy::cast_possible_truncation, reason = "a whole number in range")]
        return json!(value as i64);
    }
    json!(value)
}

/// As a person reads it.
fn text(value: f64) -> String {
    if value.is_infinite() {
        "never".to_owned()
    } else if value.fract() == 0.0 {
        format!("{value:.0}")
    } else {
        format!("{value:.3}")
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}. {}\n", self.scenario, self.title)?;
        let name = self.rows.iter().map(|row| row.name.len()).max();
        let name = name.unwrap_or(0);
        let Some(first) = self.rows.first() else {
            return Ok(());
        };
        write!(f, "{:name$}", "")?;
        for (figure, _) in &first.figures {
            write!(f, "  {:>9}", figure.replace('_', " "))?;
        }
        writeln!(f)?;
        for row in &self.rows {
            write!(f, "{:name$}", row.name)?;
            for (figure, value) in &row.figures {
                let width = figure.len().max(9);
                write!(f, "  {:>width$}", text(*value))?;
            }
            writeln!(f)?;
        }
        for sentence in &self.says {
            write!(f, "\n{sentence}")?;
        }
        Ok(())
    }
}
