//! The signals of a job: those that can be sent to it, and those of the starter, such as Ctrl-C, that become requests.

use std::fmt;
use std::io;

use rustix::process::Signal as Raw;
use signal_hook::low_level::signal_name;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;

use crate::host::proc::Masks;
use crate::supervise::suspend::remember_the_last;

/// A signal that may be sent to a rank or to a whole job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Signal {
    /// `SIGHUP`: the terminal went away.
    Hangup,
    /// `SIGINT`: Ctrl-C.
    Interrupt,
    /// `SIGQUIT`: Ctrl-\.
    Quit,
    /// `SIGABRT`: raised by `abort()`.
    Abort,
    /// `SIGKILL`: ends the process unconditionally.
    Kill,
    /// `SIGTERM`: asks the process to end.
    Terminate,
    /// `SIGSTOP`: stops the process until it is continued.
    Stop,
    /// `SIGCONT`: continues a stopped process.
    Continue,
}

impl Signal {
    /// Returns the number of the signal on this platform.
    #[must_use]
    pub fn number(self) -> i32 {
        self.raw().as_raw()
    }

    pub(super) fn raw(self) -> Raw {
        match self {
            Self::Hangup => Raw::HUP,
            Self::Interrupt => Raw::INT,
            Self::Quit => Raw::QUIT,
            Self::Abort => Raw::ABORT,
            Self::Kill => Raw::KILL,
            Self::Terminate => Raw::TERM,
            Self::Stop => Raw::STOP,
            Self::Continue => Raw::CONT,
        }
    }
}

impl fmt::Display for Signal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(signal_name(self.number()).unwrap_or("a signal"))
    }
}

/// A request to a job, from a handle or from a signal to the starter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Request {
    /// End the job with this signal.
    Stop(Signal),
    /// Pass on a signal that only the program understands.
    Pass(Raw),
    /// Suspend the job until the starter is continued.
    Suspend,
}

/// All forwarded signals and the requests they become.
const FORWARDED: [(Raw, Request); 7] = [
    (Raw::INT, Request::Stop(Signal::Interrupt)),
    (Raw::TERM, Request::Stop(Signal::Terminate)),
    (Raw::HUP, Request::Stop(Signal::Hangup)),
    (Raw::QUIT, Request::Stop(Signal::Quit)),
    (Raw::TSTP, Request::Suspend),
    // A scheduler can be configured to send one of these as a warning before the time limit.
    (Raw::USR1, Request::Pass(Raw::USR1)),
    (Raw::USR2, Request::Pass(Raw::USR2)),
];

/// Turns signals into requests, except where this process ignores them. Needs the runtime.
///
/// The terminal sends Ctrl-C only to the starter's group; this process forwards it to the ranks, which
/// have their own groups.
pub(crate) fn forward_signals(requests: &mpsc::UnboundedSender<Request>) -> io::Result<()> {
    let own = Masks::of(None);
    if !own.ignore(Raw::TSTP) {
        // Before the request is sent, because its receiver checks which signal was the last.
        remember_the_last()?;
    }
    for (raw, request) in FORWARDED {
        if own.ignore(raw) {
            continue;
        }
        let mut arrivals = signal(SignalKind::from_raw(raw.as_raw()))?;
        let requests = requests.clone();
        tokio::spawn(async move {
            while arrivals.recv().await.is_some() && requests.send(request).is_ok() {}
        });
    }
    Ok(())
}
