//! The plot of the bounds is complete, also with no iteration or one, and has both edges of its band.

use libtest_mimic::Trial;

use super::job::{RANK, Transport, prepare, run, scratch};

pub(crate) fn trials() -> Vec<Trial> {
    let trial = |iterations: usize| {
        let name = format!("plot::{iterations} iterations");
        Trial::test(name, move || Ok(labelled(iterations)?))
    };
    [0, 1, 4].map(trial).into()
}

/// Title, axes, legend and a point for every bound of every iteration.
fn labelled(iterations: usize) -> Result<(), String> {
    let (folder, _) = scratch()?;
    let file = folder.path().join("bounds.svg");
    let arguments = format!(
        "--stages 3 --plants 2 --scenarios 4 --iterations {iterations} --tolerance 0 --plot {}",
        file.display()
    );
    let ran = run(prepare(Transport::Shm(2), RANK, &arguments)?)?;
    if !ran.outcome.success() {
        return Err(ran.text());
    }
    let svg = std::fs::read_to_string(&file).map_err(|why| why.to_string())?;
    let words = [
        "Expected cost of the policy",
        "iteration",
        "cost",
        "lower bound",
        "upper bound (mean of the scenarios)",
        "95 % confidence of the upper bound",
        "</svg>",
    ];
    for word in words {
        if !svg.contains(word) {
            return Err(format!("no '{word}' in\n{svg}"));
        }
    }
    let points = svg.matches("<circle").count();
    if points != 2 * iterations || svg.contains("NaN") {
        return Err(format!("{points} points in\n{svg}"));
    }
    band(&svg, iterations).map_err(|why| format!("{why} in\n{svg}"))
}

/// The band has one edge above the upper bound and one below it, equally far: in every iteration the upper bound is in the middle. In
/// a picture y grows downwards.
fn band(svg: &str, iterations: usize) -> Result<(), String> {
    let corners = attribute(svg, "<polygon", "points").unwrap_or_default();
    let corners: Vec<i32> = corners
        .split_whitespace()
        .filter_map(|corner| corner.split_once(',')?.1.parse().ok())
        .collect();
    // The points with the colour of the band are those of the upper bound.
    let middle: Vec<i32> = svg
        .lines()
        .filter(|line| line.contains("#C2571A"))
        .filter_map(|line| attribute(line, "<circle", "cy")?.parse().ok())
        .collect();
    if corners.len() != 2 * iterations || middle.len() != iterations {
        return Err(format!("a band of {corners:?} around {middle:?}"));
    }
    let (above, below) = corners.split_at(iterations);
    for ((above, below), middle) in above.iter().zip(below.iter().rev()).zip(middle) {
        // Each coordinate is rounded to a whole pixel.
        let is_around = *above < middle && middle < *below;
        if !is_around || (above + below - 2 * middle).abs() > 2 {
            return Err(format!("edges {above} and {below} around {middle}"));
        }
    }
    Ok(())
}

/// Returns the value of an attribute of the first such element.
fn attribute<'a>(svg: &'a str, element: &str, name: &str) -> Option<&'a str> {
    let (_, rest) = svg.split_once(element)?;
    let (_, value) = rest.split_once(&format!(" {name}=\""))?;
    Some(value.split_once('"')?.0)
}
