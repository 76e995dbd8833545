//! Does to the ranks of a job what a plan says.

use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use comm_run::{Handle, Signal};

use super::plan::{Act, Plan, What};
use super::stranger;
use crate::board::Board;
use crate::clock;

/// Says what was done to a rank, and when: between the two times.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Deed {
    pub(super) rank: usize,
    pub(super) kind: DeedKind,
    pub(super) from: Duration,
    pub(super) to: Duration,
}

/// Names what was done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DeedKind {
    Killed,
    Stopped,
}

/// Holds what the acts of one round share.
pub(super) struct Violence<'a> {
    pub(super) handle: &'a Handle,
    pub(super) board: &'a Board,
    pub(super) seed: u64,
    pub(super) over: &'a AtomicBool,
    pub(super) deeds: &'a Mutex<Vec<Deed>>,
}

impl Violence<'_> {
    /// Does all that `plan` says, each act when its time comes, until the job is over.
    pub(super) fn run<'scope, 'env>(
        &'env self,
        scope: &'scope thread::Scope<'scope, 'env>,
        plan: &'env Plan,
    ) {
        for act in &plan.acts {
            if !matches!(act.what, What::Leave(_)) {
                scope.spawn(|| self.act(act));
            }
        }
    }

    fn act(&self, act: &Act) {
        let notice = format!("{}-{}", act.notice(), act.who);
        while self.board.read(&notice).is_none() {
            if self.is_over() {
                return;
            }
            thread::sleep(Duration::from_micros(100));
        }
        self.pause(act.delay);
        match &act.what {
            What::Kill(ranks) => {
                let from = clock::now();
                for &rank in ranks {
                    // Who has ended by then is not among the dead: the judge looks how each one ended.
                    let _ = self.handle.signal(rank, Signal::Kill);
                }
                let to = clock::now();
                for &rank in ranks {
                    self.done(rank, DeedKind::Killed, from, to);
                }
            }
            What::Stop(rank, time) => {
                let from = clock::now();
                if self.handle.signal(*rank, Signal::Stop).is_ok() {
                    self.pause(*time);
                    // A rank that was killed in the meantime need not go on.
                    let _ = self.handle.signal(*rank, Signal::Continue);
                    self.done(*rank, DeedKind::Stopped, from, clock::now());
                }
            }
            What::Flood(rank, count) => {
                for _ in 0..*count {
                    if self.is_over() || self.handle.signal(*rank, Signal::Hangup).is_err() {
                        break;
                    }
                    thread::sleep(Duration::from_micros(50));
                }
            }
            What::Knock(count) => {
                let visit = stranger::knock(&self.handle.pids(), *count, self.seed, self.over);
                while !self.is_over() {
                    thread::sleep(Duration::from_millis(1));
                }
                drop(visit);
            }
            What::Leave(_) => {}
        }
    }

    fn is_over(&self) -> bool {
        self.over.load(Ordering::Acquire)
    }

    /// Lets the time of the plan pass, unless the job is over before.
    fn pause(&self, time: Duration) {
        let start = Instant::now();
        while let Some(rest) = time.checked_sub(start.elapsed())
            && !self.is_over()
        {
            thread::sleep(rest.min(Duration::from_millis(2)));
        }
    }

    fn done(&self, rank: usize, kind: DeedKind, from: Duration, to: Duration) {
        let deed = Deed {
            rank,
            kind,
            from,
            to,
        };
        let mut deeds = self.deeds.lock().unwrap_or_else(PoisonError::into_inner);
        deeds.push(deed);
    }
}
