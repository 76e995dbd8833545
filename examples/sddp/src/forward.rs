//! The forward pass: runs the policy along sampled inflows, to find its cost and the storages it reaches.

use comm_factory::api::{Communicator, SharedMemoryProvider};

use super::failure::Failure;
use super::policy::Policy;
use super::split::{block, counts, map};
use super::subproblem;
use super::team::Team;
use super::work::Work;

/// Runs this rank's block of scenarios; returns the costs of all scenarios, in order, and shares all points on `board`.
pub(crate) fn run<C: Communicator + SharedMemoryProvider>(
    team: &mut Team<'_, C>,
    work: &Work<'_>,
    board: &mut C::Region<f64>,
    policy: &Policy,
) -> Result<Vec<f64>, Failure> {
    let case = work.case;
    let (scenarios, ranks) = (case.scenarios(), team.comm.size());
    let mine = block(scenarios, ranks, team.comm.rank());
    let paths =
        team.together(|| map(mine, work.threads, |scenario| path(work, policy, scenario)))?;
    let mut costs = Vec::with_capacity(paths.len());
    let mut points = Vec::new();
    for (cost, storages) in paths {
        costs.push(cost);
        points.extend(storages);
    }
    team.exchange(&points, board)?;
    Ok(team.gather(&costs, &counts(scenarios, ranks, 1))?)
}

/// Follows one scenario, and returns its cost and its storages.
fn path(work: &Work<'_>, policy: &Policy, scenario: usize) -> Result<(f64, Vec<f64>), String> {
    let (case, iteration) = (&work.case, policy.iterations());
    let mut storage = case.start();
    let mut points = Vec::with_capacity((case.stages() - 1) * case.plants.len());
    let mut cost = 0.0;
    for stage in 0..case.stages() {
        let opening = case.sample(iteration as u64, scenario as u64, stage);
        let cuts = &policy.cuts[stage];
        let dispatch = subproblem::solve(case, stage, opening, &storage, cuts)
            .map_err(|why| work.explain(why, iteration, stage, scenario, opening))?;
        cost += dispatch.stage_cost;
        storage = dispatch.storage;
        if stage + 1 < case.stages() {
            points.extend_from_slice(&storage);
        }
    }
    Ok((cost, points))
}
