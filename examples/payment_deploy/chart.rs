//! The chart: requests per 100 ms for each run, the outage shaded.

use std::error::Error;
use std::fs;
use std::path::Path;

use plotters::prelude::*;
use tower_composure::BoxError;

use crate::report::{Report, Run};
use crate::scenario::{BIN, Scenario};

const SIZE: (u32, u32) = (960, 480);
const SHADE: RGBColor = RGBColor(0xE8, 0xE8, 0xEC);
const TEXT: RGBColor = RGBColor(0x33, 0x33, 0x33);

/// A colour and a width for each run, in order: told apart by colour-blind eyes as well (Okabe and Ito), and the first
/// one broad enough to be seen under the others.
const LINES: [(RGBColor, u32); 4] = [
    (RGBColor(0xB0, 0xB0, 0xB0), 5),
    (RGBColor(0xD5, 0x5E, 0x00), 2),
    (RGBColor(0x00, 0x72, 0xB2), 2),
    (RGBColor(0x00, 0x9E, 0x73), 2),
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

fn paint<'a>(
    area: &DrawingArea<SVGBackend<'a>, plotters::coord::Shift>,
    scenario: &Scenario,
    report: &Report,
) -> Result<(), DrawingAreaErrorKind<<SVGBackend<'a> as DrawingBackend>::ErrorType>>
where
    <SVGBackend<'a> as DrawingBackend>::ErrorType: Error + Send + Sync,
{
    let peak = report.runs.iter().flat_map(|run| &run.bins).max();
    let top = f64::from(peak.copied().unwrap_or(0)) * 1.18;
    let end = scenario.scaled(scenario.length()).as_secs_f64();
    let (down, up) = scenario.down();
    let (down, up) = (down.as_secs_f64(), up.as_secs_f64());

    area.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(area)
        .caption(
            "A payment API during a deploy, and four clients",
            ("sans-serif", 22).into_font().color(&TEXT),
        )
        .margin(16)
        .x_label_area_size(44)
        .y_label_area_size(56)
        .build_cartesian_2d(0.0..end, 0.0..top)?;
    let outage = Rectangle::new([(down, 0.0), (up, top)], SHADE.filled());
    chart.draw_series([outage])?;
    chart
        .configure_mesh()
        .disable_x_mesh()
        .light_line_style(TRANSPARENT)
        .bold_line_style(RGBColor(0xD8, 0xD8, 0xD8))
        .axis_style(TEXT)
        .x_desc("seconds")
        .y_desc("requests per 100 ms")
        .x_label_formatter(&|seconds| format!("{seconds:.0}"))
        .y_label_formatter(&|requests| format!("{requests:.0}"))
        .label_style(("sans-serif", 14).into_font().color(&TEXT))
        .draw()?;
    let label = ("sans-serif", 14).into_font().color(&TEXT);
    let place = (down + (up - down) * 0.02, top * 0.97);
    chart.draw_series([Text::new("outage: the API answers 503", place, label)])?;

    for (run, (colour, width)) in report.runs.iter().zip(LINES) {
        let line = colour.stroke_width(width);
        chart
            .draw_series(LineSeries::new(points(run, end), line))?
            .label(run.name)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 24, y)], line));
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperRight)
        .margin(12)
        .legend_area_size(32)
        .background_style(WHITE)
        .border_style(SHADE)
        .label_font(("sans-serif", 14).into_font().color(&TEXT))
        .draw()
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
