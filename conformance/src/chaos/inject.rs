//! Injects the faults of a plan into a job.

use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use comm_run::{Handle, Signal};

use super::plan::{Action, Injection, Plan};
use super::{slow_link, stranger};
use crate::board::Board;
use crate::clock;

/// What was done to a rank, between the two times.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Injected {
    pub(super) rank: usize,
    pub(super) kind: InjectedKind,
    pub(super) from: Duration,
    pub(super) to: Duration,
}

/// What was done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum InjectedKind {
    Killed,
    Stopped,
}

/// The shared state of the injections of one round.
pub(super) struct Injector<'a> {
    pub(super) handle: &'a Handle,
    pub(super) board: &'a Board,
    /// The name of the job.
    pub(super) name: &'a str,
    pub(super) seed: u64,
    pub(super) over: &'a AtomicBool,
    pub(super) injected: &'a Mutex<Vec<Injected>>,
}

impl Injector<'_> {
    /// Injects all faults of `plan`, each at its time, until the job is over.
    pub(super) fn run<'scope, 'env>(
        &'env self,
        scope: &'scope thread::Scope<'scope, 'env>,
        plan: &'env Plan,
    ) {
        for injection in &plan.injections {
            if injection.is_from_outside() {
                scope.spawn(|| self.inject(injection));
            }
        }
    }

    fn inject(&self, injection: &Injection) {
        if let Action::Slow(_, rate) = injection.what {
            // The ranks wait for this link before they can open anything.
            return slow_link::serve(self.board, self.name, rate, self.over);
        }
        let notice = format!("{}-{}", injection.notice(), injection.who);
        while self.board.read(&notice).is_none() {
            if self.is_over() {
                return;
            }
            thread::sleep(Duration::from_micros(100));
        }
        self.pause(injection.delay);
        match &injection.what {
            Action::Kill(ranks) => {
                let from = clock::now();
                for &rank in ranks {
                    // A rank that has already ended is not among the dead: the judge checks how each rank
                    // ended.
                    let _ = self.handle.signal(rank, Signal::Kill);
                }
                let to = clock::now();
                for &rank in ranks {
                    self.done(rank, InjectedKind::Killed, from, to);
                }
            }
            Action::Stop(rank, time) => {
                let from = clock::now();
                if self.handle.signal(*rank, Signal::Stop).is_ok() {
                    self.pause(*time);
                    // A rank that was killed in the meantime need not continue.
                    let _ = self.handle.signal(*rank, Signal::Continue);
                    self.done(*rank, InjectedKind::Stopped, from, clock::now());
                }
            }
            Action::Suspend(time) => {
                let ranks = 0..self.handle.pids().len();
                let from = clock::now();
                // A rank that has ended, or is killed in the meantime, need not stop or continue.
                let stop = |rank: &usize| self.handle.signal(*rank, Signal::Stop).is_ok();
                let stopped: Vec<usize> = ranks.filter(stop).collect();
                self.pause(*time);
                for &rank in &stopped {
                    let _ = self.handle.signal(rank, Signal::Continue);
                }
                let to = clock::now();
                for &rank in &stopped {
                    self.done(rank, InjectedKind::Stopped, from, to);
                }
            }
            Action::Storm(time) => {
                stranger::storm(&self.handle.pids(), *time, self.seed, self.over);
            }
            Action::Flood(rank, count) => {
                for _ in 0..*count {
                    if self.is_over() || self.handle.signal(*rank, Signal::Hangup).is_err() {
                        break;
                    }
                    thread::sleep(Duration::from_micros(50));
                }
            }
            Action::Knock(count) => {
                let ports = || stranger::listening(&self.handle.pids());
                let visit = stranger::knock(ports, *count, self.seed, self.over);
                while !self.is_over() {
                    thread::sleep(Duration::from_millis(1));
                }
                drop(visit);
            }
            Action::Slow(..) | Action::Starve(_) | Action::BlockLog | Action::Leave(_) => {}
        }
    }

    fn is_over(&self) -> bool {
        self.over.load(Ordering::Acquire)
    }

    /// Waits for a delay of the plan, unless the job ends before.
    fn pause(&self, time: Duration) {
        let start = Instant::now();
        while let Some(rest) = time.checked_sub(start.elapsed())
            && !self.is_over()
        {
            thread::sleep(rest.min(Duration::from_millis(2)));
        }
    }

    fn done(&self, rank: usize, kind: InjectedKind, from: Duration, to: Duration) {
        let record = Injected {
            rank,
            kind,
            from,
            to,
        };
        let mut injected = self.injected.lock().unwrap_or_else(PoisonError::into_inner);
        injected.push(record);
    }
}
