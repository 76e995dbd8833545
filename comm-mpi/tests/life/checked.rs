//! The ranks of the cases with compared calls: every mistake is an error that names the rank, and no rank
//! hangs.
#![expect(
    clippy::unwrap_used,
    reason = "without a harness clippy does not see that this is a test"
)]

use std::thread;
use std::time::{Duration, Instant};

use comm_api::{
    CommError, Communicator, FailureKind, Operation, ReduceOp, SharedMemoryProvider, SharedRegion,
};
use comm_mpi::{FerrompiBackend, MpiConfig};

/// The cases that end with 0.
pub(crate) const WELL: [&str; 8] = [
    "a_wrong_length_is_a_mismatch",
    "a_barrier_against_an_allreduce_is_a_mismatch",
    "differing_roots_are_a_mismatch",
    "a_rank_that_returns_early_is_named_at_once",
    "a_rank_that_refuses_and_leaves_is_named",
    "a_refusal_does_not_hide_who_has_left",
    "a_refusal_on_a_split_that_is_gone_does_not_reach_the_next",
    "sixteen_communicators_are_sixteen_calls_ahead",
];

/// The cases that do not, the ranks that never enter the call, and the messages of the others.
pub(crate) const ABSENT: [(&str, &[usize], [&str; 2]); 2] = [
    (
        "a_rank_that_does_not_come_is_named",
        &[2],
        [
            "rank 2 did not enter the call within 500ms",
            "ranks 0, 1 called barrier",
        ],
    ),
    (
        "two_ranks_that_do_not_come_are_named",
        &[1, 3],
        [
            "ranks 1, 3 did not enter the call within 500ms",
            "ranks 0, 2 called barrier",
        ],
    ),
];

pub(crate) fn has(case: &str) -> bool {
    WELL.contains(&case) || absent(case).is_some()
}

pub(crate) fn absent(case: &str) -> Option<&'static [usize]> {
    let found = ABSENT.iter().find(|(name, ..)| *name == case);
    found.map(|(_, ranks, _)| *ranks)
}

/// How soon a rank notices that another has left: at once, but this machine may be busy. The timeout exceeds
/// the maximum duration of a job.
const PROMPT: Duration = Duration::from_secs(5);

pub(crate) fn run(case: &str) {
    let mut config = MpiConfig::new();
    config.check = true;
    let absent = absent(case);
    if absent.is_some() {
        config.timeout = Some(Duration::from_millis(500));
    }
    let comm = FerrompiBackend::init(config).unwrap();
    comm.barrier().unwrap();
    let first = comm.rank() == 0;
    match case {
        "a_wrong_length_is_a_mismatch" => {
            let send = vec![1.0; if first { 3 } else { 4 }];
            let summed = comm.allreduce(&send, &mut vec![0.0; send.len()], ReduceOp::Sum);
            is_mismatch(
                &summed.unwrap_err(),
                "rank 1 called allreduce(Sum of 4 f64)",
            );
        }
        "a_barrier_against_an_allreduce_is_a_mismatch" => {
            let called = if first {
                comm.barrier()
            } else {
                comm.allreduce(&[1_u64], &mut [0], ReduceOp::Max)
            };
            is_mismatch(&called.unwrap_err(), "rank 0 called barrier");
        }
        "differing_roots_are_a_mismatch" => {
            let sent = comm.broadcast(&mut [1_u8], comm.rank());
            is_mismatch(&sent.unwrap_err(), "from root 1");
        }
        "a_rank_that_returns_early_is_named_at_once" => {
            if first {
                is_lost(&comm);
            }
        }
        "a_rank_that_refuses_and_leaves_is_named" => {
            if first {
                let error = comm.barrier().unwrap_err();
                assert!(error.to_string().contains("root 7"), "{error}");
                is_lost(&comm);
            } else {
                comm.broadcast(&mut [1_u8], 7).unwrap_err();
            }
        }
        "a_refusal_does_not_hide_who_has_left" => {
            if first {
                for _ in 0..40 {
                    comm.broadcast(&mut [1_u8], 7).unwrap_err();
                }
                is_lost(&comm);
            }
        }
        "a_refusal_on_a_split_that_is_gone_does_not_reach_the_next" => {
            // No rank makes a call on it that would find the refusal.
            let split = comm.split_local().unwrap();
            if !first {
                split.broadcast(&mut [1_u8], 7).unwrap_err();
            }
            drop(split);
            // MPI may reuse the communicator that is freed here for the next one.
            for _ in 0..3 {
                let split = comm.split_local().unwrap();
                split.barrier().unwrap();
            }
        }
        "sixteen_communicators_are_sixteen_calls_ahead" => are_ahead(&comm),
        _ => {
            let absent = absent.unwrap();
            if absent.contains(&comm.rank()) {
                thread::sleep(Duration::from_mins(1));
            }
            let error = comm.barrier().unwrap_err();
            let CommError::CollectiveFailed { kind, rank, .. } = &error else {
                panic!("{error}");
            };
            assert_eq!((*kind, *rank), (FailureKind::TimedOut, Some(absent[0])));
            assert_eq!(comm.barrier(), Err(error.clone()), "the first cause stays");
            eprintln!("Error: {error}");
        }
    }
}

fn is_mismatch(error: &CommError, words: &str) {
    assert!(error.to_string().contains(words), "{error}");
    let CommError::CollectiveFailed { kind, rank, .. } = error else {
        panic!("{error}");
    };
    assert_eq!((*kind, *rank), (FailureKind::Mismatch, Some(1)), "{error}");
}

/// Rank 0 gets as far ahead of rank 1 as refusals may, on as many communicators as the buffer for cards
/// supports.
fn are_ahead(comm: &FerrompiBackend) {
    let splits: Vec<_> = (1..16).map(|_| comm.split_local().unwrap()).collect();
    let mut region = comm.create_shared_region::<u8>(1).unwrap();
    let mut all: Vec<&dyn Communicator> = vec![comm];
    all.extend(splits.iter().map(|split| &**split));
    if comm.rank() == 0 {
        let refusal = CommError::failed("barrier", FailureKind::Refused, None, "on purpose");
        for comm in &all {
            (0..16).for_each(|_| comm.refuse(Operation::Barrier, &refusal));
        }
    }
    // Until here rank 1 makes no MPI call, which would take cards out of the buffer; a fence makes none
    // either. Open MPI does not need the buffer for cards, but with a dozen unread messages on one machine
    // its sends wait until the receiver calls MPI.
    if !comm.runtime().library.starts_with("Open MPI") {
        region.fence().unwrap();
    }
    for comm in all {
        if comm.rank() == 1 {
            for _ in 0..16 {
                let error = comm.barrier().unwrap_err();
                assert!(error.to_string().contains("on purpose"), "{error}");
            }
        }
        comm.barrier().unwrap();
    }
}

/// Rank 1 has left, and this rank notices it at once.
fn is_lost(comm: &FerrompiBackend) {
    let began = Instant::now();
    let error = comm.barrier().unwrap_err();
    assert!(began.elapsed() < PROMPT, "{:?}", began.elapsed());
    let CommError::CollectiveFailed { kind, rank, .. } = error else {
        panic!("{error}");
    };
    assert_eq!((kind, rank), (FailureKind::PeerLost, Some(1)));
    assert_eq!(comm.barrier().unwrap_err().to_string(), error.to_string());
}
