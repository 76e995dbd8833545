//! The backward pass: computes the value of stored water, from the last stage to the first.

use comm_factory::api::{Communicator, SharedMemoryProvider, SharedRegion};

use super::cuts::Cuts;
use super::failure::Failure;
use super::policy::Policy;
use super::split::{block, map};
use super::subproblem::{self, Dispatch};
use super::team::Team;
use super::work::Work;

/// Adds a cut per trial point to every stage; all ranks add the same cuts, in scenario order.
pub(crate) fn run<C: Communicator + SharedMemoryProvider>(
    team: &mut Team<'_, C>,
    work: &Work<'_>,
    points: &[f64],
    board: &mut C::Region<f64>,
    policy: &mut Policy,
) -> Result<(), Failure> {
    let case = work.case;
    let (plants, scenarios) = (case.plants.len(), case.scenarios());
    let (rank, ranks) = (team.comm.rank(), team.comm.size());
    let mine = block(scenarios, ranks, rank);
    let iteration = policy.iterations();
    for stage in (1..case.stages()).rev() {
        let point = |scenario: usize| {
            let start = (scenario * (case.stages() - 1) + stage - 1) * plants;
            &points[start..start + plants]
        };
        let cuts = team.together(|| {
            work.injected(rank, iteration)?;
            // A piece of work is one opening at one point, so that threads can share the work even with few points.
            let openings = case.openings();
            let pairs = mine.start * openings..mine.end * openings;
            let dispatches = map(pairs, work.threads, |pair| {
                let (scenario, opening) = (pair / openings, pair % openings);
                let (before, cuts) = (point(scenario), &policy.cuts[stage]);
                subproblem::solve(&case, stage, opening, before, cuts)
                    .map_err(|why| work.explain(why, iteration, stage, scenario, opening))
            })?;
            let mut numbers = Vec::with_capacity(mine.len() * Cuts::width(plants));
            for (scenario, dispatches) in mine.clone().zip(dispatches.chunks(openings)) {
                numbers.extend(mean_cut(dispatches, point(scenario)));
            }
            Ok(numbers)
        })?;
        team.exchange(&cuts, board)?;
        policy.cuts[stage - 1].extend(board.as_slice());
        team.release(board)?;
    }
    Ok(())
}

/// Returns the plane that touches the mean cost of the openings at a point: intercept, then slopes.
fn mean_cut(dispatches: &[Dispatch], point: &[f64]) -> Vec<f64> {
    let share = 1.0 / dispatches.iter().map(|_| 1.0).sum::<f64>();
    let mut cut = vec![0.0; Cuts::width(point.len())];
    for dispatch in dispatches {
        cut[0] += share * dispatch.cost;
        for (slope, value) in cut[1..].iter_mut().zip(&dispatch.water_value) {
            *slope += share * value;
        }
    }
    for (plant, water) in point.iter().enumerate() {
        cut[0] -= cut[1 + plant] * water;
    }
    cut
}
