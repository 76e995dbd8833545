//! Worlds of threads: the results that a test of a program sees.

use std::sync::{Mutex, mpsc};
use std::time::{Duration, Instant};

use comm_api::{CommError, Communicator, CommunicatorExt, FailureKind, Operation, ReduceOp};
use comm_api::{SharedMemoryProvider, SharedRegion};
use comm_testing::{threads, threads_within};
use rstest::rstest;

#[rstest]
fn every_rank_gets_the_fold_in_rank_order(#[values(1, 2, 5)] ranks: usize) {
    let value = |rank: usize| 0.1 * f64::from(u32::try_from(rank + 1).unwrap());
    let wanted = (1..ranks).fold(value(0), |sum, rank| sum + value(rank));
    let sums = threads(ranks, |comm| {
        comm.allreduce_scalar(value(comm.rank()), ReduceOp::Sum)
    });
    assert_eq!(sums, vec![Ok(wanted); ranks]);
}

#[test]
fn results_come_in_rank_order_and_regions_are_shared() {
    let results = threads(3, |comm| {
        let mut region = comm.create_partitioned_region::<usize>(1).unwrap();
        region.as_mut_slice()[0] = 10 * comm.rank();
        region.fence().unwrap();
        (comm.rank(), region.as_slice().to_vec())
    });
    let whole = vec![0, 10, 20];
    assert_eq!(
        results,
        [(0, whole.clone()), (1, whole.clone()), (2, whole)]
    );
}

#[test]
fn ranks_that_call_different_things_get_a_mismatch() {
    let results = threads(2, |comm| match comm.rank() {
        0 => comm.barrier(),
        _ => comm.broadcast(&mut [0_u8], 0),
    });
    // Each rank's error names the call of that rank, whichever rank found the mismatch.
    for (result, called) in results
        .into_iter()
        .zip([Operation::Barrier, Operation::Broadcast])
    {
        let Err(CommError::CollectiveFailed {
            operation, kind, ..
        }) = result
        else {
            panic!("{result:?}");
        };
        assert_eq!((operation, kind), (called, FailureKind::Mismatch));
    }
}

/// A test of a program with a late rank takes milliseconds, not the default timeout of a minute.
#[test]
fn a_world_waits_as_long_as_its_timeout_says() {
    let (told, heard) = mpsc::channel();
    let (told, heard) = (Mutex::new(Some(told)), Mutex::new(heard));
    let timeout = Duration::from_millis(50);
    let began = Instant::now();
    let results = threads_within(timeout, 2, |comm| {
        if comm.rank() == 1 {
            // Until the other one has its error, and leaves.
            let _ = heard.lock().unwrap().recv();
            return None;
        }
        let result = comm.barrier();
        *told.lock().unwrap() = None::<mpsc::Sender<()>>;
        Some(result.unwrap_err())
    });
    let error = results[0].as_ref().unwrap().to_string();
    assert!(error.starts_with("barrier: timed out, rank 1: "), "{error}");
    assert!(error.contains("within 50ms"), "{error}");
    assert!(began.elapsed() >= timeout);
}

#[test]
#[should_panic(expected = "rank 1 found a mistake")]
fn the_panic_of_the_rank_that_panicked_first_is_the_one_of_the_test() {
    threads(3, |comm| {
        assert_ne!(comm.rank(), 1, "rank 1 found a mistake");
        comm.barrier().expect("the others panic because of it");
    });
}

#[test]
fn worlds_do_not_meet() {
    let nested = threads(2, |outer| {
        let inner = threads(2, |inner| {
            inner.allreduce_scalar(outer.rank(), ReduceOp::Sum)
        });
        outer.barrier().unwrap();
        inner
    });
    assert_eq!(nested, [[Ok(0), Ok(0)], [Ok(2), Ok(2)]]);
}
