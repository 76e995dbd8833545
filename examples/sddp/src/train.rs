//! The iterations: forward, backward, bounds, checkpoint, until the lower bound converges.

use std::time::Instant;

use comm_factory::api::{Communicator, ReduceOp, SharedMemoryProvider};

use super::failure::Failure;
use super::options::Options;
use super::policy::Policy;
use super::report::Report;
use super::setup::Regions;
use super::team::Team;
use super::work::Work;
use super::{backward, checkpoint, forward, subproblem};

/// Solves the case of the options on all ranks of `comm`; every rank gets the same policy.
///
/// # Errors
///
/// Returns the same cause on every rank.
pub(crate) fn train<C: Communicator + SharedMemoryProvider>(
    comm: &C,
    backend: &str,
    options: &Options,
) -> Result<Policy, Failure> {
    let start = Instant::now();
    let mut team = Team::new(comm);
    let regions = Regions::new(comm, options.header())?;
    let case = regions.case();
    let work = Work {
        case,
        threads: options.threads(),
        inject_error: options.inject_error,
    };
    let mut policy = Policy::new(case.stages(), case.plants.len());
    if options.resume {
        policy = resume(&mut team, &work, options)?;
    }
    let report = Report::new(comm.rank() == 0);
    report.start(&case, comm.size(), backend, options, &policy);
    while !ended(&policy, options) {
        iterate(&mut team, &work, &mut policy)?;
        report.iteration(&policy, policy.iterations() - 1);
        if let Some(path) = &options.checkpoint {
            // No rank is in an iteration that the checkpoint does not hold.
            comm.barrier()?;
            team.together(|| match comm.rank() {
                0 => checkpoint::write(path, &checkpoint::encode(&policy, &case)),
                _ => Ok(()),
            })?;
        }
    }
    let rows = Report::rows(&mut team)?;
    report.end(&policy, options, &rows, start.elapsed());
    team.together(|| report.plot(&policy, options))?;
    Ok(policy)
}

fn ended(policy: &Policy, options: &Options) -> bool {
    policy.iterations() as u64 >= options.iterations || policy.converged(options.tolerance)
}

/// Runs one forward and one backward pass and adds both bounds.
fn iterate<C: Communicator>(
    team: &mut Team<'_, C>,
    work: &Work<'_>,
    policy: &mut Policy,
) -> Result<(), Failure> {
    let forward = forward::run(team, work, policy)?;
    backward::run(team, work, policy, &forward.points)?;
    let lower = team.together(|| {
        let (case, iteration) = (&work.case, policy.iterations());
        subproblem::solve(case, 0, 0, &case.start(), &policy.cuts[0])
            .map(|dispatch| dispatch.cost)
            .map_err(|why| work.explain(why, iteration, 0, 0, 0))
    })?;
    policy.lower.push(agree(team, lower)?);
    policy.add_upper(&forward.costs);
    Ok(())
}

/// Checks that all ranks found the same lower bound, to the bit, and returns it: they solved the same program.
fn agree<C: Communicator>(team: &mut Team<'_, C>, lower: f64) -> Result<f64, Failure> {
    let start = Instant::now();
    let mut bounds = [0.0; 2];
    team.comm
        .allreduce(&[lower, -lower], &mut bounds, ReduceOp::Min)?;
    team.times.communicating += start.elapsed();
    let (low, high) = (bounds[0], -bounds[1]);
    if low.to_bits() == high.to_bits() {
        Ok(low)
    } else {
        Err(Failure::Disagree { low, high })
    }
}

/// Reads the checkpoint on rank 0 and sends it to all ranks.
fn resume<C: Communicator>(
    team: &mut Team<'_, C>,
    work: &Work<'_>,
    options: &Options,
) -> Result<Policy, Failure> {
    let path = options.checkpoint.clone().unwrap_or_default();
    let first = team.comm.rank() == 0;
    let bytes = team.together(|| {
        if first {
            checkpoint::read(&path)
        } else {
            Ok(Vec::new())
        }
    })?;
    let bytes = team.share_bytes(bytes)?;
    team.together(|| {
        checkpoint::decode(&bytes, &work.case)
            .map_err(|why| format!("the checkpoint {} cannot be used: {why}", path.display()))
    })
}
