//! The figures in `docs/tcp-protocol.md`, computed from what the shipped code would put on the links.
//!
//! What an iteration of the first user would cost on a cluster that is not at hand: which way a call
//! goes, its bytes and its steps are those of the code, latency and rate those of the network. An
//! iteration is one allgatherv of 206 MB, 119 of 3.2 MB and one allreduce of 32 bytes; 16 ranks, one per
//! machine, links of 100 Gbit/s each way.

#![expect(
    clippy::cast_precision_loss,
    reason = "bytes and ranks, far below 2^52"
)]

use comm_tcp::traffic;

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

/// Where equal blocks lie, one per rank: counts and displacements.
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

    /// Returns the most bytes that any link of the ring carries.
    fn busiest_link(&self) -> usize {
        let sent = |rank| traffic::sent_along_the_ring(&self.0, &self.1, rank);
        (0..RANKS).map(sent).max().unwrap_or(0)
    }

    /// Returns the seconds along the ring, as if a block had to come as a whole before it goes on. It
    /// does not, so this is more than it takes.
    fn along_the_ring(&self) -> f64 {
        let links = traffic::links_crossed(RANKS) as f64;
        entry(0, 0) + links * LATENCY + self.busiest_link() as f64 / RATE
    }

    /// Returns the seconds through rank 0, whose one link carries what every worker is sent.
    fn through_rank_0(&self) -> f64 {
        let sent = |rank| traffic::relayed_to(&self.0, &self.1, rank);
        let sent: usize = (1..RANKS).map(sent).sum();
        entry(0, 0) + 2.0 * LATENCY + sent as f64 / RATE
    }
}

/// Returns the seconds of an iteration.
fn iteration(allgatherv: fn(&Equal) -> f64) -> f64 {
    let gathered = TIMES.map(|(times, bytes)| times as f64 * allgatherv(&Equal::new(bytes)));
    gathered.iter().sum::<f64>() + entry(32, 32)
}

/// Fails unless a line of the document begins like this.
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

/// Encrypted, the processor is the limit: what one rank was measured to move each way.
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

#[test]
fn the_limits_of_small_calls_are_those_of_the_code() {
    let size = |bytes: usize| match bytes as f64 / f64::from(1 << 20) {
        mib if mib < 1.0 => format!("{} KiB", bytes >> 10),
        mib => format!("{mib} MiB"),
    };
    let (reduce, other) = traffic::small_up_to(2, true);
    says(&format!("| 2 ranks | {} | {} |", size(reduce), size(other)));
    for (one_machine, name) in [(true, "one machine"), (false, "several machines")] {
        // With few ranks the limit of one call holds, with many that of all of them together.
        let few = traffic::small_up_to(3, one_machine);
        let many = traffic::small_up_to(1 << 10, one_machine);
        let cell = |few, many: usize| format!("{}, and {} / R", size(few), size(many << 10));
        says(&format!(
            "| R ranks of {name} | {} | {} |",
            cell(few.0, many.0),
            cell(few.1, many.1)
        ));
    }
}
