//! The iterations: forward, backward, bounds, checkpoint, until the lower bound converges.

use std::time::Instant;

use comm_factory::api::{Communicator, ReduceOp, SharedMemoryProvider, SharedRegion};

use super::boards::Boards;
use super::failure::Failure;
use super::options::Options;
use super::policy::Policy;
use super::report::Printer;
use super::setup::Regions;
use super::team::Team;
use super::work::Work;
use super::{backward, checkpoint, forward, subproblem};

/// The variable with the number of restarts by the launcher. A restarted job continues from its last checkpoint.
const RESTART: &str = "COBRE_RESTART";

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
    let mut boards = Boards::new(comm, &case)?;
    let mut policy = Policy::new(case.stages(), case.plants.len());
    let start_number = std::env::var(RESTART).ok();
    match start_number.as_deref() {
        _ if options.resume => policy = resume(&mut team, &work, options)?,
        None => {}
        Some("0") => forget(&mut team, options)?,
        Some(_) => policy = resume(&mut team, &work, options)?,
    }
    let report = Printer::new(comm.rank() == 0);
    report.start(&case, comm.size(), backend, options, &policy);
    while !ended(&policy, options) {
        iterate(&mut team, &work, &mut boards, &mut policy)?;
        report.iteration(&policy, policy.iterations() - 1);
        if let Some(path) = &options.checkpoint {
            // So that no rank starts an iteration before the checkpoint contains the last one.
            comm.barrier()?;
            team.together(|| match comm.rank() {
                0 => checkpoint::write(path, &checkpoint::encode(&policy, &case)),
                _ => Ok(()),
            })?;
        }
    }
    let rows = Printer::rows(&mut team)?;
    report.end(&policy, options, &rows, start.elapsed());
    team.together(|| report.plot(&policy, options))?;
    Ok(policy)
}

fn ended(policy: &Policy, options: &Options) -> bool {
    policy.iterations() as u64 >= options.iterations || policy.converged(options.tolerance)
}

/// Runs one forward and one backward pass and adds both bounds.
fn iterate<C: Communicator + SharedMemoryProvider>(
    team: &mut Team<'_, C>,
    work: &Work<'_>,
    boards: &mut Boards<C>,
    policy: &mut Policy,
) -> Result<(), Failure> {
    let Boards { points, cuts } = boards;
    let costs = forward::run(team, work, points, policy)?;
    backward::run(team, work, points.as_slice(), cuts, policy)?;
    team.release(points)?;
    let lower = team.together(|| {
        let (case, iteration) = (&work.case, policy.iterations());
        subproblem::solve(case, 0, 0, &case.start(), &policy.cuts[0])
            .map(|dispatch| dispatch.cost)
            .map_err(|why| work.explain(why, iteration, 0, 0, 0))
    })?;
    policy.lower.push(agree(team, lower)?);
    policy.add_upper(&costs);
    Ok(())
}

/// Checks that all ranks have the same bits of the lower bound, because they solved the same program, and returns it.
fn agree<C: Communicator + SharedMemoryProvider>(
    team: &mut Team<'_, C>,
    lower: f64,
) -> Result<f64, Failure> {
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

/// Removes the checkpoint of an earlier job, because a restart of this one would take it for its own.
fn forget<C: Communicator + SharedMemoryProvider>(
    team: &mut Team<'_, C>,
    options: &Options,
) -> Result<(), Failure> {
    match &options.checkpoint {
        Some(path) if team.comm.rank() == 0 => team.together(|| checkpoint::remove(path)),
        _ => team.together(|| Ok(())),
    }
}

/// Reads the checkpoint on rank 0 and sends it to all ranks. A job that failed before its first checkpoint starts from scratch.
fn resume<C: Communicator + SharedMemoryProvider>(
    team: &mut Team<'_, C>,
    work: &Work<'_>,
    options: &Options,
) -> Result<Policy, Failure> {
    let path = options.checkpoint.clone().unwrap_or_default();
    let first = team.comm.rank() == 0;
    let is_missing = || !options.resume && !path.exists();
    let bytes = team.together(|| {
        if first && !is_missing() {
            checkpoint::read(&path)
        } else {
            Ok(Vec::new())
        }
    })?;
    let bytes = team.share_bytes(bytes)?;
    if bytes.is_empty() && !options.resume {
        return Ok(Policy::new(work.case.stages(), work.case.plants.len()));
    }
    team.together(|| {
        checkpoint::decode(&bytes, &work.case)
            .map_err(|why| format!("the checkpoint {} cannot be used: {why}", path.display()))
    })
}
