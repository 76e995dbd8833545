//! The processes of a job: who they are, how they are signalled, and when they may be reaped.
//!
//! A process id is only ours until the process is reaped; afterwards the number may belong to another
//! process. So an exit is first *looked at* (the dead leader stays, and keeps its group's number
//! taken), then what is left of the group is killed, then the warden forgets it, and only then is
//! the leader reaped. One lock covers all of it, so a signal from another thread either reaches the
//! rank or is refused.

use std::io;
use std::process::Child;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::process::{
    Pid, Signal as Raw, WaitId, WaitIdOptions, kill_process, kill_process_group,
    test_kill_process_group, waitid,
};

use crate::outcome::Exit;
use crate::segment::Segment;
use crate::signal::Signal;
use crate::warden::Warden;

#[derive(Debug)]
pub(crate) struct Ranks {
    pids: Vec<Pid>,
    state: Mutex<State>,
    segment: Segment,
}

#[derive(Debug)]
struct State {
    processes: Vec<Process>,
    warden: Option<Warden>,
}

#[derive(Debug)]
struct Process {
    leader: Child,
    reaped: bool,
    ended_by: Option<Signal>,
}

impl Ranks {
    pub(crate) fn new(leaders: Vec<Child>, warden: Option<Warden>, segment: Segment) -> Self {
        let pids = leaders.iter().map(Pid::from_child).collect();
        let processes = leaders.into_iter().map(|leader| Process {
            leader,
            reaped: false,
            ended_by: None,
        });
        Self {
            pids,
            state: Mutex::new(State {
                processes: processes.collect(),
                warden,
            }),
            segment,
        }
    }

    pub(crate) fn pids(&self) -> Vec<u32> {
        self.pids
            .iter()
            .map(|pid| pid.as_raw_nonzero().get().unsigned_abs())
            .collect()
    }

    /// Returns how a rank ended, if it has, without reaping it.
    pub(crate) fn exit(&self, rank: usize) -> Option<Exit> {
        let look = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        let status = waitid(WaitId::Pid(self.pids[rank]), look).ok()??;
        let code = status.exit_status().map(Exit::Code);
        code.or_else(|| status.terminating_signal().map(Exit::Signal))
    }

    /// Sends a signal to one rank's own process.
    pub(crate) fn signal(&self, rank: usize, signal: Signal) -> io::Result<()> {
        let state = self.state();
        match state.processes.get(rank) {
            Some(process) if !process.reaped => Ok(kill_process(self.pids[rank], signal.raw())?),
            _ => Err(rustix::io::Errno::SRCH.into()),
        }
    }

    /// Sends a signal to everything the ranks are and have started, to end it.
    pub(crate) fn end_all(&self, signal: Signal) {
        let mut state = self.state();
        for (process, &pid) in state.processes.iter_mut().zip(&self.pids) {
            if process.reaped {
                continue;
            }
            // A group of which only zombies are left cannot be signalled on every system, and need
            // not be.
            let _ = kill_process_group(pid, signal.raw());
            // A frozen process would not notice that it is asked to end.
            let _ = kill_process_group(pid, Raw::CONT);
            process.ended_by = Some(signal);
        }
    }

    /// Returns the strongest signal sent to end this rank so far.
    pub(crate) fn ended_by(&self, rank: usize) -> Option<Signal> {
        self.state().processes[rank].ended_by
    }

    /// Kills what an ended rank left behind in its group, then reaps it.
    pub(crate) fn reap(&self, rank: usize) {
        let mut state = self.state();
        let State { processes, warden } = &mut *state;
        let (process, pid) = (&mut processes[rank], self.pids[rank]);
        if process.reaped {
            return;
        }
        let _ = kill_process_group(pid, Raw::KILL);
        if let Some(warden) = warden {
            warden.forget(pid);
        }
        // Returns at once: the leader has ended, or has just been killed.
        let _ = process.leader.wait();
        process.reaped = true;
    }

    /// Returns whether a reaped rank's group still has members, killed but not gone yet. Sends
    /// nothing: the number may belong to another process by now.
    pub(crate) fn lingers(&self, rank: usize) -> bool {
        test_kill_process_group(self.pids[rank]).is_ok()
    }

    /// Ends everything at once, on the way out of a start that failed.
    pub(crate) fn kill_and_reap_all(&self) {
        for rank in 0..self.pids.len() {
            self.reap(rank);
        }
        self.clean_up();
    }

    /// Removes what the ranks left in shared memory, then ends the warden. Only ranks that outlived
    /// `SIGKILL` can be left then.
    pub(crate) fn clean_up(&self) {
        // In this order: a starter that is killed in between has a warden.
        self.segment.remove();
        if let Some(warden) = self.state().warden.take() {
            warden.dismiss();
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
