//! The processes of a job: their ids, how to signal them, and when to reap them.
//!
//! A process id is ours only until the process is reaped; afterwards the number may belong to another
//! process. So an exit is first *peeked at* (the dead leader stays, and keeps the number of its group
//! taken), then the rest of the group is killed, then the warden forgets the group, and only then is
//! the leader reaped. One lock covers all of it, so a signal from another thread either reaches the
//! rank or fails.

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

/// The state of a rank.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Look {
    Runs,
    /// Stopped by this signal until it is continued.
    Stopped(i32),
    Ended(Exit),
}

#[derive(Debug)]
struct Process {
    reaped: bool,
    ended_by: Option<Signal>,
}

impl Ranks {
    /// Takes over the processes of the ranks, in rank order; no other code waits for them.
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

    /// Returns the process of a rank, which is also the number of its group.
    #[cfg(target_os = "linux")]
    pub(super) fn pid(&self, rank: usize) -> Pid {
        self.pids[rank]
    }

    /// Returns the state of a rank without reaping it. If there is no such child, other code in this process reaps all
    /// children and has taken the rank's exit code.
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

    /// Sends a signal to all ranks and everything they have started, to end them.
    pub(super) fn end_all(&self, signal: Signal) {
        let mut state = self.state();
        for (process, &pid) in state.processes.iter_mut().zip(&self.pids) {
            if process.reaped {
                continue;
            }
            // On some systems a group of zombies cannot be signalled, and it need not be.
            let _ = kill_process_group(pid, signal.raw());
            // A stopped process would not notice the signal.
            let _ = kill_process_group(pid, Raw::CONT);
            process.ended_by = Some(signal);
        }
    }

    /// Returns the running ranks: neither ended nor stopped.
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

    /// Sends a signal to these ranks and everything they have started.
    pub(super) fn signal_groups(&self, ranks: &[usize], signal: Raw) {
        let state = self.state();
        for &rank in ranks.iter().filter(|&&rank| !state.processes[rank].reaped) {
            // On some systems a group of zombies cannot be signalled.
            let _ = kill_process_group(self.pids[rank], signal);
        }
    }

    /// Reaps every ended child of this process that is no rank: the first process of a container adopts the orphans of
    /// other processes.
    pub(super) fn reap_orphans(&self) {
        let warden = self.state().warden.as_ref().map(Warden::pid);
        let is_own = |child: &Pid| self.pids.contains(child) || warden == Some(*child);
        for child in proc::children().into_iter().filter(|child| !is_own(child)) {
            // A living child stays; a child that other code has reaped meanwhile is gone.
            let _ = waitid(
                WaitId::Pid(child),
                WaitIdOptions::EXITED | WaitIdOptions::NOHANG,
            );
        }
    }

    /// Returns the strongest signal sent so far to end this rank.
    pub(super) fn ended_by(&self, rank: usize) -> Option<Signal> {
        self.state().processes[rank].ended_by
    }

    /// Kills the processes that an ended rank left behind in its group, then reaps the rank.
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
        // Returns at once, because the leader has ended or has just been killed.
        let wait = || waitid(WaitId::Pid(pid), WaitIdOptions::EXITED);
        let _ = rustix::io::retry_on_intr(wait);
        process.reaped = true;
    }

    /// Returns whether a reaped rank's group still has members that were killed but are not gone yet. Sends
    /// no signal, because the number may belong to another process by now.
    pub(super) fn lingers(&self, rank: usize) -> bool {
        test_kill_process_group(self.pids[rank]).is_ok()
    }

    /// Kills everything at once when a start has failed.
    pub(crate) fn kill_and_reap_all(&self) {
        // Signals all ranks before it waits for the first, so that they end concurrently.
        self.end_all(Signal::Kill);
        for rank in 0..self.pids.len() {
            self.reap(rank);
        }
        self.clean_up();
    }

    /// Removes what the ranks left in shared memory, then ends the warden. Only ranks that outlived
    /// `SIGKILL` can be left then.
    pub(super) fn clean_up(&self) {
        // In this order: if the starter is killed in between, the warden still exists.
        self.segment.remove();
        if let Some(warden) = self.state().warden.take() {
            warden.dismiss();
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
