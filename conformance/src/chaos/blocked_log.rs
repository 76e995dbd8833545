//! A log that blocks, like one whose reader is stopped.

use std::sync::{Condvar, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use tracing::Event;

use crate::events::Each;
use crate::subject::Failure;

/// Blocks every thread that writes to the log of this process, until it is dropped.
///
/// The program itself continues: its own thread does not wait. The threads on which a backend works for all
/// ranks must not wait for a log.
#[derive(Debug)]
pub(super) struct BlockedLog;

/// Whether the log accepts lines again.
static OPEN: (Mutex<bool>, Condvar) = (Mutex::new(false), Condvar::new());

/// Longer than the bound for reporting a death.
const LONG: Duration = Duration::from_secs(3);

impl BlockedLog {
    /// Makes the log of this process block all threads except this one.
    pub(super) fn install() -> Result<Self, Failure> {
        let program = thread::current().id();
        tracing::subscriber::set_global_default(Each(move |_: &Event<'_>| {
            if thread::current().id() != program {
                block();
            }
        }))?;
        Ok(Self)
    }
}

impl Drop for BlockedLog {
    fn drop(&mut self) {
        let (open, changed) = &OPEN;
        *open.lock().unwrap_or_else(PoisonError::into_inner) = true;
        changed.notify_all();
    }
}

/// Waits until the log accepts lines again.
fn block() {
    let (open, changed) = &OPEN;
    let guard = open.lock().unwrap_or_else(PoisonError::into_inner);
    // If the wait ends before the log is open, it has lasted long enough to be noticed.
    drop(changed.wait_timeout_while(guard, LONG, |open| !*open));
}
