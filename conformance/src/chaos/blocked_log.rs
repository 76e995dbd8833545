//! A log that blocks, as one does whose reader was stopped.

use std::sync::{Condvar, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use tracing::Event;

use crate::events::Each;
use crate::subject::Failure;

/// Blocks whoever writes to the log of this process, until it is dropped.
///
/// The program itself gets by: its own thread does not wait. What a backend does on other threads for
/// the sake of all ranks must not wait for a log.
#[derive(Debug)]
pub(super) struct BlockedLog;

/// Whether the log takes lines again.
static OPEN: (Mutex<bool>, Condvar) = (Mutex::new(false), Condvar::new());

/// Longer than a death may take to be told.
const LONG: Duration = Duration::from_secs(3);

impl BlockedLog {
    /// Makes the log of this process block all threads but this one.
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

/// Waits until the log takes lines again.
fn block() {
    let (open, changed) = &OPEN;
    let guard = open.lock().unwrap_or_else(PoisonError::into_inner);
    // A wait that ends without the log being open has lasted long enough to be noticed.
    drop(changed.wait_timeout_while(guard, LONG, |open| !*open));
}
