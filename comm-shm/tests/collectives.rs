//! The collectives among real processes, compared with the expected results.

#![allow(
    clippy::cast_precision_loss,
    clippy::float_cmp,
    reason = "the same bits are promised, and the numbers are small"
)]
#![allow(clippy::unwrap_used, reason = "a test fails where it is wrong")]

mod common;

use comm_api::{Communicator, CommunicatorExt, ReduceOp};
use common::job;

#[test]
fn first_steps() {
    job("first_steps", &[1, 2, 3, 4], |comm| {
        for _ in 0..1000 {
            comm.barrier().unwrap();
        }
        let rank = u32::try_from(comm.rank()).unwrap();
        let size = u32::try_from(comm.size()).unwrap();
        for round in 0..1000 {
            let sum = comm.allreduce_scalar(rank + round, ReduceOp::Sum).unwrap();
            assert_eq!(sum, size * (size - 1) / 2 + size * round);
            let root = round as usize % comm.size();
            let value = comm.broadcast_value(rank * 7 + round, root).unwrap();
            assert_eq!(value, u32::try_from(root).unwrap() * 7 + round);
            let (all, counts) = comm.allgather_vec(&vec![rank; rank as usize + 1]).unwrap();
            let expected: Vec<u32> = (0..size).flat_map(|r| vec![r; r as usize + 1]).collect();
            assert_eq!(all, expected);
            assert_eq!(counts.len(), comm.size());
        }
    });
}

/// Lengths around every threshold: lines, slots, pieces, slices.
const LENGTHS: [usize; 14] = [
    1, 5, 6, 40, 41, 1000, 8191, 8192, 20_000, 65_023, 65_024, 65_025, 300_001, 2_000_003,
];

#[test]
fn every_length() {
    job("every_length", &[1, 2, 3, 4], |comm| {
        let (rank, size) = (comm.rank(), comm.size());
        let value = |rank: usize, i: usize| (rank * 1_000_003 + i * 7919) as f64 * 0.37;
        for len in LENGTHS {
            let mine: Vec<f64> = (0..len).map(|i| value(rank, i)).collect();
            let mut sum = vec![0.0; len];
            comm.allreduce(&mine, &mut sum, ReduceOp::Sum).unwrap();
            for (i, &sum) in sum.iter().enumerate() {
                let expected = (1..size).fold(value(0, i), |acc, r| acc + value(r, i));
                assert_eq!(sum.to_bits(), expected.to_bits(), "element {i} of {len}");
            }

            let root = len % size;
            let mut buf = if rank == root {
                mine.clone()
            } else {
                vec![0.0; len]
            };
            comm.broadcast(&mut buf, root).unwrap();
            assert!(
                buf.iter().enumerate().all(|(i, &x)| x == value(root, i)),
                "{len}"
            );

            // Blocks of different lengths, in reverse order, with gaps that must stay unchanged.
            let counts: Vec<usize> = (0..size).map(|r| len * (r + 1) / size).collect();
            let mut displs = vec![0; size];
            let mut end = 2;
            for r in (0..size).rev() {
                displs[r] = end;
                end += counts[r] + 3;
            }
            let mut recv = vec![-1.0; end];
            comm.allgatherv(&mine[..counts[rank]], &mut recv, &counts, &displs)
                .unwrap();
            let mut expected = vec![-1.0; end];
            for r in 0..size {
                for i in 0..counts[r] {
                    expected[displs[r] + i] = value(r, i);
                }
            }
            assert!(recv == expected, "allgatherv of {len}");
        }
    });
}
