//! A picture of the bounds, as SVG. Some lines and letters: no crate is needed for that.

use std::fmt::Write;

use super::policy::Policy;

const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 440.0;
const LEFT: f64 = 92.0;
const RIGHT: f64 = 20.0;
const TOP: f64 = 48.0;
const BOTTOM: f64 = 56.0;

const LOWER: &str = "#1f5fa8";
const UPPER: &str = "#c2571a";

/// Maps iterations and costs to places on the picture.
struct Scale {
    last: f64,
    low: f64,
    high: f64,
}

impl Scale {
    fn x(&self, iteration: f64) -> f64 {
        LEFT + (WIDTH - LEFT - RIGHT) * (iteration - 1.0) / (self.last - 1.0).max(1.0)
    }

    fn y(&self, cost: f64) -> f64 {
        let part = (cost - self.low) / (self.high - self.low);
        HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * part
    }
}

/// Draws the lower and the upper bound over the iterations.
pub(crate) fn bounds(policy: &Policy) -> String {
    let steps: Vec<f64> = (1..=policy.iterations()).map(number).collect();
    let Policy {
        lower,
        upper,
        spread,
        ..
    } = policy;
    let band = |sign: f64| upper.iter().zip(spread).map(move |(u, s)| u + sign * s);
    let lowest = lower.iter().copied().chain(band(-1.0)).reduce(f64::min);
    let highest = lower.iter().copied().chain(band(1.0)).reduce(f64::max);
    let (lowest, highest) = (lowest.unwrap_or(0.0), highest.unwrap_or(1.0));
    let step = tick((highest - lowest).max(1e-9 * highest.abs()).max(1e-9));
    let scale = Scale {
        last: number(steps.len()),
        low: (lowest / step).floor() * step,
        high: ((highest / step).floor() + 1.0) * step,
    };
    let mut svg = frame(&scale, step, steps.len());
    let points = |ys: Vec<f64>| {
        let points = steps.iter().zip(ys);
        points
            .map(|(x, y)| format!("{:.1},{:.1}", scale.x(*x), scale.y(y)))
            .collect::<Vec<_>>()
    };
    let mut around = points(band(1.0).collect());
    around.extend(points(band(-1.0).collect()).into_iter().rev());
    // Writing to a string does not fail, here and below.
    let _ = writeln!(
        svg,
        r#"<polygon points="{}" fill="{UPPER}" fill-opacity="0.15"/>"#,
        around.join(" ")
    );
    for (ys, colour) in [(upper, UPPER), (lower, LOWER)] {
        let points = points(ys.clone());
        let _ = writeln!(
            svg,
            r#"<polyline points="{}" fill="none" stroke="{colour}" stroke-width="2"/>"#,
            points.join(" ")
        );
        for point in points {
            let (x, y) = point.split_once(',').unwrap_or_default();
            let _ = writeln!(
                svg,
                r#"<circle cx="{x}" cy="{y}" r="2.5" fill="{colour}"/>"#
            );
        }
    }
    svg + "</svg>\n"
}

/// Draws what stands around the lines: title, legend, axes and their numbers.
fn frame(scale: &Scale, step: f64, iterations: usize) -> String {
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{HEIGHT}\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" \
         font-family=\"sans-serif\" font-size=\"13\" fill=\"#333\">\n\
         <rect width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"white\"/>\n"
    );
    let mut text = |x: f64, y: f64, anchor: &str, more: &str, words: &str| {
        let _ = writeln!(
            svg,
            r#"<text x="{x:.1}" y="{y:.1}" text-anchor="{anchor}"{more}>{words}</text>"#
        );
    };
    let (right, bottom) = (WIDTH - RIGHT, HEIGHT - BOTTOM);
    text(
        LEFT,
        28.0,
        "start",
        r#" font-size="15" font-weight="bold""#,
        "Expected cost of the policy",
    );
    text(
        right,
        20.0,
        "end",
        &format!(r#" fill="{UPPER}""#),
        "upper bound: mean of the scenarios, 95 %",
    );
    text(
        right,
        38.0,
        "end",
        &format!(r#" fill="{LOWER}""#),
        "lower bound",
    );
    text(
        f64::midpoint(LEFT, right),
        HEIGHT - 14.0,
        "middle",
        "",
        "iteration",
    );
    let middle = f64::midpoint(TOP, bottom);
    text(
        18.0,
        middle,
        "middle",
        &format!(r#" transform="rotate(-90 18 {middle:.1})""#),
        "cost",
    );
    let mut lines = Vec::new();
    let decimals = if step < 1.0 { 3 } else { 0 };
    let mut level = scale.low;
    while level <= scale.high + step / 2.0 {
        let y = scale.y(level);
        text(
            LEFT - 8.0,
            y + 4.5,
            "end",
            "",
            &format!("{level:.decimals$}"),
        );
        lines.push([LEFT, y, right, y]);
        level += step;
    }
    let last = iterations;
    let every = [1, 2, 5, 10, 20, 50, 100, 200, 500].into_iter();
    let every = every
        .clone()
        .find(|every| last <= 12 * every)
        .unwrap_or(last);
    let marks = std::iter::once(1).chain((every..=last).step_by(every).filter(|&mark| mark > 1));
    for iteration in marks {
        let x = scale.x(number(iteration));
        text(x, bottom + 20.0, "middle", "", &format!("{iteration}"));
        lines.push([x, bottom, x, bottom + 5.0]);
    }
    for [x1, y1, x2, y2] in lines {
        let _ = writeln!(
            svg,
            r##"<line x1="{x1:.1}" y1="{y1:.1}" x2="{x2:.1}" y2="{y2:.1}" stroke="#ddd"/>"##
        );
    }
    svg
}

/// Gives 1, 2 or 5 times a power of ten, about a sixth of `range`.
fn tick(range: f64) -> f64 {
    let unit = 10f64.powf((range / 60.0).log10().ceil());
    let factors = [1.0, 2.0, 5.0].into_iter();
    let fits = factors
        .map(|factor| factor * unit)
        .find(|step| step * 8.0 >= range);
    fits.unwrap_or(10.0 * unit)
}

fn number(count: usize) -> f64 {
    f64::from(u32::try_from(count).unwrap_or(u32::MAX))
}
