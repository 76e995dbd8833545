//! Every collective, on both sides of every switch between algorithms, against a naive implementation.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]

mod common;

use comm_api::{Communicator, ReduceOp, SharedMemoryProvider, SharedRegion};
use comm_tcp::Encryption;
use common::world;
use rstest::rstest;

/// The element of `rank` at `index`: different everywhere, with sums that depend on their order.
fn value(rank: usize, index: usize) -> f64 {
    let mixed = (rank * 7919 + index * 104_729 + 13) % 1009;
    let scale = [1e-9, 1.0, 1e9][(rank + index) % 3];
    #[expect(clippy::cast_precision_loss, reason = "below 1009")]
    let value = mixed as f64 * scale;
    value
}

fn values(rank: usize, count: usize) -> Vec<f64> {
    (0..count).map(|index| value(rank, index)).collect()
}

fn bits(values: &[f64]) -> Vec<u64> {
    values.iter().map(|value| value.to_bits()).collect()
}

/// Ranks that refuse more calls than any buffer holds, at different speeds, synchronise again.
#[rstest]
fn endless_refusals_end(#[values(2, 3)] size: usize) {
    world(
        size,
        |_| (),
        move |comm| {
            for _ in 0..80_000 {
                assert!(comm.broadcast(&mut [0_u8], size).is_err());
            }
            comm.barrier().unwrap();
        },
    );
}

/// What workers send after a refusal arrives together with it, and is with rank 0 before rank 0 asks for it.
/// With this many ranks, rank 0 asks the system which links have data, and the system no longer reports
/// these.
#[rstest]
fn many_that_refuse_and_go_on_are_heard(
    #[values(Encryption::Off, Encryption::On)] encryption: Encryption,
) {
    const RANKS: usize = 20;
    world(
        RANKS,
        move |config| config.encryption = encryption,
        |comm| {
            for _ in 0..20 {
                for _ in 0..3 {
                    let root = if comm.rank() == 0 { 0 } else { RANKS };
                    assert!(comm.broadcast(&mut [0_u8], root).is_err());
                }
                comm.barrier().unwrap();
            }
        },
    );
}

#[rstest]
fn collectives_match_their_twins(
    #[values(1, 2, 3, 5)] size: usize,
    #[values(1, 1000, 32_769, 114_688, 114_689, 131_073, 600_001)] count: usize,
    #[values(true, false)] ring: bool,
) {
    if size < 3 && !ring {
        // Without a ring in the first place, there is nothing to compare.
        return;
    }
    let results = world(
        size,
        move |config| config.ring = ring,
        move |comm| {
            let rank = comm.rank();
            comm.barrier().unwrap();
            let mut sum = vec![0.0; count];
            comm.allreduce(&values(rank, count), &mut sum, ReduceOp::Sum)
                .unwrap();
            let mut shared = values(rank, count);
            comm.broadcast(&mut shared, size - 1).unwrap();
            // Blocks of different lengths, in reverse order, with a gap of one element between them.
            let counts: Vec<usize> = (0..size)
                .map(|r| if r == 1 { 0 } else { count + r })
                .collect();
            let mut displs = vec![0; size];
            let mut end = 0;
            for r in (0..size).rev() {
                displs[r] = end;
                end += counts[r] + 1;
            }
            let mut all = vec![-1.0; end];
            let mine = values(rank, counts[rank]);
            comm.allgatherv(&mine, &mut all, &counts, &displs).unwrap();
            // The same parts in place: each is sent like an allgatherv, with its own block in place.
            let mut region = comm.create_gathered_region::<f64>(counts[rank]).unwrap();
            for _ in 0..2 {
                region.as_mut_slice().copy_from_slice(&mine);
                comm.exchange(&mut region).unwrap();
                let whole = (0..size).flat_map(|r| values(r, counts[r]));
                assert_eq!(bits(region.as_slice()), bits(&whole.collect::<Vec<_>>()));
                region.fence().unwrap();
            }
            comm.barrier().unwrap();
            (sum, shared, all, counts, displs)
        },
    );
    let mut sum = values(0, count);
    for rank in 1..size {
        for (sum, value) in sum.iter_mut().zip(values(rank, count)) {
            *sum += value;
        }
    }
    for (rank, (got, shared, all, counts, displs)) in results.into_iter().enumerate() {
        assert_eq!(bits(&got), bits(&sum), "allreduce on rank {rank}");
        assert_eq!(
            bits(&shared),
            bits(&values(size - 1, count)),
            "broadcast on rank {rank}"
        );
        let mut expected = vec![-1.0; all.len()];
        for r in 0..size {
            expected[displs[r]..displs[r] + counts[r]].copy_from_slice(&values(r, counts[r]));
        }
        assert_eq!(bits(&all), bits(&expected), "allgatherv on rank {rank}");
    }
}
