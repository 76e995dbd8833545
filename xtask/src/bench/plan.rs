//! Who is there, and what is to be measured with whom.

use std::fs;
use std::thread::available_parallelism;

use super::book::Book;
use super::compare::{extra_rows, sweep};
use super::contender::{Contender, Peer, Programs};
use super::row::{Row, Size};
use super::{Backend, Bench};

/// Holds the peers that take part and how many processors there are.
#[derive(Debug)]
pub(super) struct Field {
    pub(super) cores: usize,
    peers: Vec<Peer>,
    /// Those that were asked for by name.
    named: Vec<Peer>,
}

impl Field {
    /// Finds the peers and builds the programs that measure them.
    ///
    /// # Errors
    ///
    /// If a peer that was asked for by name is not there. Of the others it is said in one line.
    pub(super) fn gather(bench: &Bench, programs: &Programs) -> Result<Self, String> {
        let cores = available_parallelism().map_err(|why| format!("no processors: {why}"))?;
        let wanted = match &bench.peer[..] {
            _ if bench.no_peers || bench.sweep => &[],
            [] => &Peer::ALL[..],
            named => named,
        };
        let mut peers = Vec::new();
        for &peer in wanted {
            let absent = peer.missing().or_else(|| peer.build(programs).err());
            match absent {
                None => peers.push(peer),
                Some(reason) if !bench.peer.is_empty() => return Err(reason),
                Some(reason) => println!("not compared with {}: {reason}", peer.name()),
            }
        }
        Ok(Self {
            cores: cores.get(),
            peers,
            named: bench.peer.clone(),
        })
    }

    /// Says what runs, in one line.
    pub(super) fn shown(&self, bench: &Bench) -> String {
        let name = |peer: &Peer| match peer.version() {
            Some(version) => format!("{} {version}", peer.name()),
            None => peer.name().to_owned(),
        };
        let peers: Vec<String> = self.peers.iter().map(name).collect();
        let peers = match peers.len() {
            0 => "no peers".to_owned(),
            _ => format!("peers: {}", peers.join(", ")),
        };
        let (cores, rounds, seconds) = (self.cores, bench.rounds, bench.seconds);
        let rounds = format!("{rounds} round{}", if rounds == 1 { "" } else { "s" });
        let how = if bench.unoptimised {
            "; NOT OPTIMISED"
        } else {
            ""
        };
        format!("{cores} processors; {rounds} of {seconds} s per row; {peers}{how}")
    }

    /// Lists who was asked for by name and measured nothing where it could have.
    pub(super) fn silent<'a>(&self, books: &(impl Iterator<Item = &'a Book> + Clone)) -> Vec<Peer> {
        let named = self.named.iter().copied();
        named
            .filter(|peer| {
                let every = Backend::ALL.into_iter();
                let contenders = every.flat_map(|backend| peer.contenders(backend, true));
                let mut contenders = contenders.copied();
                !contenders.any(|contender| books.clone().any(|book| book.has(contender)))
            })
            .collect()
    }
}

/// Describes all rounds with one backend and one number of ranks.
#[derive(Debug)]
pub(super) struct Contest {
    pub(super) backend: Backend,
    pub(super) ranks: usize,
    /// Whether ranks share processors.
    pub(super) crowded: bool,
    pub(super) peers: Vec<Contender>,
    /// What all measure.
    pub(super) compared: Vec<Row>,
    /// What is measured of ours besides.
    pub(super) extra: Vec<Row>,
    /// Says which rows are left out and why.
    pub(super) left_out: Vec<String>,
}

impl Contest {
    /// Lists the rows of ours.
    pub(super) fn all_rows(&self) -> Vec<Row> {
        [&self.compared[..], &self.extra].concat()
    }

    /// Counts the figures of one round.
    pub(super) fn figures(&self) -> u64 {
        let count = self.compared.len() * (self.peers.len() + 1) + self.extra.len();
        u64::try_from(count).unwrap_or(u64::MAX)
    }
}

/// Lists what is to be done.
pub(super) fn contests(bench: &Bench, field: &Field) -> Vec<Contest> {
    let free = free_memory();
    let backends = Backend::ALL.into_iter();
    let backends = backends.filter(|one| bench.backend.is_empty() || bench.backend.contains(one));
    let mut ranks: Vec<usize> = bench.ranks.iter().map(|&ranks| ranks.into()).collect();
    if ranks.is_empty() {
        ranks = vec![2, 4, 8];
    }
    ranks.sort_unstable();
    ranks.dedup();
    let pairs = backends.flat_map(|backend| ranks.iter().map(move |&ranks| (backend, ranks)));
    pairs
        .map(|(backend, ranks)| contest(bench, field, backend, ranks, free))
        .collect()
}

fn contest(
    bench: &Bench,
    field: &Field,
    backend: Backend,
    ranks: usize,
    free: Option<u64>,
) -> Contest {
    let crowded = ranks > field.cores;
    let mut left_out = Vec::new();
    let mut keep = |row: &Row| {
        let asked = bench.sweep || bench.rows.has(*row);
        let asked = asked && bench.max_bytes.is_none_or(|most| row.bytes <= most);
        let needed = row.memory(u64::try_from(ranks).unwrap_or(u64::MAX));
        let fits = free.is_none_or(|free| needed <= free);
        if asked && !fits {
            let (needed, free) = (megabytes(needed), megabytes(free.unwrap_or_default()));
            left_out.push(format!(
                "{row} left out with {ranks} ranks: it takes {needed}, {free} are free"
            ));
        }
        asked && fits
    };
    let (mut compared, mut extra) = if bench.sweep {
        (sweep(), Vec::new())
    } else {
        let compared = Row::compared();
        let extra = extra_rows(backend, field.cores, ranks, &compared);
        (compared, extra)
    };
    compared.retain(&mut keep);
    extra.retain(&mut keep);
    let peers = field.peers.iter();
    let peers = peers
        .flat_map(|peer| peer.contenders(backend, crowded))
        .copied();
    Contest {
        backend,
        ranks,
        crowded,
        peers: peers.collect(),
        compared,
        extra,
        left_out,
    }
}

fn megabytes(bytes: u64) -> Size {
    Size(bytes.div_ceil(1_000_000) * 1_000_000)
}

/// Gives the memory that programs can have, where the system tells; a part is left for everything else.
fn free_memory() -> Option<u64> {
    let told = fs::read_to_string("/proc/meminfo").ok()?;
    available(&told).map(|free| free / 4 * 3)
}

fn available(told: &str) -> Option<u64> {
    let mut lines = told.lines();
    let kilobytes = lines.find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kilobytes: u64 = kilobytes.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(kilobytes * 1024)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::super::row::Op;
    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        bench: Bench,
    }

    fn planned(arguments: &[&str], free: u64) -> Contest {
        let bench = Line::parse_from([&["bench"], arguments].concat()).bench;
        let field = Field {
            cores: 2,
            peers: Peer::ALL.into(),
            named: Vec::new(),
        };
        contest(&bench, &field, Backend::Shm, 4, Some(free))
    }

    const PLENTY: u64 = 1 << 40;

    #[test]
    fn peers_measure_what_is_compared_and_ours_measures_more() {
        let contest = planned(&[], PLENTY);
        assert_eq!(contest.compared, Row::compared());
        let peers = [Contender::Mpich, Contender::MpichMpir, Contender::OpenMpi];
        assert_eq!(contest.peers, peers);
        assert!(contest.all_rows().contains(&Row::new(Op::Allreduce, 8)));
        let extra = u64::try_from(contest.extra.len()).unwrap();
        assert_eq!(contest.figures(), 12 * 4 + extra);
    }

    #[test]
    fn rows_are_picked_by_size() {
        let small = planned(&["--rows", "small"], PLENTY);
        assert_eq!(small.compared.len(), 6);
        assert!(small.all_rows().iter().all(|row| row.bytes <= 65_536));
        let least = planned(&["--max-bytes", "32"], PLENTY);
        assert_eq!(least.compared.len(), 3);
        assert!(least.left_out.is_empty());
    }

    #[test]
    fn what_does_not_fit_into_memory_is_left_out_and_said() {
        let contest = planned(&["--rows", "large"], 400_000_000);
        let largest = contest.compared.iter().map(|row| row.bytes).max();
        assert_eq!(largest, Some(64_000_000));
        assert_eq!(
            contest.left_out,
            ["allgatherv 206 MB left out with 4 ranks: it takes 1030 MB, 400 MB are free"]
        );
    }

    #[test]
    fn free_memory_is_read_from_what_the_system_tells() {
        let told = "MemTotal:       24103 kB\nMemAvailable:       2000 kB\n";
        assert_eq!(available(told), Some(2_048_000));
        assert_eq!(available("MemTotal: 24103 kB\n"), None);
    }

    #[test]
    fn who_was_asked_for_and_measured_nothing_is_found() {
        let field = Field {
            cores: 2,
            peers: vec![Peer::Mpich, Peer::Gloo],
            named: vec![Peer::Mpich, Peer::Gloo],
        };
        let mut book = Book::default();
        let figure = super::super::figure::Figure::read("timing,barrier,0,7,1.0,2.0,").unwrap();
        book.record(1, Contender::Mpich, figure);
        assert_eq!(field.silent(&[&book].into_iter()), [Peer::Gloo]);
    }
}
