//! The actions of the rank that goes.

use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use comm_api::Communicator;
use rustix::process::{Signal, getpid, kill_process};

use super::{Departure, Point};
use crate::case::Verdict;
use crate::clock;
use crate::report::Leaving;
use crate::run::Run;
use crate::subject::Failure;

/// Goes, at `point`, in the given `way`; returns only if the rank can.
pub(super) fn depart<C: Communicator>(run: &Run, comm: C, way: Departure, point: Point) -> Verdict {
    run.post("pid", &getpid().as_raw_nonzero().to_string())?;
    if let Some(how) = announcement(way) {
        run.leaving(how);
    }
    if point == Point::Awaited {
        // The others post a notice just before they enter; a little later they are inside.
        run.wait_all(run.others(), "entering")?;
        run.dawdle(Duration::from_millis(10));
    }
    if point.is_inside() {
        return depart_inside(run, &comm, way, point);
    }
    run.at(format_args!("going: {way:?}"));
    match way {
        Departure::Panics => {
            announce(run)?;
            // Unwinding drops the communicator.
            let _comm = comm;
            panic!("the rank that is meant to panic");
        }
        Departure::Drops => {
            announce(run)?;
            drop(comm);
            run.wait_all(run.others(), "told")
        }
        Departure::Absent => {
            run.wait_all(run.others(), "told")?;
            // The cause is known here too, at once, whichever rank set it.
            match comm.barrier() {
                Err(error) if error.is_fatal() => Ok(()),
                other => Err(format!("the absent rank got {other:?}").into()),
            }
        }
        Departure::Killed | Departure::Exits | Departure::Stopped => {
            announce(run)?;
            go(way)
        }
    }
}

/// Enters a collective that cannot end, and goes from another thread while it waits.
fn depart_inside<C: Communicator>(run: &Run, comm: &C, way: Departure, point: Point) -> Verdict {
    let (entering, entered) = mpsc::channel();
    thread::scope(|scope| {
        let going = scope.spawn(move || -> Verdict {
            entered.recv()?;
            run.dawdle(Duration::from_millis(10));
            announce(run)?;
            go(way)
        });
        entering.send(())?;
        let result = point.call(comm);
        match going.join() {
            Ok(Err(failure)) => Err(failure),
            _ => Err(format!("the call that cannot end gave {result:?}").into()),
        }
    })
}

/// Posts when, on the clock that all processes share.
fn announce(run: &Run) -> Result<(), Failure> {
    run.post("gone", &clock::now().as_nanos().to_string())
}

fn announcement(way: Departure) -> Option<Leaving> {
    match way {
        // In the end a survivor kills the stopped rank.
        Departure::Killed | Departure::Stopped => Some(Leaving::Signal(Signal::KILL.as_raw())),
        Departure::Exits => Some(Leaving::Code(0)),
        Departure::Panics => Some(Leaving::Panic),
        Departure::Drops | Departure::Absent => None,
    }
}

fn go(way: Departure) -> Verdict {
    match way {
        Departure::Exits => std::process::exit(0),
        Departure::Stopped => kill_process(getpid(), Signal::STOP)?,
        _ => kill_process(getpid(), Signal::KILL)?,
    }
    Err("a signal to this process did not arrive".into())
}
