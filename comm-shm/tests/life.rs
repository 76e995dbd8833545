//! The life of a call in real processes: a panic inside it, an interruption, a suspended job.
#![allow(unsafe_code, reason = "signals have no safe interface")]
#![allow(clippy::unwrap_used, reason = "a test fails where it is wrong")]

mod common;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::Child;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use comm_api::{CommError, Communicator, FailureKind, SharedMemoryProvider, SharedRegion};
use comm_kit::interrupt;
use comm_kit::words::{self, Lost};
use comm_shm::ShmBackend;
use common::markers::{Folder, wait_for};
use common::{Outcome, blame, exists, finish, fresh_name, job, launch, role, say, start};

/// The rank that is interrupted at start-up.
const VICTIM: usize = 1;

/// Checks that `error` blames `rank` with this message.
fn expect(error: &CommError, kind: FailureKind, rank: usize, message: &str) {
    match error {
        CommError::CollectiveFailed {
            kind: found,
            rank: Some(blamed),
            message: text,
            ..
        } => assert_eq!((*found, *blamed, text.as_str()), (kind, rank, message)),
        other => panic!("{other}"),
    }
}

/// A rank that panics in the middle of a call is lost at once, although it lives and keeps its communicator.
#[test]
fn a_panic_inside_a_call() {
    job("a_panic_inside_a_call", &[3], |comm| {
        let message = words::lost(Lost::PanickedInside, None);
        let lost = |error: &CommError| expect(error, FailureKind::PeerLost, 1, &message);
        comm.barrier().unwrap();
        if comm.rank() == 1 {
            interrupt::set_hook(|| panic!("the hook is inside the call"));
            let left = catch_unwind(AssertUnwindSafe(|| comm.barrier()));
            assert!(left.is_err(), "{left:?}");
            lost(&comm.barrier().unwrap_err());
            lost(&comm.create_shared_region::<u8>(1).unwrap_err());
            // Longer than the others wait: they do not see the drop.
            std::thread::sleep(Duration::from_secs(6));
            return;
        }
        std::thread::sleep(Duration::from_millis(200));
        // Rank 1 had contributed to this one before it panicked.
        comm.barrier().unwrap();
        let began = Instant::now();
        lost(&comm.barrier().unwrap_err());
        assert!(began.elapsed() < Duration::from_secs(5), "{began:?}");
        lost(&comm.barrier().unwrap_err());
    });
}

/// A rank that left an exchange with a panic has a broken handle. The others fail to fence, and get the error
/// at once, although the handle is not dropped.
#[test]
fn a_fence_beside_a_broken_handle_that_is_kept() {
    let test = "a_fence_beside_a_broken_handle_that_is_kept";
    if let Some(config) = role(test) {
        let folder = Folder::of_driver();
        let comm = ShmBackend::attach(config).unwrap();
        let mut region = comm.create_gathered_region::<usize>(1).unwrap();
        region.as_mut_slice()[0] = comm.rank();
        if comm.rank() == 1 {
            interrupt::set_hook(|| panic!("the hook is inside the call"));
            let left = catch_unwind(AssertUnwindSafe(|| comm.exchange(&mut region)));
            assert!(left.is_err(), "{left:?}");
            std::fs::create_dir(folder.join("left")).unwrap();
            wait_for(&folder.join("fenced"));
            return say("done");
        }
        wait_for(&folder.join("left"));
        // Rank 1 had contributed before it panicked.
        comm.exchange(&mut region).unwrap();
        assert_eq!(region.as_slice(), [0, 1]);
        let began = Instant::now();
        let error = region.fence().unwrap_err();
        assert!(began.elapsed() < Duration::from_secs(5), "{began:?}");
        assert_eq!(blame(&error), (FailureKind::PeerLost, Some(1)), "{error}");
        std::fs::create_dir(folder.join("fenced")).unwrap();
        return say("done");
    }
    let folder = Folder::new();
    for Outcome { said, output, .. } in launch(test, 2, &[folder.variable()]) {
        assert_eq!(said, ["done"], "{output}");
    }
}

/// A panic between two steps of a call is noticed in that call; one in a fence concerns only its region.
#[test]
fn a_panic_in_the_middle_of_a_call() {
    job("a_panic_in_the_middle_of_a_call", &[3], |comm| {
        let message = words::lost(Lost::PanickedInside, None);
        let lost = |error: &CommError| expect(error, FailureKind::PeerLost, 1, &message);
        let mut region = comm.create_shared_region::<u64>(4).unwrap();
        let mut table = vec![7_u8; 4 << 20];
        comm.barrier().unwrap();
        if comm.rank() == 1 {
            interrupt::set_hook(|| panic!("the hook is inside the call"));
            let left = catch_unwind(AssertUnwindSafe(|| region.fence()));
            assert!(left.is_err(), "{left:?}");
            lost(&region.fence().unwrap_err());
            interrupt::clear_hook();
            comm.barrier().unwrap();
            interrupt::set_hook(|| panic!("the hook is inside the call"));
            let left = catch_unwind(AssertUnwindSafe(|| comm.broadcast(&mut table, 0)));
            assert!(left.is_err(), "{left:?}");
            lost(&comm.barrier().unwrap_err());
            std::thread::sleep(Duration::from_secs(2));
            return;
        }
        std::thread::sleep(Duration::from_millis(300));
        region.fence().unwrap();
        lost(&region.fence().unwrap_err());
        comm.barrier().unwrap();
        std::thread::sleep(Duration::from_millis(300));
        let began = Instant::now();
        lost(&comm.broadcast(&mut table, 0).unwrap_err());
        assert!(began.elapsed() < Duration::from_secs(1), "{began:?}");
        lost(&comm.barrier().unwrap_err());
    });
}

/// A rank that is interrupted, or panics, while it waits for the others to attach ends the start on all
/// ranks, and no name is left.
#[test]
fn an_interrupted_start() {
    let test = "an_interrupted_start";
    if let Some(mut config) = role(test) {
        config.connect_timeout = Duration::from_secs(20);
        let (rank, panics) = (config.rank, std::env::var_os("PANICS").is_some());
        if rank == VICTIM {
            let asked = AtomicUsize::new(0);
            interrupt::set_hook(move || {
                let due = asked.fetch_add(1, Ordering::Relaxed) == 3;
                assert!(!(due && panics), "the hook is inside the start");
                due
            });
        }
        let began = Instant::now();
        let attached = catch_unwind(|| ShmBackend::attach(config));
        assert_eq!(attached.is_err(), panics && rank == VICTIM);
        if let Ok(attached) = attached {
            let message = attached.expect_err("rank 2 did not come").message;
            let how = if panics {
                "panicked"
            } else {
                "was interrupted"
            };
            let expected = format!("rank {VICTIM} of 3 {how} while");
            assert!(message.contains(&expected), "{message}");
        }
        assert!(began.elapsed() < Duration::from_secs(10), "{began:?}");
        // The others see what it did, not its exit.
        std::thread::sleep(Duration::from_secs(1));
        return;
    }
    // Without the rank that creates the segment, then with it.
    for (ranks, panics) in [
        (&[VICTIM][..], false),
        (&[0, VICTIM], false),
        (&[0, VICTIM], true),
    ] {
        let name = fresh_name();
        let variables: &[_] = if panics { &[("PANICS", "1")] } else { &[] };
        let ranks: Vec<_> = ranks
            .iter()
            .map(|&rank| (rank, start(test, &name, rank, 3, variables)))
            .collect();
        for (rank, child) in ranks {
            let outcome = finish(rank, child);
            assert!(outcome.status.success(), "{}", outcome.output);
        }
        assert!(!exists(&name), "{name} was left behind");
    }
}

/// A rank that is interrupted while it waits ends the call on every rank; an interrupted fence only ends that
/// of its region.
#[test]
fn an_interruption() {
    static ASKED: AtomicBool = AtomicBool::new(false);
    job("an_interruption", &[3], |comm| {
        let message = words::interrupted();
        let aborted = |error: &CommError| expect(error, FailureKind::Aborted, 1, &message);
        if comm.rank() == 1 {
            interrupt::set_hook(|| ASKED.swap(false, Ordering::Relaxed));
        }
        let late = |comm: &ShmBackend| {
            if comm.rank() == 2 {
                std::thread::sleep(Duration::from_millis(500));
            }
        };
        let mut region = comm.create_shared_region::<u64>(4).unwrap();
        comm.barrier().unwrap();
        ASKED.store(true, Ordering::Relaxed);
        late(&comm);
        aborted(&region.fence().unwrap_err());
        ASKED.store(false, Ordering::Relaxed);

        comm.barrier().unwrap();
        ASKED.store(true, Ordering::Relaxed);
        late(&comm);
        let began = Instant::now();
        aborted(&comm.barrier().unwrap_err());
        assert!(began.elapsed() < Duration::from_millis(450), "{began:?}");
        aborted(&comm.barrier().unwrap_err());
    });
}

/// A rank with many short sleeps does not call the hook in each of them: the hook may be slow.
#[test]
fn a_hook_in_short_sleeps() {
    static ASKED: AtomicUsize = AtomicUsize::new(0);
    job("a_hook_in_short_sleeps", &[2], |comm| {
        if comm.rank() == 1 {
            interrupt::set_hook(|| ASKED.fetch_add(1, Ordering::Relaxed) > usize::MAX / 2);
        }
        let began = Instant::now();
        for _ in 0..200 {
            if comm.rank() == 0 {
                std::thread::sleep(Duration::from_millis(2));
            }
            comm.barrier().unwrap();
        }
        let most = began.elapsed().as_millis() / 10 + 1;
        let asked = ASKED.load(Ordering::Relaxed);
        assert!(asked as u128 <= most, "asked {asked} times, not {most}");
    });
}

/// A job that is suspended as a whole, for longer than its timeout, continues when it is resumed.
#[test]
fn a_suspended_job() {
    const MARKER: &str = "COMM_SHM_TEST_MARKER";
    let test = "a_suspended_job";
    if let Some(mut config) = role(test) {
        config.timeout = Some(Duration::from_secs(2));
        let comm = ShmBackend::attach(config).unwrap();
        if comm.rank() == 1 {
            std::fs::write(std::env::var(MARKER).unwrap(), "").unwrap();
            // In pieces: most of the time is left when the job wakes.
            for _ in 0..10 {
                std::thread::sleep(Duration::from_millis(100));
            }
        }
        comm.barrier().unwrap();
        return;
    }
    let name = fresh_name();
    let marker = std::env::temp_dir().join(&name);
    let variables = [(MARKER, marker.to_str().unwrap())];
    let ranks = [0, 1].map(|rank| start(test, &name, rank, 2, &variables));
    while !marker.exists() {
        std::thread::sleep(Duration::from_millis(1));
    }
    std::fs::remove_file(&marker).unwrap();
    for signal in [libc::SIGSTOP, libc::SIGCONT] {
        for rank in &ranks {
            send(rank, signal);
        }
        if signal == libc::SIGSTOP {
            std::thread::sleep(Duration::from_secs(3));
        }
    }
    for (rank, child) in ranks.into_iter().enumerate() {
        let outcome = finish(rank, child);
        assert!(outcome.status.success(), "{}", outcome.output);
    }
}

fn send(child: &Child, signal: i32) {
    let pid = i32::try_from(child.id()).unwrap();
    // SAFETY: a system call without memory; the child was not waited for, so the pid is its own.
    let sent = unsafe { libc::kill(pid, signal) };
    assert_eq!(sent, 0);
}

/// A program that a rank starts may outlive the job. It must keep neither the memory of the segment nor
/// anything else of it.
#[test]
#[cfg(target_os = "linux")]
fn a_program_that_a_rank_starts_inherits_nothing() {
    let test = "a_program_that_a_rank_starts_inherits_nothing";
    let before = comm_testing::inherited();
    job(test, &[1, 3], |comm| {
        let mut region = comm.create_shared_region::<u64>(1000).unwrap();
        let split = comm.split_local().unwrap();
        region.fence().unwrap();
        split.barrier().unwrap();
        assert_eq!(comm_testing::inherited(), before);
        comm.barrier().unwrap();
    });
}
