//! How a rank waits: it spins, then yields, then sleeps in the kernel.

use std::time::{Duration, Instant};

/// How long to wait in which way.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Patience {
    spin: Duration,
    drowse: Duration,
    /// How many waits are still to begin without spinning.
    sharing: u16,
}

/// How soon what was waited for comes after a yield if a rank of the job was given the processor; a
/// busy stranger keeps it for longer.
const SOON: Duration = Duration::from_micros(200);

/// For how many waits it is taken for granted that the ranks share a processor.
const SHARING: u16 = 200;

/// What to do until the next look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pause {
    Spin,
    Yield,
    Sleep,
}

impl Patience {
    /// Chooses by the ranks on this machine and the processors this process may use.
    ///
    /// A sleep and a wake-up cost ten times what a message costs, so a rank looks again and again
    /// for a while. With as many processors as ranks it keeps its own for about one round trip: a
    /// busy stranger that it was given to would keep it for milliseconds. After that, and at once
    /// with more ranks than processors, it gives the processor away between two looks: the rank
    /// that is waited for may be the one that needs it.
    pub(crate) fn new(local_ranks: usize) -> Self {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let spin = if local_ranks <= processors { 20 } else { 0 };
        Self {
            spin: Duration::from_micros(spin),
            drowse: Duration::from_millis(1),
            sharing: 0,
        }
    }
}

/// Keeps the time of one wait.
#[derive(Debug)]
pub(crate) struct Idle {
    patience: Patience,
    since: Option<Instant>,
    yielded: Option<Instant>,
}

impl Idle {
    pub(crate) fn new(patience: Patience) -> Self {
        Self {
            patience,
            since: None,
            yielded: None,
        }
    }

    /// Something moved: the wait begins anew.
    pub(crate) fn moved(&mut self) {
        self.since = None;
        if let Some(yielded) = self.yielded.take() {
            let soon = yielded.elapsed() < SOON;
            self.patience.sharing = if soon { SHARING } else { 0 };
        }
    }

    /// Gives what was learnt, for the next wait.
    pub(crate) fn finish(mut self) -> Patience {
        self.moved();
        self.patience
    }

    /// Tells how to wait on, and since when nothing has moved.
    pub(crate) fn pause(&mut self) -> (Pause, Instant) {
        let now = Instant::now();
        let since = *self.since.get_or_insert_with(|| {
            self.patience.sharing = self.patience.sharing.saturating_sub(1);
            now
        });
        let idle = now - since;
        let Patience {
            spin,
            drowse,
            sharing,
        } = self.patience;
        let pause = if idle < spin && sharing == 0 {
            Pause::Spin
        } else if idle < spin + drowse {
            self.yielded.get_or_insert(now);
            Pause::Yield
        } else {
            Pause::Sleep
        };
        (pause, since)
    }
}
