//! What an iteration of the first user would cost on a cluster that is not at hand: the bytes and steps
//! are those of the algorithms, latency and rate those of the network.
//!
//! An iteration is one allgatherv of 206 MB, 119 of 3.2 MB and one allreduce of 32 bytes; 16 ranks, one
//! per machine, links of 100 Gbit/s each way.

#![expect(
    clippy::cast_precision_loss,
    reason = "bytes and ranks, far below 2^52"
)]

use super::blocks::{Blocks, Scatter};
use super::eager::limit;
use super::entry::Land;
use super::gather::Gather;
use crate::call::Call;
use crate::frame::HEADER;

const RANKS: usize = 16;

/// Bytes per second on a link, each way.
const RATE: f64 = 12.5e9;

/// From the send of one rank to the return of the receive on another: a switch, two stacks.
const LATENCY: f64 = 15e-6;

/// The processor time of one system call that moves a small frame.
const FRAME: f64 = 5e-6;

/// Gives the seconds of an entry round that carries `up` bytes from and `down` bytes to each worker:
/// rank 0 takes all frames and sends all answers, one after the other.
fn entry(up: usize, down: usize) -> f64 {
    let workers = (RANKS - 1) as f64;
    let wire = (2 * HEADER + up + down) as f64 / RATE;
    2.0 * LATENCY + workers * (2.0 * FRAME + wire)
}

/// Lays `bytes` out in equal blocks, one per rank.
fn equal(bytes: usize) -> (Vec<usize>, Vec<usize>) {
    let each = bytes / RANKS;
    let displs = (0..RANKS).map(|rank| rank * each).collect();
    (vec![each; RANKS], displs)
}

/// Gives the most bytes that any link of the ring carries, and over how many links the bytes of a
/// block go, from the tasks that all ranks would run.
fn ring(blocks: Blocks<'_>) -> (u64, usize) {
    let call = Call::allgatherv(blocks.counts, blocks.elem_size);
    let mut recv = vec![0; blocks.total()];
    let send = vec![0; blocks.range(0).len()];
    let loads = (0..RANKS).map(|rank| {
        let task = Gather::new((0, call), rank, &send, &mut recv, blocks);
        (task.load(), task.hops())
    });
    loads.fold((0, 0), |most, (load, hops)| {
        (most.0.max(load), most.1.max(hops))
    })
}

/// Gives the seconds of a large allgatherv along the ring, as if a block had to come as a whole before
/// it goes on. It does not, so this is more than it takes.
fn along_the_ring(blocks: Blocks<'_>) -> f64 {
    let (load, hops) = ring(blocks);
    entry(0, 0) + hops as f64 * LATENCY + load as f64 / RATE
}

/// Gives the seconds of the same through rank 0, whose one link carries what every worker is sent.
fn through_rank_0(blocks: Blocks<'_>) -> f64 {
    let mut recv = vec![0; blocks.total()];
    let workers = 1..RANKS;
    let sent: usize = workers
        .map(|rank| Scatter::new(blocks, &mut recv).without(rank).len())
        .sum();
    entry(0, 0) + 2.0 * LATENCY + sent as f64 / RATE
}

/// Gives the seconds of an iteration.
fn iteration(allgatherv: fn(Blocks<'_>) -> f64) -> f64 {
    let seconds = |bytes: usize| {
        let (counts, displs) = equal(bytes);
        let call = Call::allgatherv(&counts, 1);
        assert!(call.bytes > limit(&call, RANKS, false), "bulk");
        allgatherv(Blocks {
            counts: &counts,
            displs: &displs,
            elem_size: 1,
        })
    };
    seconds(206_000_000) + 119.0 * seconds(3_200_000) + entry(32, 32)
}

#[test]
fn an_iteration_of_sixteen_ranks_takes_less_than_a_fifth_of_a_second() {
    let ring = iteration(along_the_ring);
    assert!(ring < 0.2, "{ring}");
    let star = iteration(through_rank_0);
    assert!(star > 3.0 * 0.2, "{star}");
    // What the book says.
    assert_eq!(format!("{ring:.3} {star:.2}"), "0.093 0.69");
}

#[test]
fn no_link_of_the_ring_carries_a_block_twice_nor_its_successors() {
    let (counts, displs) = equal(3_200_000);
    let blocks = Blocks {
        counts: &counts,
        displs: &displs,
        elem_size: 1,
    };
    assert_eq!(ring(blocks), (3_000_000, 15));
}
