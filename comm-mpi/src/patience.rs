//! How long a rank waits for the card of another, and what it does meanwhile.
//!
//! An MPI receive has no timeout. So the comparison polls for a card, and reads the clock in between: see
//! [`Patience::pause`]. MPI libraries do not wake a sleeping rank, so the sleeps are short.

use std::thread;
use std::time::Duration;

use comm_api::{CommError, FailureKind, Operation};
use comm_kit::processors::give_way;
use comm_kit::wait::{Backoff, Every, Pause, Policy};
use comm_kit::{interrupt, words};

/// The longest sleep.
const LONGEST: Duration = Duration::from_millis(5);

/// Why a rank stops waiting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Over {
    /// The timeout has passed.
    TimedOut,
    /// The hook of this process requested it.
    Interrupted,
}

/// Counts the time of one wait.
#[derive(Debug)]
pub(crate) struct Patience {
    timeout: Option<Duration>,
    backoff: Backoff,
    /// When the wait is logged.
    log: Every,
}

impl Patience {
    /// Begins a wait with an optional `timeout`.
    pub(crate) fn new(timeout: Option<Duration>) -> Self {
        Self {
            timeout,
            // Ranks may outnumber processors.
            backoff: Backoff::new(Policy::CROWDED),
            log: Every::new(words::SLOW),
        }
    }

    /// Waits briefly before the next look, or returns why the wait is over. `log` is called now and then with
    /// the time waited.
    #[inline]
    pub(crate) fn pause(&mut self, log: impl FnOnce(Duration)) -> Result<(), Over> {
        if self.backoff.gives_way() {
            give_way();
            return Ok(());
        }
        let pause = self.backoff.pause();
        if self.backoff.expired(self.timeout) {
            return Err(Over::TimedOut);
        }
        if pause != Pause::Sleep {
            give_way();
            return Ok(());
        }
        if interrupt::requested() {
            return Err(Over::Interrupted);
        }
        let waited = self.backoff.waited();
        if self.log.is_due(waited) {
            log(waited);
        }
        let mut nap = self.backoff.nap(LONGEST);
        if let Some(timeout) = self.timeout {
            nap = nap.min(timeout.saturating_sub(waited));
        }
        thread::sleep(nap);
        self.backoff.slept(nap);
        Ok(())
    }
}

/// Creates the error of a wait that is over: `missing` did not enter `operation`, and `called` lists what the
/// other ranks called.
#[cold]
pub(crate) fn error(
    over: Over,
    operation: Operation,
    own: usize,
    missing: &[usize],
    called: &str,
    timeout: Option<Duration>,
) -> CommError {
    match over {
        Over::Interrupted => CommError::failed(
            operation,
            FailureKind::Aborted,
            Some(own),
            words::interrupted(),
        ),
        Over::TimedOut => {
            let absent =
                words::absent(&words::ranks(missing), timeout, crate::config::TIMEOUT_SECS);
            let message = format!("{absent}; {called}");
            let blamed = missing.first().copied();
            CommError::failed(operation, FailureKind::TimedOut, blamed, message)
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    fn wait(timeout: Option<Duration>, looks: usize) -> Result<Duration, Over> {
        let began = Instant::now();
        let mut patience = Patience::new(timeout);
        (0..looks).try_for_each(|_| patience.pause(|_| {}))?;
        Ok(began.elapsed())
    }

    #[test]
    fn a_wait_ends_with_its_timeout() {
        let began = Instant::now();
        let timeout = Duration::from_millis(40);
        assert_eq!(wait(Some(timeout), usize::MAX), Err(Over::TimedOut));
        let took = began.elapsed();
        assert!(took >= timeout, "{took:?}");
        assert!(took < Duration::from_secs(10), "{took:?}");
    }

    #[test]
    fn without_a_timeout_it_goes_on() {
        assert!(wait(None, 100).is_ok());
    }

    #[test]
    fn who_is_missing_and_what_the_others_called_is_said() {
        let timeout = Some(Duration::from_mins(1));
        let called = "ranks 0, 2 called barrier";
        let error = error(
            Over::TimedOut,
            Operation::Barrier,
            0,
            &[1, 3],
            called,
            timeout,
        );
        assert_eq!(
            error.to_string(),
            "barrier: timed out, rank 1: ranks 1, 3 did not enter the call within 60s; increase COBRE_MPI_TIMEOUT_SECS if \
             ranks compute longer than that between calls (0 disables the timeout); ranks 0, 2 called barrier"
        );
    }
}
