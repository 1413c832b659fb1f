//! The chart: requests per 100 ms for each run, the tokens left in their budgets, and the breaker's states; the outage
//! shaded.

use std::fs;
use std::path::Path;

use plotters::coord::Shift;
use plotters::coord::types::RangedCoordf64;
use plotters::prelude::*;
use tower_composure::{BoxError, CircuitState};

use crate::report::{Report, Run};
use crate::scenario::{BIN, Scenario};
use crate::watch;

const SIZE: (u32, u32) = (960, 680);
/// Where the upper charts end.
const REQUESTS_END: u32 = 400;
const TOKENS_END: u32 = 560;
const SHADE: RGBColor = RGBColor(0xE8, 0xE8, 0xEC);
const MESH: RGBColor = RGBColor(0xD8, 0xD8, 0xD8);
const TEXT: RGBColor = RGBColor(0x33, 0x33, 0x33);

/// A colour and a width for each run, in order: told apart by colour-blind eyes as well (Okabe and Ito), and the first
/// one broad enough to be seen under the others.
const LINES: [(RGBColor, u32); 4] = [
    (RGBColor(0xB0, 0xB0, 0xB0), 5),
    (RGBColor(0xD5, 0x5E, 0x00), 2),
    (RGBColor(0x00, 0x72, 0xB2), 2),
    (RGBColor(0x00, 0x9E, 0x73), 2),
];

/// The breaker's states, and what they are drawn in.
const STATES: [(CircuitState, RGBColor); 3] = [
    (CircuitState::Closed, RGBColor(0xBF, 0xE3, 0xD6)),
    (CircuitState::Open, RGBColor(0xD5, 0x5E, 0x00)),
    (CircuitState::HalfOpen, RGBColor(0xE6, 0x9F, 0x00)),
];

/// Draws the chart into a file, with the folders it needs.
pub(crate) fn draw(file: &Path, scenario: &Scenario, report: &Report) -> Result<(), BoxError> {
    if let Some(folder) = file.parent() {
        fs::create_dir_all(folder)?;
    }
    fs::write(file, svg(scenario, report)?)?;
    Ok(())
}

/// The chart as SVG.
pub(crate) fn svg(scenario: &Scenario, report: &Report) -> Result<String, BoxError> {
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, SIZE).into_drawing_area();
        paint(&area, scenario, report).map_err(|error| error.to_string())?;
        area.present().map_err(|error| error.to_string())?;
    }
    Ok(svg)
}

type Area<'s> = DrawingArea<SVGBackend<'s>, Shift>;
type Chart<'a, 's> = ChartContext<'a, SVGBackend<'s>, Cartesian2d<RangedCoordf64, RangedCoordf64>>;
type Drawn<'s> = Result<(), DrawingAreaErrorKind<<SVGBackend<'s> as DrawingBackend>::ErrorType>>;

/// Three charts over the same seconds.
fn paint<'s>(area: &Area<'s>, scenario: &Scenario, report: &Report) -> Drawn<'s> {
    area.fill(&WHITE)?;
    let (requests, rest) = area.split_vertically(REQUESTS_END);
    let (tokens, states) = rest.split_vertically(TOKENS_END - REQUESTS_END);
    paint_requests(&requests, scenario, report)?;
    paint_tokens(&tokens, scenario, report)?;
    paint_states(&states, scenario, report)
}

/// The end of the run, and when the outage begins and ends, in seconds.
fn seconds(scenario: &Scenario) -> (f64, f64, f64) {
    let (down, up) = scenario.down();
    let end = scenario.scaled(scenario.length());
    (end.as_secs_f64(), down.as_secs_f64(), up.as_secs_f64())
}

fn text(size: u32) -> TextStyle<'static> {
    ("sans-serif", size).into_font().color(&TEXT)
}

/// The outage, shaded, and about this many lines.
fn paint_mesh<'s>(
    chart: &mut Chart<'_, 's>,
    scenario: &Scenario,
    top: f64,
    lines: usize,
    what: &str,
) -> Drawn<'s> {
    let (_, down, up) = seconds(scenario);
    let outage = Rectangle::new([(down, 0.0), (up, top)], SHADE.filled());
    chart.draw_series([outage])?;
    chart
        .configure_mesh()
        .disable_x_mesh()
        .light_line_style(TRANSPARENT)
        .bold_line_style(MESH)
        .axis_style(TEXT)
        .x_labels(0)
        .y_labels(lines)
        .y_desc(what)
        .y_label_formatter(&|value| format!("{value:.0}"))
        .label_style(text(14))
        .draw()
}

fn paint_legend<'a, 's: 'a>(chart: &mut Chart<'a, 's>, margin: u32) -> Drawn<'s> {
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperRight)
        .margin(margin)
        .legend_area_size(32)
        .background_style(WHITE)
        .border_style(SHADE)
        .label_font(text(14))
        .draw()
}

fn paint_requests<'s>(area: &Area<'s>, scenario: &Scenario, report: &Report) -> Drawn<'s> {
    let peak = report.runs.iter().flat_map(|run| &run.bins).max();
    let top = f64::from(peak.copied().unwrap_or(0)) * 1.18;
    let (end, down, up) = seconds(scenario);
    let mut chart = ChartBuilder::on(area)
        .caption("A payment API during a deploy, and four clients", text(22))
        .margin(16)
        .margin_bottom(4)
        .x_label_area_size(8)
        .y_label_area_size(56)
        .build_cartesian_2d(0.0..end, 0.0..top)?;
    paint_mesh(&mut chart, scenario, top, 11, "requests per 100 ms")?;
    let place = (down + (up - down) * 0.02, top * 0.97);
    let outage = Text::new("outage: the API answers 503", place, text(14));
    chart.draw_series([outage])?;

    for (run, (colour, width)) in report.runs.iter().zip(LINES) {
        let line = colour.stroke_width(width);
        chart
            .draw_series(LineSeries::new(points(run, end), line))?
            .label(run.name)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 24, y)], line));
    }
    paint_legend(&mut chart, 12)
}

/// What the budgets held, where there was one.
fn paint_tokens<'s>(area: &Area<'s>, scenario: &Scenario, report: &Report) -> Drawn<'s> {
    let top = watch::full() * 1.1;
    let (end, ..) = seconds(scenario);
    let mut chart = ChartBuilder::on(area)
        .margin(16)
        .margin_top(4)
        .margin_bottom(4)
        .x_label_area_size(8)
        .y_label_area_size(56)
        .build_cartesian_2d(0.0..end, 0.0..top)?;
    paint_mesh(&mut chart, scenario, top, 3, "tokens left")?;
    for (run, (colour, width)) in report.runs.iter().zip(LINES) {
        if !run.tokens.is_empty() {
            let line = LineSeries::new(steps(&run.tokens, end), colour.stroke_width(width));
            chart.draw_series(line)?;
        }
    }
    Ok(())
}

/// The states of the one breaker that there is.
fn paint_states<'s>(area: &Area<'s>, scenario: &Scenario, report: &Report) -> Drawn<'s> {
    let (end, ..) = seconds(scenario);
    let mut chart = ChartBuilder::on(area)
        .margin(16)
        .margin_top(4)
        .x_label_area_size(44)
        .y_label_area_size(56)
        .build_cartesian_2d(0.0..end, 0.0..1.0)?;
    chart
        .configure_mesh()
        .disable_mesh()
        .axis_style(TEXT)
        .y_labels(0)
        .x_desc("seconds")
        .y_desc("breaker")
        .x_label_formatter(&|seconds| format!("{seconds:.0}"))
        .label_style(text(14))
        .draw()?;
    let states = report.runs.iter().map(|run| &run.states);
    let Some(states) = states.into_iter().find(|states| !states.is_empty()) else {
        return Ok(());
    };
    for (state, colour) in STATES {
        let spans = spans(states, end)
            .filter(|(entered, ..)| *entered == state)
            .map(|(_, from, to)| Rectangle::new([(from, 0.0), (to, 1.0)], colour.filled()));
        chart
            .draw_series(spans)?
            .label(state.as_str())
            .legend(move |(x, y)| Rectangle::new([(x, y - 5), (x + 24, y + 5)], colour.filled()));
    }
    paint_legend(&mut chart, 4)
}

/// The middle of each bin, and the requests in it; none after the last arrival.
fn points(run: &Run, end: f64) -> impl Iterator<Item = (f64, f64)> {
    let bin = BIN.as_secs_f64();
    (0_u32..)
        .map(move |nth| (f64::from(nth) + 0.5) * bin)
        .take_while(move |at| *at < end)
        .zip(run.bins.iter().copied().chain(std::iter::repeat(0)))
        .map(|(at, requests)| (at, f64::from(requests)))
}

/// A line that stays where it is until it changes. It starts with a full budget.
fn steps(changes: &[(f64, f64)], end: f64) -> Vec<(f64, f64)> {
    let mut holds = watch::full();
    let mut line = vec![(0.0, holds)];
    for &(at, tokens) in changes.iter().filter(|(at, _)| *at < end) {
        line.extend([(at, holds), (at, tokens)]);
        holds = tokens;
    }
    line.push((end, holds));
    line
}

/// Each state with its beginning and its end. It starts closed, and none is too short to be seen.
fn spans(
    entered: &[(f64, CircuitState)],
    end: f64,
) -> impl Iterator<Item = (CircuitState, f64, f64)> {
    let starts = [(0.0, CircuitState::Closed)];
    let starts = starts.into_iter().chain(entered.iter().copied());
    let ends = entered.iter().map(|(at, _)| *at).chain([end]);
    starts.zip(ends).map(move |((from, state), to)| {
        let seen = from + end * 0.003;
        (state, from.min(end), to.max(seen).min(end))
    })
}
