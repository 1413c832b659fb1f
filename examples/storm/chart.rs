//! The chart of a scenario.

use std::error::Error;
use std::fs;
use std::path::Path;

use plotters::coord::Shift;
use plotters::prelude::*;
use tower_composure::BoxError;

use crate::table::Table;

const SIZE: (u32, u32) = (960, 480);
const SHADE: RGBColor = RGBColor(0xE8, 0xE8, 0xEC);
const TEXT: RGBColor = RGBColor(0x33, 0x33, 0x33);

/// Told apart by colour-blind eyes as well (Okabe and Ito), and the first one broad enough to be seen under the others.
const LINES: [(RGBColor, u32); 6] = [
    (RGBColor(0xB0, 0xB0, 0xB0), 5),
    (RGBColor(0xD5, 0x5E, 0x00), 2),
    (RGBColor(0xE6, 0x9F, 0x00), 2),
    (RGBColor(0xCC, 0x79, 0xA7), 2),
    (RGBColor(0x00, 0x72, 0xB2), 2),
    (RGBColor(0x00, 0x9E, 0x73), 2),
];

/// Draws the chart into a file, with the folders it needs.
pub(crate) fn draw(file: &Path, table: &Table) -> Result<(), BoxError> {
    if let Some(folder) = file.parent() {
        fs::create_dir_all(folder)?;
    }
    fs::write(file, svg(table)?)?;
    Ok(())
}

/// The chart as SVG.
pub(crate) fn svg(table: &Table) -> Result<String, BoxError> {
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, SIZE).into_drawing_area();
        paint(&area, table).map_err(|error| error.to_string())?;
        area.present().map_err(|error| error.to_string())?;
    }
    Ok(svg)
}

fn paint<'a>(
    area: &DrawingArea<SVGBackend<'a>, Shift>,
    table: &Table,
) -> Result<(), DrawingAreaErrorKind<<SVGBackend<'a> as DrawingBackend>::ErrorType>>
where
    <SVGBackend<'a> as DrawingBackend>::ErrorType: Error + Send + Sync,
{
    let lines = &table.chart.lines;
    let points = || lines.iter().flat_map(|line| &line.points);
    let end = points().map(|(x, _)| *x).fold(0.0, f64::max);
    let begin = points().map(|(x, _)| *x).fold(end, f64::min);
    let top = points().map(|(_, y)| *y).fold(0.0, f64::max);
    // Room for the legend.
    let top = top * lines.iter().fold(1.15, |room, _| room + 0.08);
    // From zero, unless the lines begin at a whole number.
    let begin = if begin < 1.0 { 0.0 } else { begin };

    area.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(area)
        .caption(
            table.title.as_str(),
            ("sans-serif", 20).into_font().color(&TEXT),
        )
        .margin(16)
        .x_label_area_size(44)
        .y_label_area_size(64)
        .build_cartesian_2d(begin..end, 0.0..top)?;
    if let Some((from, to)) = table.chart.shade {
        chart.draw_series([Rectangle::new([(from, 0.0), (to, top)], SHADE.filled())])?;
    }
    chart
        .configure_mesh()
        .disable_x_mesh()
        .light_line_style(TRANSPARENT)
        .bold_line_style(RGBColor(0xD8, 0xD8, 0xD8))
        .axis_style(TEXT)
        .x_desc(table.chart.x)
        .y_desc(table.chart.y)
        .x_label_formatter(&label)
        .y_label_formatter(&label)
        .label_style(("sans-serif", 14).into_font().color(&TEXT))
        .draw()?;
    for (line, (colour, width)) in lines.iter().zip(LINES) {
        let style = colour.stroke_width(width);
        chart
            .draw_series(LineSeries::new(line.points.iter().copied(), style))?
            .label(line.name.as_str())
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 24, y)], style));
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

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "plotters hands references"
)]
fn label(value: &f64) -> String {
    let places = usize::from(value.fract() != 0.0);
    format!("{value:.places$}")
}
