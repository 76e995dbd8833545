//! The signals that can be sent to a job, and their names.

use std::fmt;

use signal_hook::low_level::signal_name;

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
    /// `SIGABRT`: what `abort()` raises.
    Abort,
    /// `SIGKILL`: ends the process, whatever it does.
    Kill,
    /// `SIGTERM`: asks the process to end.
    Terminate,
    /// `SIGSTOP`: freezes the process, which stays alive.
    Stop,
    /// `SIGCONT`: wakes a frozen process.
    Continue,
}

impl Signal {
    /// Returns the number this platform gives the signal.
    #[must_use]
    pub fn number(self) -> i32 {
        self.raw().as_raw()
    }

    pub(crate) fn raw(self) -> rustix::process::Signal {
        use rustix::process::Signal as Raw;
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
