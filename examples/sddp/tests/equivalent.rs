//! The bounds are right: compares them with one linear program for the whole tree of inflows.

use clap::Parser;
use libtest_mimic::Trial;
use sddp_dispatch::lp::Variable;
use sddp_dispatch::model::{Case, Draft, fill_tree};
use sddp_dispatch::subproblem::{Columns, balance, columns, supply};

use super::certificate::Written;
use super::job::{Transport, policy, scratch};
use super::sddp::options::Options;

pub(crate) fn trials() -> Vec<Trial> {
    let cases = [
        "--stages 4 --plants 3 --openings 3 --scenarios 6 --iterations 60 --seed 1",
        "--stages 3 --plants 5 --openings 5 --scenarios 5 --iterations 80 --seed 2",
        "--stages 2 --plants 1 --openings 7 --scenarios 3 --iterations 40 --seed 3",
        "--stages 7 --plants 2 --openings 2 --scenarios 4 --iterations 80 --seed 4",
    ];
    let trial =
        |case: &'static str| Trial::test(format!("bounds::{case}"), move || Ok(bounds(case)?));
    let mut trials: Vec<Trial> = cases.map(trial).into();
    trials.push(Trial::test(
        "bounds::a_case_with_large_values_on_the_way",
        || Ok(large()?),
    ));
    trials
}

/// The dual method may pass through values of any size; their rounding errors must not make a program look infeasible.
fn large() -> Result<(), String> {
    let (_folder, file) = scratch()?;
    let case = "--stages 48 --plants 8 --openings 20 --scenarios 16 --iterations 1";
    policy(Transport::Shm(2), case, &file).map(drop)
}

/// The lower bound never exceeds the optimum and reaches it, each within 1e-6 of it.
fn bounds(case: &str) -> Result<(), String> {
    let (_folder, file) = scratch()?;
    let bytes = policy(Transport::Shm(2), &format!("{case} --tolerance 0"), &file)?;
    let options = Options::parse_from(["sddp"].into_iter().chain(case.split_whitespace()));
    let optimum = optimum(&options)?;
    let trace = lower_bounds(&bytes);
    let mut before = 0.0;
    for (iteration, lower) in trace.iter().enumerate() {
        if *lower > optimum * (1.0 + 1e-6) {
            return Err(format!(
                "{lower} in iteration {iteration} exceeds {optimum}"
            ));
        }
        if *lower < before * (1.0 - 1e-9) {
            return Err(format!(
                "{lower} in iteration {iteration} is less than before"
            ));
        }
        before = *lower;
    }
    if before < optimum * (1.0 - 1e-6) {
        return Err(format!(
            "{before} after {} iterations does not reach {optimum}",
            trace.len()
        ));
    }
    Ok(())
}

/// Reads the trace from a policy: after five words and the number of cuts of each stage.
fn lower_bounds(bytes: &[u8]) -> Vec<f64> {
    let words: Vec<u64> = bytes
        .as_chunks()
        .0
        .iter()
        .map(|w| u64::from_le_bytes(*w))
        .collect();
    let [iterations, stages] = [words[2], words[3]].map(|word| usize::try_from(word).unwrap_or(0));
    let trace = &words[5 + stages..][..iterations];
    trace.iter().map(|word| f64::from_bits(*word)).collect()
}

/// Solves the deterministic equivalent: one program with every stage of every possible path of inflows.
fn optimum(options: &Options) -> Result<f64, String> {
    let header = options.header();
    let draft = Draft::new(header);
    let plants = draft.plants.len();
    let nodes = draft.demand.len() * usize::try_from(header.openings).unwrap_or(0);
    let mut tree = vec![0.0; nodes * plants];
    fill_tree(&header, &draft.plants, 0, &mut tree);
    let case = Case {
        header,
        plants: &draft.plants,
        thermals: &draft.thermals,
        demand: &draft.demand,
        tree: &tree,
    };
    let mut written = Written::default();
    let mut parents: Vec<(Option<Columns>, f64)> = vec![(None, 1.0)];
    for stage in 0..case.stages() {
        let openings = if stage == 0 { 1 } else { case.openings() };
        let mut children = Vec::new();
        for (parent, probability) in parents {
            let share: f64 = (0..openings).map(|_| 1.0).sum();
            for opening in 0..openings {
                let probability = probability / share;
                let names = add_node(&mut written, &case, stage, opening, parent, probability);
                children.push((Some(names), probability));
            }
        }
        parents = children;
    }
    written
        .solve()
        .map_err(|why| format!("the equivalent: {why}"))
}

/// Adds one stage of one path, which starts with the water that its parent stage leaves.
fn add_node(
    written: &mut Written,
    case: &Case<'_>,
    stage: usize,
    opening: usize,
    parent: Option<Columns>,
    probability: f64,
) -> Columns {
    let first: Variable = written.columns.len();
    let names = Columns::of(case, first);
    let own = columns(case, stage).into_iter();
    written
        .columns
        .extend(own.map(|(cost, lower, upper)| (probability * cost, lower, upper)));
    let (start, inflows) = (case.start(), case.inflows(stage, opening));
    for plant in 0..case.plants.len() {
        let mut row = balance(case, names, plant);
        let mut right = inflows[plant];
        match parent {
            Some(parent) => row.push((parent.storage(plant), -1.0)),
            None => right += start[plant],
        }
        written.rows.push((row, right, right));
    }
    let demand = case.demand[stage];
    written.rows.push((supply(case, names), demand, demand));
    names
}
