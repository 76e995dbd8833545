//! The signals a job deals in, and their names.

use std::fmt;

/// Names a signal that may be sent to a rank or to a whole job.
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
    /// `SIGKILL`: ends the process, unasked.
    Kill,
    /// `SIGTERM`: asks the process to end.
    Terminate,
    /// `SIGSTOP`: freezes the process; it is alive and absent.
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
        f.write_str(name(self.number()).unwrap_or("a signal"))
    }
}

/// Returns the name of the signals a rank commonly dies of.
pub(crate) fn name(number: i32) -> Option<&'static str> {
    use rustix::process::Signal as Raw;
    let named = [
        (Raw::HUP, "SIGHUP"),
        (Raw::INT, "SIGINT"),
        (Raw::QUIT, "SIGQUIT"),
        (Raw::ILL, "SIGILL"),
        (Raw::TRAP, "SIGTRAP"),
        (Raw::ABORT, "SIGABRT"),
        (Raw::BUS, "SIGBUS"),
        (Raw::FPE, "SIGFPE"),
        (Raw::KILL, "SIGKILL"),
        (Raw::USR1, "SIGUSR1"),
        (Raw::SEGV, "SIGSEGV"),
        (Raw::USR2, "SIGUSR2"),
        (Raw::PIPE, "SIGPIPE"),
        (Raw::ALARM, "SIGALRM"),
        (Raw::TERM, "SIGTERM"),
        (Raw::STOP, "SIGSTOP"),
        (Raw::CONT, "SIGCONT"),
        (Raw::XCPU, "SIGXCPU"),
        (Raw::XFSZ, "SIGXFSZ"),
        (Raw::SYS, "SIGSYS"),
    ];
    named
        .iter()
        .find(|(signal, _)| signal.as_raw() == number)
        .map(|(_, name)| *name)
}
