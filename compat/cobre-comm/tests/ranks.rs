//! A program for 0.18 with ranks as processes over shared memory or TCP.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::fs::File;
use std::path::Path;
use std::time::Duration;

use cobre_comm::{
    BackendKind, CommBackend, CommError, Communicator, LocalCommKind, LocalCommunicator, ReduceOp,
    SharedMemoryProvider, SharedRegion, TopologyProvider, create_communicator, per_rank_counts,
    prefix_displs,
};
use comm_run::{Backend, Job, Line};
use rstest::rstest;

/// The variable with the role of a rank.
const ROLE: &str = "COBRE_COMM_TEST_ROLE";

/// How long a job may take.
const DEADLINE: Duration = Duration::from_mins(1);

/// Runs `role` in several processes, which must all succeed.
fn run(role: &str, backend: Backend, ranks: usize) {
    let job = Job::new(std::env::current_exe().unwrap(), ranks)
        .args(["--exact", "one_rank", "--nocapture", "--test-threads", "1"])
        .backend(backend)
        .env(ROLE, role)
        .sink(|_: Line<'_>| Ok(()))
        .timeout(DEADLINE);
    let outcome = job.run().unwrap();
    assert!(outcome.success(), "{role}: {outcome:#?}");
}

/// The program of a rank; only the other tests run this one, as a process.
#[test]
fn one_rank() {
    let Ok(role) = std::env::var(ROLE) else {
        return;
    };
    let comm = create_communicator(BackendKind::Auto).unwrap();
    match &*role {
        "collectives" => collectives(&comm),
        "topology" => topology(&comm),
        "refusals" => refusals(&comm),
        "places" => places(&comm),
        "regions" => regions(&comm),
        "late to a fence" => late_to_a_fence(&comm),
        "left region" => left_region(&comm),
        "gone" => gone(comm),
        role => panic!("there is no role {role}"),
    }
}

#[rstest]
fn programs_for_0_18_run_on_many_ranks(
    #[values(
        "collectives",
        "topology",
        "refusals",
        "places",
        "regions",
        "late to a fence",
        "left region",
        "gone"
    )]
    role: &str,
    #[values(Backend::Shm, Backend::Tcp)] backend: Backend,
    #[values(2, 3)] ranks: usize,
) {
    run(role, backend, ranks);
}

/// All ranks get all data, and sums are folded in rank order.
fn collectives(comm: &CommBackend) {
    let (rank, size) = (comm.rank(), comm.size());
    let counts = per_rank_counts(7, size);
    let displs = prefix_displs(&counts);
    let value = |i: usize| 0.1 * f64::from(u32::try_from(i).unwrap());
    let mine: Vec<f64> = (0..counts[rank]).map(|i| value(displs[rank] + i)).collect();
    let mut all = vec![0.0; 7];
    comm.allgatherv(&mine, &mut all, &counts, &displs).unwrap();
    let wanted: Vec<f64> = (0..7).map(value).collect();
    assert_eq!(all, wanted);

    let mut sum = [0.0];
    comm.allreduce(&[value(rank + 1)], &mut sum, ReduceOp::Sum)
        .unwrap();
    let wanted: f64 = (2..=size).fold(value(1), |sum, i| sum + value(i));
    assert_eq!(sum[0].to_bits(), wanted.to_bits());
    let mut flags = [0_u64];
    comm.allreduce(&[1 << rank], &mut flags, ReduceOp::BitwiseOr)
        .unwrap();
    assert_eq!(flags, [(1 << size) - 1]);
    let mut arrays = [[0_u8; 3]];
    if rank == size - 1 {
        arrays = [[1, 2, 3]];
    }
    comm.broadcast(&mut arrays, size - 1).unwrap();
    assert_eq!(arrays, [[1, 2, 3]]);
    comm.barrier().unwrap();
}

/// The topology was gathered at the start, and names the real backend.
fn topology(comm: &CommBackend) {
    let topology = comm.topology();
    assert_eq!(topology.backend, BackendKind::Mpi);
    assert_eq!(topology.world_size, comm.size());
    assert_eq!(topology.num_hosts(), 1);
    let ranks: Vec<usize> = (0..comm.size()).collect();
    assert_eq!(topology.hosts[0].ranks, ranks);
    let runtime = topology.mpi.as_ref().unwrap();
    assert_eq!(runtime.library_version, comm.name());
    assert_eq!(runtime.standard_version, "no MPI");
    assert_eq!(std::env::var("COBRE_COMM_BACKEND").unwrap(), comm.name());
}

/// Invalid arguments of one rank are an error on all ranks, and the communicator stays usable.
fn refusals(comm: &CommBackend) {
    let refused = |error: CommError, reason: &str| {
        let text = error.to_string();
        assert!(
            text.starts_with("allreduce: refused, rank 1: "),
            "{text}: not {reason}"
        );
        assert!(text.contains(reason), "{text}");
    };
    let mut sum = [0.0];
    if comm.rank() == 1 {
        let error = comm.allreduce(&[0.0; 0], &mut [], ReduceOp::Sum);
        assert_eq!(
            error,
            Err(CommError::InvalidBufferSize {
                operation: "allreduce",
                expected: 1,
                actual: 0
            })
        );
        let error = comm.allreduce(&[[0.0]], &mut [[0.0]], ReduceOp::Sum);
        let text = error.unwrap_err().to_string();
        assert!(text.contains("[f64; 1] is no scalar"), "{text}");
        let error = comm.allreduce(&[0.0], &mut sum, ReduceOp::BitwiseOr);
        let text = error.unwrap_err().to_string();
        assert!(text.contains("BitwiseOr is not defined for f64"), "{text}");
    } else {
        for reason in ["a length of 0, expected 1", "no scalar", "BitwiseOr"] {
            let error = comm.allreduce(&[1.0], &mut sum, ReduceOp::Sum);
            refused(error.unwrap_err(), reason);
        }
    }
    comm.allreduce(&[1.0], &mut sum, ReduceOp::Sum).unwrap();
    comm.barrier().unwrap();
}

/// The texts of an error end with the file and the line of the call, as far as 0.18 has a text.
fn places(comm: &CommBackend) {
    let or = comm.allreduce(&[1.0], &mut [0.0], ReduceOp::BitwiseOr);
    ends_with(or, line!() - 1);
    let first = if comm.rank() == 0 {
        (line!(), comm.barrier())
    } else {
        (line!(), comm.allreduce(&[1], &mut [0], ReduceOp::Sum))
    };
    ends_with(first.1, first.0);
    ends_with(comm.barrier(), first.0);
}

#[track_caller]
fn ends_with(result: Result<(), CommError>, line: u32) {
    let text = result.unwrap_err().to_string();
    let place = format!(" (at {}:{line})", file!());
    assert!(
        text.ends_with(&place),
        "'{text}' does not end with '{place}'"
    );
}

/// The leader writes, a fence freezes, all ranks read; slices stay valid across later fences.
fn regions(comm: &CommBackend) {
    let mut region = comm.create_shared_region::<u64>(1000).unwrap();
    let shared = comm.name() == "shm";
    assert_eq!(comm.is_leader(), !shared || comm.rank() == 0);
    let mine = region.as_mut_slice();
    assert_eq!(mine.len(), if comm.is_leader() { 1000 } else { 0 });
    if comm.is_leader() {
        mine.fill(7);
    }
    region.fence().unwrap();
    let slice = region.as_slice();
    region.fence().unwrap();
    assert_eq!(slice, [7; 1000]);
    region.fence().unwrap();
    assert_eq!(region.as_slice(), [7; 1000]);

    let node = comm.split_local().unwrap();
    assert_eq!(matches!(node, LocalCommKind::Shm(_)), shared);
    assert_eq!(node.size(), if shared { comm.size() } else { 1 });
    assert_eq!(node.rank(), if shared { comm.rank() } else { 0 });
    node.barrier().unwrap();
    comm.barrier().unwrap();
}

/// Every fence, not only the first, is a barrier of the ranks that share a region.
fn late_to_a_fence(comm: &CommBackend) {
    // A rank that shares no memory waits for no other.
    let Ok(job) = std::env::var("COBRE_SHM_NAME") else {
        return;
    };
    let came = |fence: usize| Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{job}-{fence}"));
    let region = comm.create_shared_region::<u64>(10).unwrap();
    let is_late = comm.rank() == comm.size() - 1;
    for fence in 1..=3 {
        if is_late {
            // Enough time for the others to leave a fence that does not wait.
            std::thread::sleep(Duration::from_millis(100));
            File::create(came(fence)).unwrap();
        }
        region.fence().unwrap();
        assert!(came(fence).exists(), "fence {fence} did not wait");
        // All ranks have looked.
        comm.barrier().unwrap();
        if is_late {
            std::fs::remove_file(came(fence)).unwrap();
        }
    }
}

/// After a failed first fence the region can be neither read nor written, but the communicator works.
fn left_region(comm: &CommBackend) {
    let region = comm.create_shared_region::<u64>(1000).unwrap();
    // A rank that shares no memory cannot miss another.
    if comm.name() == "tcp" {
        return region.fence().unwrap();
    }
    if comm.rank() == 1 {
        drop(region);
    } else {
        for _ in 0..2 {
            let error = region.fence().unwrap_err().to_string();
            assert!(error.contains("rank 1"), "{error}");
        }
        let text = panic_of(|| region.as_slice().len());
        assert!(text.contains("its first fence failed"), "{text}");
        let mut region = region;
        let text = panic_of(|| region.as_mut_slice().len());
        assert!(
            text.contains("a fence or an exchange of this region failed"),
            "{text}"
        );
    }
    comm.barrier().unwrap();
}

/// Returns the panic message of `access`.
fn panic_of(access: impl FnOnce() -> usize) -> String {
    let panic = std::panic::catch_unwind(std::panic::AssertUnwindSafe(access)).unwrap_err();
    let text = panic.downcast_ref::<&str>().map(ToString::to_string);
    text.or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap()
}

/// A rank that leaves is named by the others.
fn gone(comm: CommBackend) {
    if comm.rank() == 1 {
        drop(comm);
        return;
    }
    let error = comm.barrier().unwrap_err().to_string();
    assert!(error.starts_with("barrier: peer lost, rank 1: "), "{error}");
}

#[rstest]
#[should_panic(expected = "call fence on every rank of the node before as_slice")]
fn a_region_cannot_be_read_before_its_fence() {
    let region = cobre_comm::LocalBackend.create_shared_region::<u8>(4);
    let _ = region.unwrap().as_slice();
}

#[rstest]
#[should_panic(expected = "can be written once")]
fn a_region_cannot_be_written_after_its_fence() {
    let mut region = cobre_comm::LocalBackend
        .create_shared_region::<u8>(4)
        .unwrap();
    region.fence().unwrap();
    region.as_mut_slice();
}
