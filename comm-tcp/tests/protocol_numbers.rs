//! The figures in `docs/tcp-protocol.md`, computed from what the shipped code would send over the links.
//!
//! The cost of an iteration of the first user on a cluster that is not available: the path of a call, its
//! bytes and its steps are those of the code, latency and rate those of the network. An iteration is one
//! allgatherv of 206 MB, 119 of 3.2 MB and one allreduce of 32 bytes; 16 ranks, one per machine, links of 100
//! Gbit/s each way.

#![expect(
    clippy::cast_precision_loss,
    reason = "bytes and ranks, far below 2^52"
)]

use comm_tcp::traffic::{self, Hosts};

const DOCUMENT: &str = include_str!("../../docs/tcp-protocol.md");

const RANKS: usize = 16;

/// How often an iteration gathers the small and the large buffer.
const TIMES: [(usize, usize); 2] = [(1, 206_000_000), (119, 3_200_000)];

/// Bytes per second on a link, each way.
const RATE: f64 = 12.5e9;

/// From the send of one rank to the return of the receive on another: a switch, two stacks.
const LATENCY: f64 = 15e-6;

/// The processor time of one system call that moves a small frame.
const FRAME: f64 = 5e-6;

/// Returns the seconds of an entry round that carries `up` bytes from and `down` bytes to each
/// worker: rank 0 takes all frames and sends all answers, one after the other.
fn entry(up: usize, down: usize) -> f64 {
    let workers = (RANKS - 1) as f64;
    let wire = (2 * traffic::HEADER + up + down) as f64 / RATE;
    2.0 * LATENCY + workers * (2.0 * FRAME + wire)
}

/// The layout of equal blocks, one per rank: counts and displacements.
struct Equal(Vec<usize>, Vec<usize>);

impl Equal {
    fn new(bytes: usize) -> Self {
        let each = bytes / RANKS;
        let equal = Self(
            vec![each; RANKS],
            (0..RANKS).map(|rank| rank * each).collect(),
        );
        assert!(traffic::goes_along_the_ring(&equal.0), "{bytes} bytes");
        equal
    }

    /// Returns the largest number of bytes that any link of the ring carries.
    fn busiest_link(&self) -> usize {
        let sent = |rank| traffic::sent_along_the_ring(&self.0, &self.1, rank);
        (0..RANKS).map(sent).max().unwrap_or(0)
    }

    /// Returns the seconds along the ring, as if a block had to arrive completely before it is forwarded.
    /// That is not the case, so this is an upper bound.
    fn along_the_ring(&self) -> f64 {
        let links = traffic::links_crossed(RANKS) as f64;
        entry(0, 0) + links * LATENCY + self.busiest_link() as f64 / RATE
    }

    /// Returns the seconds through rank 0, in pieces; its one link carries what every worker receives.
    fn through_rank_0(&self) -> f64 {
        let (bytes, piece) = (self.0.iter().sum(), traffic::piece(RANKS));
        let pieces = (0..bytes).step_by(piece).map(|at| piece.min(bytes - at));
        pieces.map(|piece| entry(piece / RANKS, piece)).sum()
    }
}

/// Returns the seconds of an iteration.
fn iteration(allgatherv: fn(&Equal) -> f64) -> f64 {
    let gathered = TIMES.map(|(times, bytes)| times as f64 * allgatherv(&Equal::new(bytes)));
    gathered.iter().sum::<f64>() + entry(32, 32)
}

/// Fails unless a line of the document begins with this.
#[track_caller]
fn says(line: &str) {
    let found = DOCUMENT.lines().any(|found| found.starts_with(line));
    assert!(found, "docs/tcp-protocol.md does not say\n{line}");
}

#[test]
fn an_iteration_of_sixteen_ranks_takes_less_than_a_fifth_of_a_second() {
    let ring = iteration(Equal::along_the_ring);
    assert!(ring < 0.2, "{ring}");
    let star = iteration(Equal::through_rank_0);
    assert!(star > 3.0 * 0.2, "{star}");
    says(&format!("| **all** | | | | | **{ring:.3}** |"));
    assert!(
        DOCUMENT.contains(&format!(": {star:.2} s.")),
        "docs/tcp-protocol.md does not say {star:.2} s"
    );
}

/// When encrypted, the processor is the limit: the measured rate of one rank, each way.
#[test]
fn the_cost_of_encryption_is_that_of_the_documentation() {
    const SEALED_RATE: f64 = 1.4e9;
    let slower = |blocks: &Equal| {
        let busiest = blocks.busiest_link() as f64;
        blocks.along_the_ring() + busiest / SEALED_RATE - busiest / RATE
    };
    let gathered = TIMES.map(|(times, bytes)| times as f64 * slower(&Equal::new(bytes)));
    let seconds = gathered.iter().sum::<f64>() + entry(32, 32);
    let said = format!("the iteration takes **{seconds:.3}** s");
    assert!(DOCUMENT.contains(&said), "docs/tcp-protocol.md: {said}");
    for (_, bytes) in TIMES {
        let milliseconds = 1e3 * Equal::new(bytes).busiest_link() as f64 / SEALED_RATE;
        let digits = usize::from(milliseconds < 100.0);
        let said = format!("{milliseconds:.digits$} ms");
        assert!(DOCUMENT.contains(&said), "docs/tcp-protocol.md: {said}");
    }
}

#[test]
fn the_rows_of_the_documentation_are_those_of_the_code() {
    let entry_ms = 1e3 * entry(0, 0);
    let links_ms = 1e3 * traffic::links_crossed(RANKS) as f64 * LATENCY;
    for (times, bytes) in TIMES {
        let blocks = Equal::new(bytes);
        let busiest = blocks.busiest_link() as f64;
        let seconds = times as f64 * blocks.along_the_ring();
        says(&format!(
            "| allgatherv {} MB | {entry_ms:.2} ms | {links_ms:.3} ms | {:.1} MB: {:.2} ms | {times} | {seconds:.4} |",
            bytes as f64 / 1e6,
            busiest / 1e6,
            1e3 * busiest / RATE,
        ));
    }
    let seconds = entry(32, 32);
    says(&format!(
        "| allreduce 32 B | {:.2} ms | | in the entry round | 1 | {seconds:.4} |",
        1e3 * seconds
    ));
}

#[test]
fn no_link_of_the_ring_carries_a_block_twice_nor_its_successors() {
    let blocks = Equal::new(3_200_000);
    assert_eq!(blocks.busiest_link(), 3_000_000);
    assert_eq!(traffic::links_crossed(RANKS), 15);
}

/// Returns a size as the document writes it.
fn size(bytes: usize) -> String {
    match bytes as f64 / f64::from(1 << 20) {
        mib if mib < 1.0 => format!("{} KiB", bytes >> 10),
        mib => format!("{mib} MiB"),
    }
}

#[test]
fn the_limits_of_small_calls_are_those_of_the_code() {
    let [reduce, gather, copy] = traffic::small_up_to(2, Hosts::One).map(size);
    says(&format!("| 2 ranks | {reduce} | {gather} | {copy} |"));
    for (hosts, name) in [
        (
            Hosts::OneCrowded,
            "one machine with fewer processors than ranks",
        ),
        (Hosts::One, "one machine"),
        (Hosts::Several, "several machines"),
    ] {
        // With few ranks the limit of one call applies, then that of all of them together, then the floor.
        let few = traffic::small_up_to(3, hosts);
        let some = traffic::small_up_to(16, hosts);
        let many = traffic::small_up_to(1 << 20, hosts);
        let cells = [0, 1, 2].map(|call| {
            if few[call] == many[call] {
                return size(few[call]);
            }
            let [few, in_all, many] = [few[call], some[call] * 16, many[call]].map(size);
            format!("{few}, {in_all} / R, at least {many}")
        });
        says(&format!("| R ranks of {name} | {} |", cells.join(" | ")));
    }
}

/// A network between machines: bytes per second on a link, and seconds from send to receive.
struct Network(&'static str, f64, f64);

const NETWORKS: [Network; 3] = [
    Network("100 Gbit/s, 15 us", 12.5e9, 15e-6),
    Network("10 Gbit/s, 20 us", 1.25e9, 20e-6),
    Network("1 Gbit/s, 50 us", 0.125e9, 50e-6),
];

impl Network {
    /// Returns the seconds of an allgatherv of `bytes` with its entry round, and along the ring.
    fn costs(&self, ranks: usize, bytes: usize) -> (f64, f64) {
        let Self(_, rate, latency) = *self;
        let (workers, bytes) = ((ranks - 1) as f64, bytes as f64);
        let round = |body: f64| {
            let wire = (2.0 * traffic::HEADER as f64 + body) / rate;
            2.0 * latency + workers * (2.0 * FRAME + wire)
        };
        let share = bytes / ranks as f64;
        let links = traffic::links_crossed(ranks) as f64;
        let ring = links * latency + (bytes - share) / rate;
        (round(bytes + share), round(0.0) + ring)
    }
}

#[test]
fn the_limit_between_machines_is_wrong_by_a_bounded_factor_on_every_network() {
    const FEW: usize = 32;
    const FEW_BOUND: f64 = 5.0;
    const MANY_BOUND: f64 = 2.4;
    for ranks in 3..=4096 {
        let [_, limit, _] = traffic::small_up_to(ranks, Hosts::Several);
        for network in NETWORKS {
            let (small, bulk) = network.costs(ranks, limit);
            let factor = (bulk / small).max(small / bulk);
            // The maximum is at 3 to 8 ranks on the slowest network, where the bytes dominate either way.
            let bound = if ranks <= FEW { FEW_BOUND } else { MANY_BOUND };
            let Network(name, ..) = network;
            assert!(factor < bound, "{ranks} ranks, {name}: {small} {bulk}");
        }
    }
    let said = format!(
        "less than {FEW_BOUND} times as much as the other with up to {FEW} ranks, less than {MANY_BOUND} times with more."
    );
    assert!(DOCUMENT.contains(&said), "docs/tcp-protocol.md: {said}");
}
