//! The life of a call in real processes: a panic inside it, an interruption, a suspended job.
#![allow(unsafe_code, reason = "signals have no safe interface")]
#![allow(clippy::unwrap_used, reason = "a test fails where it is wrong")]

mod common;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::Child;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use comm_api::{CommError, Communicator, FailureKind, SharedMemoryProvider, SharedRegion};
use comm_kit::interrupt;
use comm_kit::words::{self, Lost};
use comm_shm::ShmBackend;
use common::{finish, fresh_name, job, role, start};

/// Checks that `error` blames `rank` in these words.
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

/// A rank that panics in the middle of a call is lost at once, although it lives and keeps its
/// communicator.
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
            // Long enough for the others: it is not the drop that they see.
            std::thread::sleep(Duration::from_secs(2));
            return;
        }
        std::thread::sleep(Duration::from_millis(200));
        // Rank 1 had contributed to this one before it panicked.
        comm.barrier().unwrap();
        let began = Instant::now();
        lost(&comm.barrier().unwrap_err());
        assert!(began.elapsed() < Duration::from_secs(1), "{began:?}");
        lost(&comm.barrier().unwrap_err());
    });
}

/// A rank that is interrupted while it waits ends the call for everybody; a fence only that of its
/// region.
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

/// A job that is suspended as a whole, for longer than its timeout, goes on when it wakes.
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
