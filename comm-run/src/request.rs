//! What reaches a running job from outside.

use rustix::process::Signal as Raw;

use crate::signal::Signal;

/// What a handle, or a signal to the starter, asks of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Request {
    /// End the job with this signal.
    Stop(Signal),
    /// Pass a signal on that means something to the program only.
    Pass(Raw),
    /// Stand still until somebody continues the starter.
    Suspend,
}
