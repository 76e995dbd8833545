//! Where ranks meet: one mutex, one condition variable, one table per step.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use comm_api::{CommError, FailureKind};

/// Brings the ranks of one communicator, or of one region, together.
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
    /// Why a rank will put down nothing more.
    gone: Vec<Option<&'static str>>,
    /// The first fatal error, which is every later answer.
    cause: Option<CommError>,
    steps: BTreeMap<u64, Step>,
}

/// Holds what the ranks put down in one step, until all have taken it.
#[derive(Debug)]
struct Step {
    calls: Vec<Option<Call>>,
    taken: usize,
    room: Arc<Meeting>,
}

/// Describes what one rank did in a step.
#[derive(Debug, Clone)]
pub(super) enum Call {
    /// It called `what` and brought `data`.
    Made {
        /// All that must agree between the ranks, in words.
        what: String,
        /// What it brought.
        data: Arc<[u8]>,
    },
    /// It refused its own arguments.
    Refused {
        /// Why.
        reason: String,
    },
}

/// Holds what all ranks brought, in rank order, and a fresh meeting for the same ranks.
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
            return Err(CommError::InvalidCommunicator);
        }
        state.seated[rank] = true;
        Ok(state.seated.iter().all(|&seated| seated))
    }

    /// Leaves for good: steps that still miss this rank will never be complete.
    pub(super) fn leave(&self, rank: usize, reason: &'static str) {
        self.lock().gone[rank] = Some(reason);
        self.bell.notify_all();
    }

    /// Leaves, and ends the meeting for all.
    pub(super) fn abort(&self, rank: usize) {
        let aborted =
            CommError::failed("abort", FailureKind::Aborted, Some(rank), "it called abort");
        self.lock().cause.get_or_insert(aborted);
        self.bell.notify_all();
    }

    /// Puts down a refusal and goes on at once.
    pub(super) fn refuse(&self, rank: usize, step: u64, operation: &str, error: &CommError) {
        let mut state = self.lock();
        let reason = format!("{operation} refused its arguments: {error}");
        self.put_down(&mut state, rank, step, Call::Refused { reason });
        self.take(&mut state, step);
        self.bell.notify_all();
    }

    /// Puts down `call`, waits for all, and decides: all ranks see the same calls, so all decide
    /// alike.
    pub(super) fn meet(
        &self,
        rank: usize,
        step: u64,
        operation: &'static str,
        call: Call,
    ) -> Result<Met, CommError> {
        let deadline = self.timeout.map(|timeout| Instant::now() + timeout);
        let mut state = self.lock();
        if let Some(cause) = &state.cause {
            return Err(cause.clone());
        }
        self.put_down(&mut state, rank, step, call);
        self.bell.notify_all();
        loop {
            // A complete step counts, whatever happened since: who contributed may leave.
            let calls = &state.steps[&step].calls;
            if calls.iter().all(Option::is_some) {
                let verdict = decide(operation, calls);
                let room = Arc::clone(&state.steps[&step].room);
                self.take(&mut state, step);
                return match verdict {
                    Ok(data) => Ok(Met { data, room }),
                    Err(error) if error.is_fatal() => Err(self.end(&mut state, error)),
                    Err(error) => Err(error),
                };
            }
            if let Some(cause) = &state.cause {
                return Err(cause.clone());
            }
            let lost = (0..self.size).find(|&r| calls[r].is_none() && state.gone[r].is_some());
            if let Some(lost) = lost {
                let reason = state.gone[lost].unwrap_or_default();
                let error = CommError::failed(operation, FailureKind::PeerLost, Some(lost), reason);
                return Err(self.end(&mut state, error));
            }
            let rest = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            state = match rest {
                Some(rest) if rest.is_zero() => {
                    let error = self.late(operation, calls);
                    return Err(self.end(&mut state, error));
                }
                Some(rest) => self
                    .bell
                    .wait_timeout(state, rest)
                    .map_or_else(|poisoned| poisoned.into_inner().0, |(state, _)| state),
                None => self
                    .bell
                    .wait(state)
                    .unwrap_or_else(PoisonError::into_inner),
            };
        }
    }

    fn put_down(&self, state: &mut State, rank: usize, step: u64, call: Call) {
        let table = state.steps.entry(step).or_insert_with(|| Step {
            calls: vec![None; self.size],
            taken: 0,
            room: Arc::new(Self::new(self.size, self.timeout)),
        });
        table.calls[rank] = Some(call);
    }

    /// Counts one rank as done with a step, and clears the table after the last.
    fn take(&self, state: &mut State, step: u64) {
        if let Some(table) = state.steps.get_mut(&step) {
            table.taken += 1;
            if table.taken == self.size {
                state.steps.remove(&step);
            }
        }
    }

    /// Sets `error` as the cause unless there is one; returns the cause.
    fn end(&self, state: &mut State, error: CommError) -> CommError {
        self.bell.notify_all();
        state.cause.get_or_insert(error).clone()
    }

    /// Returns the error that names who is missing at the timeout; a disagreement among those who came counts more.
    fn late(&self, operation: &'static str, calls: &[Option<Call>]) -> CommError {
        let present: Vec<_> = calls
            .iter()
            .enumerate()
            .filter(|(_, c)| c.is_some())
            .collect();
        if let Some(error) = disagreement(operation, &present) {
            return error;
        }
        let missing: Vec<usize> = (0..self.size).filter(|&r| calls[r].is_none()).collect();
        let message = format!(
            "ranks {missing:?} did not come within {:?}; raise the timeout if they are merely slow",
            self.timeout.unwrap_or_default()
        );
        CommError::failed(
            operation,
            FailureKind::TimedOut,
            missing.first().copied(),
            message,
        )
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Decides a complete step: a refusal, else a disagreement, else the data of all.
fn decide(operation: &'static str, calls: &[Option<Call>]) -> Result<Vec<Arc<[u8]>>, CommError> {
    let refused = |(rank, call): (usize, &Option<Call>)| match call {
        Some(Call::Refused { reason }) => Some((rank, reason.clone())),
        _ => None,
    };
    if let Some((rank, reason)) = calls.iter().enumerate().find_map(refused) {
        let kind = FailureKind::Refused;
        return Err(CommError::failed(operation, kind, Some(rank), reason));
    }
    let all: Vec<_> = calls.iter().enumerate().collect();
    match disagreement(operation, &all) {
        Some(error) => Err(error),
        None => Ok(calls
            .iter()
            .filter_map(|call| match call {
                Some(Call::Made { data, .. }) => Some(Arc::clone(data)),
                _ => None,
            })
            .collect()),
    }
}

/// Finds the lowest rank that called something else than the first.
fn disagreement(operation: &'static str, calls: &[(usize, &Option<Call>)]) -> Option<CommError> {
    let made = |&(rank, call): &(usize, &Option<Call>)| match call {
        Some(Call::Made { what, .. }) => Some((rank, what.clone())),
        _ => None,
    };
    let mut made = calls.iter().filter_map(made);
    let (first, wanted) = made.next()?;
    let (rank, what) = made.find(|(_, what)| *what != wanted)?;
    let message = format!(
        "rank {rank} called {what}, rank {first} called {wanted}; \
         all ranks must call the same collectives in the same order"
    );
    let kind = FailureKind::Mismatch;
    Some(CommError::failed(operation, kind, Some(rank), message))
}
