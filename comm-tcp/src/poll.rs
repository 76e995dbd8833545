//! How a rank sleeps: in a poll.

use std::io;
use std::time::Duration;

use rustix::event::{PollFd, Timespec, poll};

/// Polls for at most `limit`; an interruption counts as a poll without events.
pub(crate) fn poll_for(fds: &mut [PollFd<'_>], limit: Option<Duration>) -> io::Result<()> {
    // A day at most: some systems accept no longer times, and the callers poll again.
    let limit = limit.map(|limit| limit.min(Duration::from_hours(24)));
    let limit = limit.map(|limit| Timespec {
        tv_sec: i64::try_from(limit.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: limit.subsec_nanos().into(),
    });
    match poll(fds, limit.as_ref()) {
        Ok(_) => Ok(()),
        Err(rustix::io::Errno::INTR) => {
            for fd in fds {
                fd.clear_revents();
            }
            Ok(())
        }
        Err(error) => Err(error.into()),
    }
}
