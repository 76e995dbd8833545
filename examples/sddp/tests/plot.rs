//! The plot of the bounds: whole, also with no iteration or one.

use libtest_mimic::Trial;

use super::job::{Place, RANK, prepare, run, scratch};

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
    let ran = run(prepare(Place::Shm(2), RANK, &arguments)?)?;
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
    Ok(())
}
