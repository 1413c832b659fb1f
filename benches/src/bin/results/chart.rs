//! Instructions of a call that succeeds, as bars.

use std::error::Error;

use composure_benches::cases::GROUPS;
use plotters::coord::Shift;
use plotters::prelude::*;

use crate::counts::Counts;
use crate::tools::Failure;

const WIDTH: u32 = 960;
const BAR: i32 = 24;
const LEFT: i32 = 200;
const TOP: i32 = 52;
const OURS: RGBColor = RGBColor(0x00, 0x9E, 0x73);
const THEIRS: RGBColor = RGBColor(0xB0, 0xB0, 0xB0);
const TEXT: RGBColor = RGBColor(0x33, 0x33, 0x33);

/// The first group, with ours told apart.
pub fn svg(counts: &Counts) -> Result<String, Failure> {
    let [first, ..] = &GROUPS;
    let bars: Vec<(&str, u64, bool)> = first
        .cases
        .iter()
        .map(|(name, most)| (*name, counts.instructions(name), most.is_some()))
        .collect();
    let rows = u32::try_from(bars.len())?;
    let height = TOP.unsigned_abs() + rows * BAR.unsigned_abs() + 16;
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, (WIDTH, height)).into_drawing_area();
        paint(&area, &bars).map_err(|error| error.to_string())?;
        area.present().map_err(|error| error.to_string())?;
    }
    Ok(svg)
}

fn paint<'a>(
    area: &DrawingArea<SVGBackend<'a>, Shift>,
    bars: &[(&str, u64, bool)],
) -> Result<(), DrawingAreaErrorKind<<SVGBackend<'a> as DrawingBackend>::ErrorType>>
where
    <SVGBackend<'a> as DrawingBackend>::ErrorType: Error + Send + Sync,
{
    let most = bars.iter().map(|bar| bar.1).max().unwrap_or(1).max(1);
    let room = WIDTH as i32 - LEFT - 90;
    let font = |size: i32| ("sans-serif", size).into_font().color(&TEXT);
    area.fill(&WHITE)?;
    let title = "Instructions of a call that succeeds at once";
    area.draw(&Text::new(title, (16, 16), font(20)))?;
    for ((name, instructions, ours), row) in bars.iter().zip(0..) {
        let top = TOP + row * BAR;
        let length = (*instructions as f64 / most as f64 * f64::from(room)) as i32;
        let colour = if *ours { OURS } else { THEIRS };
        let bar = [(LEFT, top), (LEFT + length, top + BAR - 6)];
        area.draw(&Rectangle::new(bar, colour.filled()))?;
        area.draw(&Text::new(*name, (16, top + 2), font(14)))?;
        let place = (LEFT + length + 8, top + 2);
        area.draw(&Text::new(instructions.to_string(), place, font(14)))?;
    }
    Ok(())
}
