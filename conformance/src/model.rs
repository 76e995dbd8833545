//! What a backend promises: the only way to exclude a clause.

use std::time::Duration;

use crate::clause::Clause;

/// Declares what a backend promises.
///
/// A backend cannot pick its cases. If its model does not promise what a case covers, the case is listed as
/// "not promised", with the reason; everything else must pass. The models of the backends of this workspace
/// are constants here, and a subject with such a name and another model is rejected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Model {
    /// How many ranks there can be.
    pub worlds: Worlds,
    /// What a rank can be.
    pub ranks: Ranks,
    /// What happens when a rank dies.
    pub death: Death,
    /// Which ranks determine the first death.
    pub ruling: Ruling,
    /// When a rank that dumps core counts as dead.
    pub shows: Shows,
    /// When mismatches and refusals are reported to the other ranks.
    pub checks: Checks,
    /// Which ranks may return from a collective before all have entered.
    pub early: Early,
    /// Whether regions are shared between the ranks of a node.
    pub memory: Memory,
    /// How many communicators one process may open.
    pub opens: Opens,
}

/// Describes how many ranks there can be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Worlds {
    /// Any number.
    Any,
    /// One.
    One,
}

/// Describes what a rank can be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ranks {
    /// A process.
    Processes,
    /// A thread of one process.
    Threads,
    /// Either.
    Both,
}

/// Describes what happens when a rank dies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Death {
    /// The current or next call of every survivor fails, naming it.
    Reported {
        /// The time from the death to the error.
        within: Duration,
    },
    /// The launcher ends the job.
    EndsTheJob,
}

/// Which ranks determine the first death.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ruling {
    /// Every rank by itself.
    Anyone,
    /// Rank 0 for all: while it is stopped, no rank is notified of another death before the timeout.
    RankZero,
}

/// Describes when a rank that dumps core counts as dead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shows {
    /// At once.
    AtOnce,
    /// When the system has closed its links, which it does after the dump.
    WhenLinksClose,
}

/// When mismatches and refusals are reported to the other ranks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Checks {
    /// Always.
    Always,
    /// With `COBRE_COMM_CHECK=1`, which the suite sets.
    OnRequest,
}

/// Which ranks may return from a collective before all have entered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Early {
    /// None: every collective synchronises.
    Nobody,
    /// The root of a broadcast, and a rank with nothing to receive.
    RootOrEmpty,
}

/// Describes whether regions are shared between the ranks of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Memory {
    /// One copy per node; local rank 0 leads.
    Shared,
    /// One copy per rank; every rank leads a node of its own.
    Heap,
}

/// Describes how many communicators one process may open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Opens {
    /// Any number, one after the other or at once.
    Many,
    /// One; others come from `split_local`.
    Once,
}

/// What a case requires beyond its clauses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Need {
    /// Every collective synchronises, the root included.
    Synchronising,
    /// A process can open several communicators.
    SeveralOpens,
    /// Ranks that can be killed alone.
    Processes,
    /// A death is reported while rank 0 is stopped.
    RulingWithoutRankZero,
}

impl Model {
    /// Promises everything: the starting point of a new backend.
    pub const FULL: Self = Self {
        worlds: Worlds::Any,
        ranks: Ranks::Both,
        death: Death::Reported {
            within: Duration::from_millis(100),
        },
        ruling: Ruling::Anyone,
        shows: Shows::AtOnce,
        checks: Checks::Always,
        early: Early::Nobody,
        memory: Memory::Shared,
        opens: Opens::Many,
    };

    /// The model of `comm-local`.
    pub const LOCAL: Self = Self {
        worlds: Worlds::One,
        memory: Memory::Heap,
        ranks: Ranks::Processes,
        ..Self::FULL
    };

    /// The model of `comm-shm`.
    pub const SHM: Self = Self::FULL;

    /// The model of `comm-tcp`. Its 100 ms begin when the kernel closes the sockets of the dead rank, after
    /// it has freed that rank's memory. The suite's clock starts before that, when the rank announces its
    /// end.
    pub const TCP: Self = Self {
        memory: Memory::Heap,
        death: Death::Reported {
            within: Duration::from_millis(300),
        },
        ruling: Ruling::RankZero,
        shows: Shows::WhenLinksClose,
        ..Self::FULL
    };

    /// The model of `comm-mpi`.
    pub const MPI: Self = Self {
        ranks: Ranks::Processes,
        death: Death::EndsTheJob,
        checks: Checks::OnRequest,
        early: Early::RootOrEmpty,
        opens: Opens::Once,
        ..Self::FULL
    };

    /// The model of the reference, with which the other backends are compared.
    #[doc(hidden)]
    pub const REFERENCE: Self = Self {
        ranks: Ranks::Threads,
        ..Self::FULL
    };

    /// Returns the model that a backend of this workspace must declare.
    #[must_use]
    pub fn of(name: &str) -> Option<Self> {
        match name {
            "local" => Some(Self::LOCAL),
            "shm" => Some(Self::SHM),
            "tcp" => Some(Self::TCP),
            "mpi" => Some(Self::MPI),
            "reference" => Some(Self::REFERENCE),
            _ => None,
        }
    }

    /// Returns why `clause` is not promised; `None` if it is.
    #[must_use]
    pub fn leaves_out(&self, clause: Clause) -> Option<&'static str> {
        match (clause, self.worlds, self.death) {
            (Clause::C10 | Clause::C11, Worlds::One, _) => Some("there are no other ranks to tell"),
            (Clause::C12 | Clause::C14, Worlds::One, _) => Some("there are no other ranks to lose"),
            (Clause::C12 | Clause::C14, Worlds::Any, Death::EndsTheJob) => {
                Some("the launcher ends the job of a rank that dies")
            }
            _ => None,
        }
    }

    /// Returns why `need` is not met; `None` if it is.
    pub(crate) fn lacks(&self, need: Need) -> Option<&'static str> {
        match need {
            Need::Synchronising if self.early == Early::RootOrEmpty => {
                Some("a root, or a rank with nothing to receive, may return early")
            }
            Need::SeveralOpens if self.opens == Opens::Once => {
                Some("a process opens one communicator")
            }
            Need::Processes if self.ranks == Ranks::Threads => {
                Some("its ranks are threads and cannot be killed alone")
            }
            Need::RulingWithoutRankZero if self.ruling == Ruling::RankZero => {
                Some("no rank is notified of a death while rank 0 is stopped")
            }
            _ => None,
        }
    }

    /// Returns the bound on the time from a death to the error, where deaths are reported.
    pub(crate) fn death_within(&self) -> Duration {
        match self.death {
            Death::Reported { within } => within,
            Death::EndsTheJob => Duration::MAX,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The table of the contract: which backend promises which clause.
    #[test]
    fn known_models_match_the_contract() {
        use Clause::{C10, C11, C12, C14};
        // All of them promise C15.
        let table = [
            ("local", Worlds::One, false, &[C10, C11, C12, C14][..]),
            ("shm", Worlds::Any, true, &[]),
            ("tcp", Worlds::Any, true, &[]),
            ("mpi", Worlds::Any, false, &[C12, C14]),
        ];
        for (name, worlds, threads, left_out) in table {
            let model = Model::of(name).unwrap();
            assert_eq!(model.worlds, worlds, "{name}");
            assert_eq!(model.ranks == Ranks::Both, threads, "{name}");
            for clause in Clause::ALL {
                let kept = model.leaves_out(clause).is_none();
                assert_eq!(kept, !left_out.contains(&clause), "{name} {clause}");
            }
        }
    }

    #[test]
    fn known_models_share_memory_where_the_contract_says() {
        let heap = |name| Model::of(name).unwrap().memory == Memory::Heap;
        assert_eq!(
            ["local", "shm", "tcp", "mpi"].map(heap),
            [true, false, true, false]
        );
    }

    #[test]
    fn checks_are_always_on_but_on_mpi() {
        let always = |name| Model::of(name).unwrap().checks == Checks::Always;
        assert_eq!(
            ["local", "shm", "tcp", "mpi"].map(always),
            [true, true, true, false]
        );
    }
}
