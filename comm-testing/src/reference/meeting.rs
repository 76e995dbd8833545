//! The meetings of ranks: one mutex, one condition variable, one table per step.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use comm_api::{CommError, FailureKind, Operation};
use comm_kit::clock::{Clock, sleep_limit};
use comm_kit::words::{self, Lost};
use comm_kit::{Call, interrupt};

/// Synchronises the ranks of one communicator or one region.
#[derive(Debug)]
pub(super) struct Meeting {
    size: usize,
    timeout: Option<Duration>,
    state: Mutex<State>,
    bell: Condvar,
}

#[derive(Debug)]
struct State {
    seated: Vec<bool>,
    /// Why a rank will contribute nothing more.
    gone: Vec<Option<Lost>>,
    /// The first fatal error, which every later call returns.
    cause: Option<CommError>,
    steps: BTreeMap<u64, Entries>,
}

/// The contributions of the ranks in one step, until all ranks have taken them.
#[derive(Debug)]
struct Entries {
    parts: Vec<Option<Part>>,
    taken: usize,
    room: Arc<Meeting>,
}

/// What one rank did in a step.
#[derive(Debug, Clone)]
enum Part {
    /// The rank called `call` and contributed `data`.
    Called { call: Call, data: Arc<[u8]> },
    /// The rank refused its own arguments.
    Refused { reason: String },
}

/// The contributions of all ranks, in rank order, and a new meeting for the same ranks.
#[derive(Debug)]
pub(super) struct Met {
    pub(super) data: Vec<Arc<[u8]>>,
    pub(super) room: Arc<Meeting>,
}

impl Meeting {
    pub(super) fn new(size: usize, timeout: Option<Duration>) -> Self {
        Self {
            size,
            timeout,
            state: Mutex::new(State {
                seated: vec![false; size],
                gone: vec![None; size],
                cause: None,
                steps: BTreeMap::new(),
            }),
            bell: Condvar::new(),
        }
    }

    pub(super) fn size(&self) -> usize {
        self.size
    }

    /// Takes a seat; returns whether it was the last free one.
    pub(super) fn sit(&self, rank: usize, size: usize) -> Result<bool, CommError> {
        let mut state = self.lock();
        if size != self.size || rank >= size || state.seated[rank] {
            return Err(CommError::invalid_communicator());
        }
        state.seated[rank] = true;
        Ok(state.seated.iter().all(|&seated| seated))
    }

    /// Leaves permanently: steps that still lack this rank will never be complete.
    pub(super) fn leave(&self, rank: usize, how: Lost) {
        self.lock().gone[rank].get_or_insert(how);
        self.bell.notify_all();
    }

    /// Ends the meeting for all ranks.
    pub(super) fn abort(&self, rank: usize, code: i32) {
        let message = words::aborted(code);
        let error = CommError::failed("abort", FailureKind::Aborted, Some(rank), message);
        self.end(&mut self.lock(), Operation::Other("abort"), error);
    }

    /// Stores a refusal and returns at once.
    pub(super) fn refuse(&self, rank: usize, step: u64, reason: &str) {
        let reason = reason.to_owned();
        let mut state = self.lock();
        self.put_down(&mut state, rank, step, Part::Refused { reason });
        self.take(&mut state, step);
    }

    /// Stores `call` and `data`, waits for all ranks, and decides: all ranks see the same contributions, so
    /// all decide alike.
    pub(super) fn meet(
        &self,
        rank: usize,
        step: u64,
        call: Call,
        data: &[u8],
    ) -> Result<Met, CommError> {
        let operation = call.operation();
        let mut clock = Clock::start();
        let deadline = self.timeout.map(|timeout| clock.now() + timeout);
        let data = data.into();
        let mut state = self.lock();
        if let Some(cause) = &state.cause {
            return Err(cause.again(operation));
        }
        self.put_down(&mut state, rank, step, Part::Called { call, data });
        loop {
            // A complete step counts, whatever happened since: a rank that has contributed may leave.
            let parts = &state.steps[&step].parts;
            if parts.iter().all(Option::is_some) {
                let verdict = decide(operation, parts);
                let room = Arc::clone(&state.steps[&step].room);
                self.take(&mut state, step);
                return match verdict {
                    Ok(data) => Ok(Met { data, room }),
                    Err(error) if error.is_fatal() => Err(self.end(&mut state, operation, error)),
                    Err(error) => Err(error),
                };
            }
            if let Some(cause) = &state.cause {
                return Err(cause.again(operation));
            }
            let missing: Vec<usize> = (0..self.size).filter(|&r| parts[r].is_none()).collect();
            let lost = missing.iter().find_map(|&r| Some((r, state.gone[r]?)));
            if let Some((lost, how)) = lost {
                let message = words::lost(how, None);
                let error =
                    CommError::failed(operation, FailureKind::PeerLost, Some(lost), message);
                return Err(self.end(&mut state, operation, error));
            }
            let rest = deadline.map(|deadline| deadline.saturating_duration_since(clock.now()));
            if rest.is_some_and(|rest| rest.is_zero()) {
                let error = self.late(operation, parts, &missing);
                return Err(self.end(&mut state, operation, error));
            }
            let limit = sleep_limit(rest);
            let slept = self.bell.wait_timeout(state, limit);
            drop(slept);
            clock.waited(limit);
            // Not under the lock, because the hook may be slow, or panic.
            let interrupted = interrupt::requested();
            state = self.lock();
            if interrupted {
                let (kind, message) = (FailureKind::Aborted, words::interrupted());
                let error = CommError::failed(operation, kind, Some(rank), message);
                return Err(self.end(&mut state, operation, error));
            }
        }
    }

    fn put_down(&self, state: &mut State, rank: usize, step: u64, part: Part) {
        let table = state.steps.entry(step).or_insert_with(|| Entries {
            parts: vec![None; self.size],
            taken: 0,
            room: Arc::new(Self::new(self.size, self.timeout)),
        });
        table.parts[rank] = Some(part);
        self.bell.notify_all();
    }

    /// Counts one rank as done with a step, and clears the table after the last rank.
    fn take(&self, state: &mut State, step: u64) {
        if let Some(table) = state.steps.get_mut(&step) {
            table.taken += 1;
            if table.taken == self.size {
                state.steps.remove(&step);
            }
        }
    }

    /// Stores `error` as the cause unless there already is one; returns the cause as the error of
    /// `operation`.
    fn end(&self, state: &mut State, operation: Operation, error: CommError) -> CommError {
        self.bell.notify_all();
        state.cause.get_or_insert(error).again(operation)
    }

    /// Returns the error of a timeout: the missing ranks, or a mismatch if the others disagree.
    fn late(&self, operation: Operation, parts: &[Option<Part>], missing: &[usize]) -> CommError {
        disagreement(operation, parts).unwrap_or_else(|| {
            let absent = words::ranks(missing);
            let message = words::absent(&absent, self.timeout, "the timeout of the reference");
            let first = missing.first().copied();
            CommError::failed(operation, FailureKind::TimedOut, first, message)
        })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Decides a complete step: a refusal, otherwise a mismatch, otherwise the data of all.
fn decide(operation: Operation, parts: &[Option<Part>]) -> Result<Vec<Arc<[u8]>>, CommError> {
    let refused = |(rank, part): (usize, &Option<Part>)| match part {
        Some(Part::Refused { reason }) => Some(words::refused(operation, rank, Some(reason))),
        _ => None,
    };
    let refusal = parts.iter().enumerate().find_map(refused);
    if let Some(error) = refusal.or_else(|| disagreement(operation, parts)) {
        return Err(error);
    }
    let data = |part: &Option<Part>| match part {
        Some(Part::Called { data, .. }) => Some(Arc::clone(data)),
        _ => None,
    };
    Ok(parts.iter().filter_map(data).collect())
}

/// Returns the error of ranks that called different things, if they did.
fn disagreement(operation: Operation, parts: &[Option<Part>]) -> Option<CommError> {
    let called = |(rank, part): (usize, &Option<Part>)| match part {
        Some(Part::Called { call, .. }) => Some((rank, *call)),
        _ => None,
    };
    let (rank, message) = words::differing(parts.iter().enumerate().filter_map(called))?;
    let kind = FailureKind::Mismatch;
    Some(CommError::failed(operation, kind, Some(rank), message))
}
