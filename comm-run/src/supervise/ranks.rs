//! The processes of a job: who they are, how they are signalled, and when they may be reaped.
//!
//! A process id is only ours until the process is reaped; afterwards the number may belong to another
//! process. So an exit is first *looked at* (the dead leader stays, and keeps its group's number
//! taken), then what is left of the group is killed, then the warden forgets it, and only then is
//! the leader reaped. One lock covers all of it, so a signal from another thread either reaches the
//! rank or is refused.

use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::io::Errno;
use rustix::process::{
    Pid, Signal as Raw, WaitId, WaitIdOptions, kill_process, kill_process_group,
    test_kill_process_group, waitid,
};

use crate::host::proc;
use crate::supervise::signals::Signal;
use crate::supervise::warden::{Segment, Warden};
use crate::verdict::outcome::Exit;

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

/// What a rank does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Look {
    Runs,
    /// By this signal, until it is continued.
    Stopped(i32),
    Ended(Exit),
}

#[derive(Debug)]
struct Process {
    reaped: bool,
    ended_by: Option<Signal>,
}

impl Ranks {
    /// Takes over the processes of the ranks, in rank order; nobody else waits for them.
    pub(crate) fn new(pids: Vec<Pid>, warden: Option<Warden>, segment: Segment) -> Self {
        let processes = pids.iter().map(|_| Process {
            reaped: false,
            ended_by: None,
        });
        Self {
            state: Mutex::new(State {
                processes: processes.collect(),
                warden,
            }),
            pids,
            segment,
        }
    }

    pub(super) fn pids(&self) -> Vec<u32> {
        self.pids
            .iter()
            .map(|pid| pid.as_raw_nonzero().get().unsigned_abs())
            .collect()
    }

    /// Returns the process of a rank, and the group that it leads.
    #[cfg(target_os = "linux")]
    pub(super) fn pid(&self, rank: usize) -> Pid {
        self.pids[rank]
    }

    /// Returns what a rank does, without reaping it. No such child: this process has code that reaps all
    /// children, and the rank is gone with its answer.
    pub(super) fn look(&self, rank: usize) -> Look {
        let states = WaitIdOptions::EXITED | WaitIdOptions::STOPPED;
        let look = states | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        let found = match waitid(WaitId::Pid(self.pids[rank]), look) {
            Ok(Some(found)) => found,
            Err(Errno::CHILD) => return Look::Ended(Exit::Unknown),
            Ok(None) | Err(_) => return Look::Runs,
        };
        if let Some(signal) = found.stopping_signal() {
            return Look::Stopped(signal);
        }
        let code = found.exit_status().map(Exit::Code);
        let exit = code.or_else(|| found.terminating_signal().map(Exit::Signal));
        exit.map_or(Look::Runs, Look::Ended)
    }

    /// Sends a signal to one rank's own process.
    pub(super) fn signal(&self, rank: usize, signal: Signal) -> io::Result<()> {
        let state = self.state();
        match state.processes.get(rank) {
            Some(process) if !process.reaped => Ok(kill_process(self.pids[rank], signal.raw())?),
            _ => Err(Errno::SRCH.into()),
        }
    }

    /// Sends a signal to everything the ranks are and have started, to end it.
    pub(super) fn end_all(&self, signal: Signal) {
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

    /// Returns the ranks that run: neither ended nor stopped by somebody.
    pub(super) fn running(&self) -> Vec<usize> {
        let ranks = 0..self.pids.len();
        ranks.filter(|&rank| self.is_running(rank)).collect()
    }

    /// Returns the ranks that are not reaped.
    pub(super) fn alive(&self) -> Vec<usize> {
        let state = self.state();
        let ranks = 0..self.pids.len();
        ranks
            .filter(|&rank| !state.processes[rank].reaped)
            .collect()
    }

    /// Returns whether a rank has neither ended nor been stopped.
    pub(super) fn is_running(&self, rank: usize) -> bool {
        self.look(rank) == Look::Runs
    }

    /// Sends a signal to everything that these ranks are and have started.
    pub(super) fn signal_groups(&self, ranks: &[usize], signal: Raw) {
        let state = self.state();
        for &rank in ranks.iter().filter(|&&rank| !state.processes[rank].reaped) {
            // A group of which only zombies are left cannot be signalled on every system.
            let _ = kill_process_group(self.pids[rank], signal);
        }
    }

    /// Reaps every child of this process that has ended and that the job does not wait for itself: the first process of a container
    /// inherits what others leave.
    pub(super) fn reap_orphans(&self) {
        let warden = self.state().warden.as_ref().map(Warden::pid);
        let is_own = |child: &Pid| self.pids.contains(child) || warden == Some(*child);
        for child in proc::children().into_iter().filter(|child| !is_own(child)) {
            // One that lives stays; one that somebody else reaped meanwhile is gone.
            let _ = waitid(
                WaitId::Pid(child),
                WaitIdOptions::EXITED | WaitIdOptions::NOHANG,
            );
        }
    }

    /// Returns the strongest signal sent to end this rank so far.
    pub(super) fn ended_by(&self, rank: usize) -> Option<Signal> {
        self.state().processes[rank].ended_by
    }

    /// Kills what an ended rank left behind in its group, then reaps it.
    pub(super) fn reap(&self, rank: usize) {
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
        let wait = || waitid(WaitId::Pid(pid), WaitIdOptions::EXITED);
        let _ = rustix::io::retry_on_intr(wait);
        process.reaped = true;
    }

    /// Returns whether a reaped rank's group still has members, killed but not gone yet. Sends
    /// nothing: the number may belong to another process by now.
    pub(super) fn lingers(&self, rank: usize) -> bool {
        test_kill_process_group(self.pids[rank]).is_ok()
    }

    /// Ends everything at once, on the way out of a start that failed.
    pub(crate) fn kill_and_reap_all(&self) {
        // All before the first is waited for: they end side by side.
        self.end_all(Signal::Kill);
        for rank in 0..self.pids.len() {
            self.reap(rank);
        }
        self.clean_up();
    }

    /// Removes what the ranks left in shared memory, then ends the warden. Only ranks that outlived
    /// `SIGKILL` can be left then.
    pub(super) fn clean_up(&self) {
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
