//! The rank of a chaos job: runs the program of a seed under faults, and reports how it ended.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use clap::ValueEnum;
use comm_api::{CommError, Communicator};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use signal_hook::consts::SIGABRT;

use super::blocked_log::BlockedLog;
use super::fault::Fault;
use super::hoard::Hoard;
use super::plan::{Action, LeaveBy, Plan, Point};
use super::player::{FailedCall, Player};
use super::start_patience;
use super::step::ProgramStep;
use super::witness::{NO_START, NOTICE, Witness, kind_and_rank};
use crate::case::{Case, Verdict};
use crate::clause::Clause::{C6, C12, C13, C14};
use crate::clock::{self, Metronome};
use crate::report::Leaving;
use crate::run::Run;
use crate::subject::{Failure, Subject};

/// Lists the programs, one case per fault; only chaos starts them.
pub(crate) fn cases<S: Subject>() -> impl Iterator<Item = Case> {
    Fault::value_variants().iter().map(|&fault| {
        let name = super::case_name(fault);
        Case::new(name, &[C6, C12, C13, C14], move |run| {
            program::<S>(run, fault)
        })
        .deaths()
    })
}

/// The key of a rank that has begun, for rounds in which a rank is killed at the start.
const HERE: &str = "here";

fn program<S: Subject>(run: &Run, fault: Fault) -> Verdict {
    let seed = run.orders.seed;
    let plan = Plan::draw(fault, seed, run.size());
    let metronome = Metronome::start();
    // The handler of the flood of signals: it only counts, but every wait is interrupted.
    let heard = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register(signal_hook::consts::SIGHUP, heard)?;
    if plan.kills_at_start() {
        // A busy machine starts the ranks one by one: the first must not time out before the last has begun,
        // or no rank is left to be killed.
        run.post(HERE, "")?;
        run.wait_all(0..run.size(), HERE)?;
    }
    run.dawdle(plan.late[run.rank]);
    let mut seat = run.seat("");
    if let Some(timeout) = plan.timeout {
        seat = seat.with_timeout(timeout);
    }
    if (0..run.size()).any(|rank| plan.slows(rank)) {
        seat = seat.with_relay();
    }
    if plan.slows(run.rank) {
        seat = seat.over_slow_link();
    }
    let log = plan.blocks_logs().then(BlockedLog::install).transpose()?;
    if plan.kills_at_start() {
        seat = seat.with_connect_timeout(start_patience(run.size()));
    }
    announce(run, &plan, Point::Opening)?;
    let entered = clock::now();
    let comm = match run.open_seat::<S>(&seat) {
        Ok(comm) => comm,
        Err(error) if plan.kills_at_start() => {
            let told = clock::now();
            let slack = metronome.slack();
            return no_start(run, (entered, told, slack), error.as_ref());
        }
        Err(error) => return Err(error),
    };
    run.at(format_args!("making what lives as long as the program"));
    let mut player = match Player::new(comm, S::MODEL.memory) {
        Ok(player) => player,
        Err((comm, entered, error)) => {
            let times = (entered, clock::now());
            return testify(run, &comm, &metronome, times, FailedCall::Comm(error));
        }
    };
    let mut used_up = None;
    for index in 0..plan.steps.unwrap_or(usize::MAX) {
        announce(run, &plan, Point::Step(index))?;
        if plan.starves(run.rank) == Some(index) {
            used_up = Some(Hoard::new()?);
        }
        if let Some(way) = leaves_at(&plan, run.rank, index) {
            return leave(run, player, way, seed);
        }
        let step = ProgramStep::draw(seed, index, run.size());
        run.at(format_args!("step {index}: {step:?}"));
        if let Err(failed) = player.perform(&step, index) {
            let (entered, told) = (player.entered, clock::now());
            // The testimony takes a descriptor.
            drop(used_up.take());
            testify(run, &player.comm, &metronome, (entered, told), failed)?;
            break;
        }
    }
    drop(used_up);
    drop(log);
    player.leave(usize::try_from(seed % 3).unwrap_or(0));
    Ok(())
}

/// Notifies the driver that this rank has reached `point`, if the plan has an injection there.
fn announce(run: &Run, plan: &Plan, point: Point) -> Verdict {
    match plan.at(run.rank, point).next() {
        Some(injection) => run.post(&injection.notice(), ""),
        None => Ok(()),
    }
}

fn leaves_at(plan: &Plan, rank: usize, index: usize) -> Option<LeaveBy> {
    let mut injections = plan.at(rank, Point::Step(index));
    injections.find_map(|injection| match injection.what {
        Action::Leave(way) => Some(way),
        _ => None,
    })
}

/// Leaves in the middle of the program.
fn leave<C>(run: &Run, player: Player<C>, way: LeaveBy, seed: u64) -> Verdict
where
    C: Communicator + comm_api::SharedMemoryProvider,
{
    run.at(format_args!("leaving: {way:?}"));
    match way {
        LeaveBy::Exit(code) => run.leaving(Leaving::Code(code)),
        LeaveBy::Abort(code) => run.leaving(Leaving::Code(if code == 0 { 1 } else { code })),
        LeaveBy::Panic => run.leaving(Leaving::Panic),
        LeaveBy::Dump(_) => run.leaving(Leaving::Signal(SIGABRT)),
        LeaveBy::Drop => {}
    }
    let ballast = match way {
        LeaveBy::Dump(size) => prepare_dump(run, size)?,
        _ => Vec::new(),
    };
    run.post("gone", &clock::now().as_nanos().to_string())?;
    match way {
        LeaveBy::Exit(code) => std::process::exit(code),
        LeaveBy::Abort(code) => player.comm.abort(code),
        LeaveBy::Panic => {
            let _unwound = player;
            panic!("the rank that is meant to panic");
        }
        LeaveBy::Dump(_) => {
            std::hint::black_box(&ballast);
            std::process::abort()
        }
        LeaveBy::Drop => player.leave(usize::try_from(seed % 3).unwrap_or(0)),
    }
    Ok(())
}

/// Makes this process dump core into the directory of the job, with this many MiB of its own.
fn prepare_dump(run: &Run, size: usize) -> Result<Vec<u8>, Failure> {
    std::env::set_current_dir(&run.orders.dir)?;
    let most = getrlimit(Resource::Core).maximum;
    let all = Rlimit {
        current: most,
        maximum: most,
    };
    setrlimit(Resource::Core, all)?;
    Ok(vec![1; size << 20])
}

/// Posts that the communicator did not open.
fn no_start(
    run: &Run,
    (entered, told, slack): (Duration, Duration, Duration),
    error: &(dyn std::error::Error + Send + Sync),
) -> Verdict {
    let witness = Witness {
        kind: NO_START.to_owned(),
        rank: None,
        entered,
        told,
        slack,
        before: None,
        message: error.to_string(),
    };
    run.post(NOTICE, &witness.to_string())
}

/// Posts the error that the communicator returns, and checks that it stays the same.
fn testify<C: Communicator>(
    run: &Run,
    comm: &C,
    metronome: &Metronome,
    (mut entered, mut told): (Duration, Duration),
    failed: FailedCall,
) -> Verdict {
    let (error, before) = match failed {
        FailedCall::Comm(error) => (error, None),
        FailedCall::Beside(error) => {
            run.at(format_args!("asking the communicator, after: {error}"));
            entered = clock::now();
            let Err(own) = comm.barrier() else {
                return Err(format!("a barrier succeeds after this: {error}").into());
            };
            told = clock::now();
            (own, Some(kind_and_rank(&error)))
        }
    };
    if !error.is_fatal() {
        return Err(format!("an error that is not fatal: {error}").into());
    }
    let (kind, rank) = kind_and_rank(&error);
    again(run, comm, metronome, &error)?;
    let witness = Witness {
        kind,
        rank,
        entered,
        told,
        slack: metronome.slack(),
        before,
        message: error.to_string(),
    };
    run.post(NOTICE, &witness.to_string())
}

/// Every later call returns the first cause again, at once (C13).
fn again<C: Communicator>(
    run: &Run,
    comm: &C,
    metronome: &Metronome,
    first: &CommError,
) -> Result<(), Failure> {
    for round in 0..3 {
        run.at(format_args!("calling again, round {round}"));
        let start = Instant::now();
        let calls = [comm.barrier(), comm.broadcast(&mut [0_u8; 3], 0)];
        let took = start.elapsed();
        for call in calls {
            let Err(later) = call else {
                return Err(format!("a later call succeeds after: {first}").into());
            };
            if kind_and_rank(&later) != kind_and_rank(first) {
                return Err(format!("first: {first}; later: {later}").into());
            }
        }
        let at_once = Duration::from_millis(50);
        if took > at_once {
            // The metronome may have been kept waiting like this thread: let it notice.
            run.dawdle(Duration::from_millis(10));
            let bound = at_once + metronome.slack();
            if took > bound {
                return Err(format!("later calls took {took:?}, bound {bound:?}").into());
            }
        }
    }
    Ok(())
}
