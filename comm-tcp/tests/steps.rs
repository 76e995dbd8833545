//! What changes, and what does not, where a byte more makes calls go another way.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]

mod common;

use std::time::{Duration, Instant};

use comm_api::{Communicator, ReduceOp};
use comm_tcp::TcpBackend;
use comm_tcp::traffic::{Hosts, small_up_to};
use common::world;

/// Far more than processors: here a way from neighbour to neighbour costs a turn of all processors.
const RANKS: usize = 64;

/// How often both sizes are tried, in turn.
const ROUNDS: usize = 15;

/// Returns the shortest times of an allgatherv of each of two sizes, taken in turn, as this rank saw them:
/// whatever else the machine does only adds to them.
fn times(comm: &TcpBackend, sizes: [usize; 2]) -> [Duration; 2] {
    let mut times = [Vec::new(), Vec::new()];
    // The first round opens the windows of the links and does not count.
    for round in 0..=ROUNDS {
        for (&size, times) in sizes.iter().zip(&mut times) {
            comm.barrier().unwrap();
            let start = Instant::now();
            allgatherv(comm, size);
            // The call is over when the last rank has left it.
            comm.barrier().unwrap();
            times.extend((round > 0).then(|| start.elapsed()));
        }
    }
    times.map(|times| times.into_iter().min().unwrap())
}

fn allgatherv(comm: &TcpBackend, bytes: usize) {
    let (rank, size) = (comm.rank(), comm.size());
    // What equal blocks do not hold, the last one does.
    let mut counts = vec![bytes / size; size];
    counts[size - 1] += bytes % size;
    let displs: Vec<usize> = (0..size).map(|rank| rank * (bytes / size)).collect();
    let mut all = vec![0_u8; bytes];
    comm.allgatherv(&vec![1_u8; counts[rank]], &mut all, &counts, &displs)
        .unwrap();
}

/// Returns up to how many bytes calls of `ranks` ranks are small on this machine.
fn limits(ranks: usize) -> [usize; 3] {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let crowded = ranks > processors;
    let hosts = if crowded {
        Hosts::OneCrowded
    } else {
        Hosts::One
    };
    small_up_to(ranks, hosts)
}

#[test]
fn an_allgatherv_of_64_ranks_takes_no_longer_for_a_byte_more() {
    let [_, limit, _] = limits(RANKS);
    let sizes = [limit, limit + 1];
    let results = world(RANKS, |_| (), move |comm| times(&comm, sizes));
    let [small, large] = results[0];
    // Busy processes of others delay every hop of bulk, so there is some room for them.
    assert!(
        large < small * 3,
        "{limit} bytes take {small:?}, one more takes {large:?}"
    );
}

#[test]
fn a_sum_has_the_same_bits_on_both_sides_of_the_switch() {
    const SIZE: usize = 17;
    let [limit, _, _] = limits(SIZE);
    let count = limit / 8;
    // Sums of these depend on their order.
    let value = |rank: usize, index: usize| {
        let scale = [1e-9, 1.0, 1e9][(rank + index) % 3];
        f64::from(u16::try_from((rank * 7919 + index) % 1009).unwrap()) * scale
    };
    let values = move |rank: usize, count: usize| -> Vec<f64> {
        (0..count).map(|index| value(rank, index)).collect()
    };
    let results = world(
        SIZE,
        |_| (),
        move |comm| {
            [count, count + 1].map(|count| {
                let mut sum = vec![0.0; count];
                comm.allreduce(&values(comm.rank(), count), &mut sum, ReduceOp::Sum)
                    .unwrap();
                sum
            })
        },
    );
    let mut wanted = values(0, count + 1);
    for rank in 1..SIZE {
        for (sum, value) in wanted.iter_mut().zip(values(rank, count + 1)) {
            *sum += value;
        }
    }
    let bits =
        |values: &[f64]| -> Vec<u64> { values.iter().map(|value| value.to_bits()).collect() };
    for (rank, [small, large]) in results.iter().enumerate() {
        assert_eq!(bits(small), bits(&wanted[..count]), "small, rank {rank}");
        assert_eq!(bits(large), bits(&wanted), "large, rank {rank}");
    }
}
