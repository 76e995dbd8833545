//! What changes, and what does not, where one more byte makes calls take another path.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]

mod common;

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use comm_api::{Communicator, ReduceOp};
use comm_tcp::TcpBackend;
use comm_tcp::traffic::{Hosts, small_up_to};
use common::world;
use rstest::rstest;

/// Far more ranks than processors: here a path from neighbour to neighbour costs a turn of all processors.
const RANKS: usize = 64;

/// One test at a time, because they measure.
static ALONE: Mutex<()> = Mutex::new(());

/// How often both sizes are tried, in turn.
const ROUNDS: usize = 15;

/// A collective of this many bytes.
type Collective = fn(&TcpBackend, usize);

/// Returns the shortest times of a call of each of two sizes, taken in turn, as this rank saw them: other
/// work on the machine only adds to them.
fn times(comm: &TcpBackend, call: Collective, sizes: [usize; 2]) -> [Duration; 2] {
    let mut times = [Vec::new(), Vec::new()];
    // The first round opens the windows of the links and does not count.
    for round in 0..=ROUNDS {
        for (&size, times) in sizes.iter().zip(&mut times) {
            comm.barrier().unwrap();
            let start = Instant::now();
            call(comm, size);
            // The call is over when the last rank has left it.
            comm.barrier().unwrap();
            times.extend((round > 0).then(|| start.elapsed()));
        }
    }
    times.map(|times| times.into_iter().min().unwrap())
}

fn allgatherv(comm: &TcpBackend, bytes: usize) {
    let (rank, size) = (comm.rank(), comm.size());
    // The last block takes what equal blocks do not.
    let mut counts = vec![bytes / size; size];
    counts[size - 1] += bytes % size;
    let displs: Vec<usize> = (0..size).map(|rank| rank * (bytes / size)).collect();
    let mut all = vec![0_u8; bytes];
    comm.allgatherv(&vec![1_u8; counts[rank]], &mut all, &counts, &displs)
        .unwrap();
}

fn allreduce(comm: &TcpBackend, bytes: usize) {
    let mut sum = vec![0_u64; bytes / 8];
    comm.allreduce(&vec![1; bytes / 8], &mut sum, ReduceOp::Sum)
        .unwrap();
}

fn broadcast(comm: &TcpBackend, bytes: usize) {
    comm.broadcast(&mut vec![1_u8; bytes], 0).unwrap();
}

/// Returns the largest size in bytes of small calls of `ranks` ranks on this machine.
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

#[rstest]
#[case::allreduce(allreduce, limits(RANKS)[0])]
#[case::allgatherv(allgatherv, limits(RANKS)[1])]
#[case::broadcast(broadcast, limits(RANKS)[2])]
fn a_call_of_64_ranks_takes_no_longer_for_an_element_more(
    #[case] call: Collective,
    #[case] limit: usize,
) {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let sizes = [limit, limit + 8];
    let mut seen = Vec::new();
    // Busy processes of others delay every hop of bulk, so there is some tolerance for them, and more than
    // one try.
    for _ in 0..4 {
        let results = world(RANKS, |_| (), move |comm| times(&comm, call, sizes));
        let [small, large] = results[0];
        if large * 2 < small * 5 {
            return;
        }
        seen.push((small, large));
    }
    panic!("{limit} bytes and 8 more take {seen:?}");
}

#[test]
fn a_sum_has_the_same_bits_on_both_sides_of_the_switch() {
    const SIZE: usize = 17;
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
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
