//! A picture of the bounds, as SVG.

use std::error::Error;
use std::ops::Range;

use plotters::prelude::*;

use super::policy::Policy;

const SIZE: (u32, u32) = (800, 480);
const FONT: &str = "sans-serif";
const LOWER: RGBColor = RGBColor(0x1f, 0x5f, 0xa8);
const UPPER: RGBColor = RGBColor(0xc2, 0x57, 0x1a);
const GRID: RGBColor = RGBColor(0xdd, 0xdd, 0xdd);
const TEXT: RGBColor = RGBColor(0x33, 0x33, 0x33);

/// Draws the lower and the upper bound over the iterations.
///
/// # Errors
///
/// If the picture cannot be drawn, which would be a bug, because it is drawn in memory.
pub(crate) fn bounds(policy: &Policy) -> Result<String, Box<dyn Error>> {
    let upper = policy.upper.iter().zip(&policy.spread);
    let above: Vec<f64> = upper
        .clone()
        .map(|(upper, spread)| upper + spread)
        .collect();
    let below: Vec<f64> = upper.map(|(upper, spread)| upper - spread).collect();
    let costs = range(policy.lower.iter().chain(&above).chain(&below));
    let decimals = if costs.end - costs.start < 10.0 { 3 } else { 0 };

    // Many points would hide the lines.
    let points = if policy.iterations() > 60 { 0 } else { 3 };

    let mut svg = String::new();
    let root = SVGBackend::with_string(&mut svg, SIZE).into_drawing_area();
    root.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(&root)
        .caption(
            "Expected cost of the policy",
            (FONT, 20).into_font().color(&TEXT),
        )
        .margin(16)
        .x_label_area_size(44)
        .y_label_area_size(84)
        .build_cartesian_2d(1..policy.iterations().max(2), costs)?;
    chart
        .configure_mesh()
        .disable_x_mesh()
        .light_line_style(TRANSPARENT)
        .bold_line_style(GRID)
        .axis_style(GRID)
        .label_style((FONT, 14).into_font().color(&TEXT))
        .axis_desc_style((FONT, 15).into_font().color(&TEXT))
        .x_desc("iteration")
        .y_desc("cost")
        .y_label_formatter(&|cost| format!("{cost:.decimals$}"))
        .draw()?;

    let outline: Vec<_> = numbered(&above).chain(numbered(&below).rev()).collect();
    chart
        .draw_series([Polygon::new(outline, UPPER.mix(0.15))])?
        .label("95 % confidence of the upper bound")
        .legend(|(x, y)| Rectangle::new([(x, y - 5), (x + 24, y + 5)], UPPER.mix(0.15).filled()));
    for (name, costs, colour) in [
        ("upper bound (mean of the scenarios)", &policy.upper, UPPER),
        ("lower bound", &policy.lower, LOWER),
    ] {
        let line =
            LineSeries::new(numbered(costs), colour.filled().stroke_width(2)).point_size(points);
        chart
            .draw_series(line)?
            .label(name)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 24, y)], colour.stroke_width(2)));
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperRight)
        .margin(0)
        .legend_area_size(32)
        .background_style(WHITE)
        .label_font((FONT, 14).into_font().color(&TEXT))
        .draw()?;
    root.present()?;
    drop(chart);
    drop(root);
    Ok(svg)
}

/// Pairs costs with their iterations, counted from 1.
fn numbered(costs: &[f64]) -> impl DoubleEndedIterator<Item = (usize, f64)> {
    costs
        .iter()
        .enumerate()
        .map(|(index, cost)| (index + 1, *cost))
}

/// Returns a range that contains all costs, with a margin and with room for the legend at the top.
fn range<'a>(costs: impl Iterator<Item = &'a f64>) -> Range<f64> {
    let (low, high) = costs.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), cost| {
        (low.min(*cost), high.max(*cost))
    });
    if low > high {
        return 0.0..1.0;
    }
    let span = (high - low).max(1.0);
    low - 0.05 * span..high + 0.3 * span
}
