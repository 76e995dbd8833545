//! The ranks: what each does in each case.
#![expect(
    clippy::unwrap_used,
    reason = "without a harness clippy does not see that this is a test"
)]

use std::fs::OpenOptions;
use std::io::Write;
use std::process::ExitCode;
use std::thread;
use std::time::{Duration, SystemTime};

use comm_api::bytemuck::{cast_slice, cast_slice_mut};
use comm_api::{
    CommError, Communicator, CommunicatorExt, FailureKind, ReduceOp, ScalarKind,
    SharedMemoryProvider, SharedRegion,
};
use comm_mpi::{FerrompiBackend, InitErrorKind, MpiConfig, MpiReduce};

use crate::checked;
use crate::driver::{LEFT_AT, NAMED, PIDS, REASON, segments};

pub(crate) fn run(case: &str) -> ExitCode {
    report_process().unwrap();
    match case {
        "several_communicators_live_side_by_side" => several_communicators(),
        "different_configurations_are_refused" => different_configurations_are_refused(),
        "another_thread_may_use_and_drop_it" => another_thread_may_use_and_drop_it(),
        "another_thread_may_initialise" => another_thread_may_initialise(),
        "splits_that_come_and_go_leave_room_for_more" => splits_come_and_go(),
        "native_sums_are_sums" => native_sums_are_sums(),
        "a_region_outlives_mpi" => a_region_outlives_mpi(),
        "a_forked_child_is_refused" => a_forked_child_is_refused(),
        "a_region_against_a_barrier_is_a_mismatch" => a_region_against_a_barrier(),
        "a_region_of_one_rank_is_a_mismatch_for_all" => a_region_of_one_rank(),
        "a_refusal_ends_the_split_of_the_others" => a_refusal_against_a_split(),
        "a_forked_child_leaves_the_comparison_alone" => a_forked_child_of_compared_ranks(),
        "adversarial_floats_have_the_bits_of_the_fold" => adversarial_floats(),
        "an_mpi_that_others_started_or_ended_is_an_error" => an_mpi_of_others(),
        "a_stranger_starts_it" => a_stranger_starts_it(),
        "a_failed_exchange_names_the_rank_of_the_world" => return a_failed_exchange(),
        case if checked::has(case) => checked::run(case),
        "all_are_killed_at_the_first_region" => all_are_killed(),
        "a_panic_ends_the_job" | "a_panic_ends_a_larger_job_with_its_code" => {
            leave(|_| panic!("panicked on purpose"));
        }
        "an_abort_ends_a_larger_job_with_its_code" => leave(|comm| comm.abort(7)),
        "a_killed_rank_ends_the_job" => leave(|_| {
            let pid = rustix::process::getpid();
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
        }),
        "an_exit_ends_the_job" => leave(|_| std::process::exit(3)),
        "a_return_from_main_ends_the_job" => leave(|comm| {
            std::mem::forget(comm);
        }),
        "an_error_from_main_ends_the_job_with_its_code" => {
            leave(drop);
            eprintln!("Error: {REASON}");
        }
        "an_exit_after_the_drop_ends_the_job_with_its_code" => leave(|comm| {
            drop(comm);
            std::process::exit(9);
        }),
        "an_exit_of_another_thread_ends_the_job_with_its_code" => leave(|comm| {
            drop(comm);
            let _ = thread::spawn(|| std::process::exit(9)).join();
        }),
        "an_exit_beside_a_call_ends_the_job_with_its_code" => leave_beside_a_call(),
        "an_error_of_a_thread_that_initialised_ends_the_job_with_its_code" => {
            thread::spawn(|| leave(drop)).join().unwrap();
        }
        "an_exit_with_0_and_the_communicator_alive_ends_the_job" => {
            leave(|_| std::process::exit(0));
        }
        "an_exit_with_0_after_an_error_ends_the_job" => leave_after_an_error(),
        "a_communicator_dropped_after_an_error_ends_the_job" => {
            leave_after_an_error();
            thread::sleep(Duration::from_mins(1));
        }
        "an_exit_with_0_ends_in_peace" => {
            let comm = open();
            works(&comm);
            drop(comm);
            std::process::exit(0);
        }
        "an_exit_with_0_of_a_thread_that_cannot_finalize_ends_the_job" => {
            let comm = open();
            works(&comm);
            drop(comm);
            let _ = thread::spawn(|| std::process::exit(0)).join();
        }
        _ => panic!("there is no case {case}"),
    }
    match case {
        "a_return_from_main_ends_the_job" => ExitCode::from(3),
        case if checked::absent(case).is_some() => ExitCode::from(9),
        "an_error_from_main_ends_the_job_with_its_code"
        | "an_error_of_a_thread_that_initialised_ends_the_job_with_its_code" => ExitCode::from(9),
        _ => ExitCode::SUCCESS,
    }
}

fn open() -> FerrompiBackend {
    FerrompiBackend::init(MpiConfig::new()).unwrap()
}

/// Checks that all ranks are there and work.
fn works<C: Communicator>(comm: &C) {
    let sum = comm
        .allreduce_scalar(comm.rank() + 1, ReduceOp::Sum)
        .unwrap();
    assert_eq!(sum, comm.size() * (comm.size() + 1) / 2);
}

/// Each thread has its own communicator; their calls neither match nor end each other.
fn several_communicators() {
    let [first, second] = [open(), open()];
    thread::scope(|scope| {
        scope.spawn(|| (0..300).for_each(|_| works(&first)));
        scope.spawn(|| {
            let mut region = second.create_shared_region::<u64>(10).unwrap();
            (0..200).for_each(|_| second.barrier().unwrap());
            region.fence().unwrap();
        });
    });
    drop(first);
    works(&second);
    thread::spawn(|| works(&open())).join().unwrap();
    let mut checked = MpiConfig::new();
    checked.check = true;
    let error = FerrompiBackend::init(checked).unwrap_err();
    assert_eq!(error.variables, ["COBRE_COMM_CHECK"]);
    assert!(error.message.contains("the first communicator"), "{error}");
    works(&second);
    drop(second);
    works(&open());
}

fn different_configurations_are_refused() {
    let mut config = MpiConfig::new();
    // The library does not know the ranks yet, the launcher does.
    let rank = ["PMI_RANK", "OMPI_COMM_WORLD_RANK"];
    let rank = rank.iter().find_map(|name| std::env::var(name).ok());
    config.check = rank.as_deref() == Some("1");
    let error = FerrompiBackend::init(config).unwrap_err();
    assert_eq!(error.kind, InitErrorKind::InvalidConfiguration);
    assert_eq!(error.variables, ["COBRE_COMM_CHECK"]);
}

fn another_thread_may_use_and_drop_it() {
    let comm = open();
    let local = comm.split_local().unwrap();
    works(&comm);
    thread::spawn(move || {
        works(&comm);
        drop(comm);
    })
    .join()
    .unwrap();
    works(&local);
    thread::spawn(move || drop(local)).join().unwrap();
}

/// More of them than the bindings support at once.
fn splits_come_and_go() {
    let comm = open();
    (0..300).for_each(|_| works(&comm.split_local().unwrap()));
    works(&comm);
}

fn another_thread_may_initialise() {
    thread::spawn(|| works(&open())).join().unwrap();
}

fn native_sums_are_sums() {
    let mut config = MpiConfig::new();
    config.reduce = MpiReduce::Native;
    let comm = FerrompiBackend::init(config).unwrap();
    let mut sums = [0.0_f64; 1000];
    comm.allreduce(&[0.5; 1000], &mut sums, ReduceOp::Sum)
        .unwrap();
    assert!(sums.iter().all(|sum| sum.to_bits() == 1_f64.to_bits()));
    let mine = [if comm.rank() == 0 { 0.0 } else { 1.0 }, f32::NAN];
    let mut least = [0.0; 2];
    comm.allreduce(&mine, &mut least, ReduceOp::Min).unwrap();
    assert!(least[0] == 0.0 && least[1].is_nan(), "{least:?}");
}

/// Rank 0 drops its communicator and enters the fence; rank 1 enters the fence with its communicator alive.
fn a_region_outlives_mpi() {
    let comm = open();
    let rank = comm.rank();
    let mut region = comm.create_partitioned_region::<usize>(2).unwrap();
    region.as_mut_slice().fill(rank + 5);
    let comm = (rank == 1).then_some(comm);
    thread::sleep(Duration::from_millis(50));
    region.fence().unwrap();
    assert_eq!(region.as_slice(), [5, 5, 6, 6]);
    drop(comm);
    region.fence().unwrap();
    region.as_mut_slice().fill(rank);
    region.fence().unwrap();
    assert_eq!(region.as_slice(), [0, 0, 1, 1]);
}

/// The child gets an error, drops what it inherited and exits, and no rank notices.
fn a_forked_child_is_refused() {
    let comm = open();
    let mut region = comm.create_shared_region::<u64>(4).unwrap();
    let mut inherited = Some(comm);
    let well = crate::fork::ends_well(|| {
        let comm = inherited.take().unwrap();
        assert_eq!(comm.barrier(), Err(CommError::invalid_communicator()));
        let reduced = comm.allreduce_scalar(1, ReduceOp::Sum);
        assert_eq!(reduced, Err(CommError::invalid_communicator()));
        assert!(comm.create_shared_region::<u8>(1).is_err());
    });
    assert!(well);
    works(inherited.as_ref().unwrap());
    region.fence().unwrap();
}

/// Rank 3 drops its handle, and its node notices it in the exchange: rank 1, where ranks alternate between
/// two nodes. The others may wait for the leader of that node until the job ends.
fn a_failed_exchange() -> ExitCode {
    let comm = open();
    let node = comm.split_local().unwrap().size();
    let mut region = comm.create_gathered_region::<u64>(2).unwrap();
    if comm.rank() == 3 {
        return ExitCode::SUCCESS;
    }
    let error = comm.exchange(&mut region).unwrap_err();
    eprintln!("Error on a node of {node} ranks: {error}");
    ExitCode::from(9)
}

fn adversarial_floats() {
    let comm = open();
    let values = [
        1e300,
        -1e300,
        1.0,
        5e-324,
        -0.0,
        0.0,
        f64::NAN,
        f64::INFINITY,
        0.1,
    ];
    // Every value of one rank meets every value of each other one.
    let input = |rank: usize, len: usize| -> Vec<f64> {
        let run = values.len().pow(u32::try_from(rank).unwrap());
        (0..len).map(|i| values[i / run % values.len()]).collect()
    };
    for len in [1, 2, 3, 17, 500, 2048, 4097, 100_003, 1 << 20] {
        for op in [ReduceOp::Sum, ReduceOp::Min, ReduceOp::Max] {
            let mut got = vec![0.5; len];
            comm.allreduce(&input(comm.rank(), len), &mut got, op)
                .unwrap();
            let mut want = input(0, len);
            for rank in 1..comm.size() {
                let next = input(rank, len);
                let want = cast_slice_mut(&mut want);
                op.fold_into(want, cast_slice(&next), ScalarKind::F64)
                    .unwrap();
            }
            let bits = |x: &[f64]| x.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
            assert_eq!(bits(&got), bits(&want), "{op} of {len}");
        }
    }
}

/// The program has initialised MPI by itself, or a library that it uses has.
fn an_mpi_of_others() {
    let is_refused = || {
        let error = FerrompiBackend::init(MpiConfig::new()).unwrap_err();
        assert_eq!(error.kind, InitErrorKind::Failed);
        let words = "something else in this process started or ended MPI";
        assert!(error.message.contains(words), "{error}");
    };
    assert!(crate::foreign::with_mpi(
        || (0..2).for_each(|_| is_refused())
    ));
    is_refused();
}

fn a_stranger_starts_it() {
    let error = FerrompiBackend::init(MpiConfig::new()).unwrap_err();
    assert_eq!(error.kind, InitErrorKind::Failed);
    assert!(error.message.contains("another MPI's mpiexec"), "{error}");
    assert_eq!(error.variables.len(), 1, "{error:?}");
}

/// Rank 1 leaves in some bad way while rank 0 waits for it, with a region open.
fn leave(how: impl FnOnce(FerrompiBackend)) {
    let comm = open();
    let region = comm.create_shared_region::<u64>(1000).unwrap();
    works(&comm);
    if comm.rank() == 1 {
        report_leaving();
        how(comm);
        return;
    }
    let waited: Result<(), CommError> = (0..).try_for_each(|_| comm.barrier());
    drop(region);
    panic!("no rank ended the job: {waited:?}");
}

/// Writes the process id of this rank, for the driver.
fn report_process() -> std::io::Result<()> {
    let path = std::env::var_os(PIDS).unwrap_or_default();
    let mut file = OpenOptions::new().append(true).open(path)?;
    file.write_all(format!("{}\n", std::process::id()).as_bytes())
}

/// Rank 0 creates a region, and rank 1 does not enter the call. While rank 0 waits, it kills both.
fn all_are_killed() {
    let comm = open();
    let pids = comm.allgather_vec(&[std::process::id()]).unwrap().0;
    if comm.rank() == 1 {
        thread::sleep(Duration::from_mins(1));
    }
    comm_kit::interrupt::set_hook(move || {
        if !segments(&[std::process::id().to_string()]).is_empty() {
            println!("{NAMED}");
        }
        for &pid in pids.iter().rev() {
            let pid = i32::try_from(pid)
                .ok()
                .and_then(rustix::process::Pid::from_raw);
            let _ = rustix::process::kill_process(pid.unwrap(), rustix::process::Signal::KILL);
        }
        false
    });
    let region = comm.create_shared_region::<u64>(10);
    panic!("a region without rank 1: {region:?}");
}

/// Prints when this rank leaves, for the driver.
fn report_leaving() {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    println!("{LEFT_AT}{}", now.unwrap().as_millis());
}

/// Rank 1 exits on its main thread while another of its threads waits for rank 0, which is late.
fn leave_beside_a_call() {
    let comm = open();
    works(&comm);
    if comm.rank() == 0 {
        thread::sleep(Duration::from_mins(1));
    }
    thread::spawn(move || comm.barrier());
    report_leaving();
    std::process::exit(9);
}

/// Rank 1 gets an MPI error that rank 0 does not get, and leaves while rank 0 waits for it.
fn leave_after_an_error() {
    let comm = open();
    works(&comm);
    let mut buffer = vec![1_u64; if comm.rank() == 0 { 200 } else { 100 }];
    let sent = comm.broadcast(&mut buffer, 0);
    if comm.rank() == 1 {
        let error = sent.unwrap_err();
        assert!(error.is_fatal(), "{error}");
        report_leaving();
        return;
    }
    let waited: Result<(), CommError> = (0..).try_for_each(|_| comm.barrier());
    panic!("no rank ended the job: {waited:?}");
}

/// Opens the backend with the comparison of calls.
fn open_checked() -> FerrompiBackend {
    let mut config = MpiConfig::new();
    config.check = true;
    FerrompiBackend::init(config).unwrap()
}

/// Calls of a node and calls of all ranks are compared with each other.
fn a_region_against_a_barrier() {
    let comm = open_checked();
    let called = |comm: &FerrompiBackend| match comm.rank() {
        0 => comm.create_shared_region::<u64>(4).map(drop),
        _ => comm.barrier(),
    };
    let error = called(&comm).unwrap_err();
    for words in ["create_shared_region(4 elements", "rank 1 called barrier"] {
        assert!(error.to_string().contains(words), "{error}");
    }
    assert_eq!(comm.split_local().err(), Some(error.again("split_local")));
}

/// Like [`a_region_against_a_barrier`], with ranks of other nodes in the barrier: all find the same.
fn a_region_of_one_rank() {
    let comm = open_checked();
    works(&comm);
    let error = match comm.rank() {
        1 => comm.create_shared_region::<u64>(4).map(drop),
        _ => comm.barrier(),
    };
    let CommError::CollectiveFailed {
        kind,
        rank,
        message,
        ..
    } = error.unwrap_err()
    else {
        panic!("another error");
    };
    assert_eq!((kind, rank), (FailureKind::Mismatch, Some(1)), "{message}");
    assert!(
        message.contains("rank 1 called create_shared_region(4 elements"),
        "{message}"
    );
}

/// A refusal takes a position in the sequence that calls of the node have too.
fn a_refusal_against_a_split() {
    let comm = open_checked();
    for _ in 0..3 {
        let refused = if comm.rank() == 0 {
            comm.split_local().map(drop)
        } else {
            comm.broadcast(&mut [1_u8], 7)
        };
        let error = refused.unwrap_err();
        assert!(error.to_string().contains("root 7"), "{error}");
        works(&comm);
        works(&comm.split_local().unwrap());
    }
}

/// Like [`a_forked_child_is_refused`], with pending requests of the comparison in the parent.
fn a_forked_child_of_compared_ranks() {
    let comm = open_checked();
    let local = comm.split_local().unwrap();
    works(&comm);
    works(&local);
    let mut inherited = Some((comm, local));
    let well = crate::fork::ends_well(|| {
        let (comm, local) = inherited.take().unwrap();
        let invalid = CommError::invalid_communicator();
        assert_eq!(local.barrier(), Err(invalid.clone()));
        assert_eq!(comm.split_local().err(), Some(invalid));
    });
    assert!(well);
    let (comm, local) = inherited.unwrap();
    works(&comm);
    works(&local);
}
