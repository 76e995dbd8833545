//! How a rank knows that another lives where the kernel shows less than usual.
#![allow(unsafe_code, reason = "threads and filters have no safe interface")]
#![allow(clippy::unwrap_used, reason = "a test fails where it is wrong")]

mod common;

use std::fs;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use comm_api::{Communicator, CommunicatorExt, FailureKind, ReduceOp};
use comm_shm::ShmBackend;
use common::markers::{Folder, PATIENCE, wait_for};
#[cfg(not(comm_portable_wait))]
use common::namespace::{BOTH, is_forbidden, script, unshare};
use common::{blame, kill_self, launch, role, say};

/// Ends only the main thread of this process, as a C `main` does with `pthread_exit`. Tests run on another
/// thread.
fn end_main_thread() {
    extern "C" fn end(_: libc::c_int) {
        // SAFETY: ends the thread that got the signal, and accesses no memory.
        unsafe { libc::syscall(libc::SYS_exit, 0) };
    }
    let main = libc::pid_t::try_from(std::process::id()).unwrap();
    let handler = end as extern "C" fn(libc::c_int);
    // SAFETY: the handler makes one system call.
    let before = unsafe { libc::signal(libc::SIGUSR1, handler as libc::sighandler_t) };
    assert_ne!(before, libc::SIG_ERR);
    // SAFETY: the main thread only waits for this one, and no thread waits for the main thread.
    assert_eq!(unsafe { libc::tgkill(main, main, libc::SIGUSR1) }, 0);
    let has_ended = || {
        let stat = fs::read_to_string("/proc/self/stat").unwrap();
        stat.rsplit_once(')').unwrap().1.starts_with(" Z")
    };
    let began = Instant::now();
    while !has_ended() {
        assert!(began.elapsed() < PATIENCE, "the main thread runs on");
        thread::sleep(Duration::from_millis(1));
    }
}

/// A rank lives as long as any of its threads does, and its death is noticed as soon as that of any other.
#[test]
fn a_rank_whose_main_thread_has_ended_lives() {
    let test = "a_rank_whose_main_thread_has_ended_lives";
    if let Some(config) = role(test) {
        let folder = Folder::of_driver();
        let comm = ShmBackend::attach(config).unwrap();
        comm.barrier().unwrap();
        if comm.rank() == 1 {
            end_main_thread();
            fs::create_dir(folder.join("ended")).unwrap();
            // Long enough for rank 0 to check this process, more than once.
            thread::sleep(Duration::from_millis(300));
            // Rank 0 judges: without its main thread, a failed test does not end this process.
            let _ = comm.allreduce_scalar(1, ReduceOp::Sum);
            kill_self();
        }
        wait_for(&folder.join("ended"));
        let sum = comm.allreduce_scalar(1, ReduceOp::Sum).unwrap();
        assert_eq!(sum, 2);
        let began = Instant::now();
        let error = comm.barrier().unwrap_err();
        let took = began.elapsed();
        assert_eq!(blame(&error), (FailureKind::PeerLost, Some(1)), "{error}");
        assert!(took < Duration::from_secs(10), "{took:?}");
        say("done");
        return;
    }
    let folder = Folder::new();
    let outcomes = launch(test, 2, &[folder.variable()]);
    assert_eq!(outcomes[0].said, ["done"], "{}", outcomes[0].output);
}

/// A process that `/proc` hides may be alive. With `hidepid`, other users and this one see nothing of a
/// process that is not dumpable, except files that were opened before.
#[cfg(not(comm_portable_wait))]
#[test]
fn a_hidden_rank_whose_main_thread_has_ended_lives() {
    let test = "a_hidden_rank_whose_main_thread_has_ended_lives";
    if let Some(config) = role(test) {
        let comm = ShmBackend::attach(config).unwrap();
        let pids = comm.allgather_vec(&[std::process::id()]).unwrap().0;
        if comm.rank() == 1 {
            wait_until_watched(pids[0], pids[1]);
            // SAFETY: drops a privilege, and accesses no memory.
            let hidden = unsafe { libc::prctl(libc::PR_SET_DUMPABLE, 0, 0, 0, 0) };
            assert_eq!(hidden, 0);
            end_main_thread();
            // Long enough for rank 0 to check this process, more than once.
            thread::sleep(Duration::from_millis(300));
            let _ = comm.allreduce_scalar(1, ReduceOp::Sum);
            kill_self();
        }
        assert_eq!(comm.allreduce_scalar(1, ReduceOp::Sum).unwrap(), 2);
        let stat = PathBuf::from(format!("/proc/{}/stat", pids[1]));
        assert!(!stat.exists(), "rank 1 is not hidden");
        let error = comm.barrier().unwrap_err();
        assert_eq!(blame(&error), (FailureKind::PeerLost, Some(1)), "{error}");
        say("done");
        return;
    }
    let Some(unshare) = unshare("--mount --pid --fork") else {
        return;
    };
    let user = "setpriv --reuid 65534 --regid 65534 --clear-groups";
    let both = format!(
        "{unshare} sh -c 'mount -t proc -o hidepid=2 proc /proc || exit 77; {user} \"$0\" --list >/dev/null || exit 77; \
         exec {user} sh -c \"$BOTH\" \"$0\" \"$@\"' \"$0\" \"$@\""
    );
    let outcome = script(test, 2, &both, &[("BOTH", BOTH)]);
    if !is_forbidden(outcome.status, &outcome.output) {
        assert_eq!(outcome.said, ["done"], "{}", outcome.output);
    }
}

/// Waits until a process has opened the kernel's file about another one.
#[cfg(not(comm_portable_wait))]
fn wait_until_watched(observer: u32, pid: u32) {
    let began = Instant::now();
    let stat = PathBuf::from(format!("/proc/{pid}/stat"));
    let is_open = || {
        let open = fs::read_dir(format!("/proc/{observer}/fd")).unwrap();
        let mut open = open.filter_map(|entry| fs::read_link(entry.ok()?.path()).ok());
        open.any(|file| file == stat)
    };
    while !is_open() {
        assert!(began.elapsed() < PATIENCE, "nobody looks at this process");
        thread::sleep(Duration::from_millis(1));
    }
}

/// Makes `pidfd_open` fail as on kernels before 5.3, for this thread and those it starts.
fn without_pidfds() {
    use libc::{BPF_ABS, BPF_JEQ, BPF_JMP, BPF_K, BPF_LD, BPF_RET, BPF_W};
    let number = u32::try_from(libc::SYS_pidfd_open).unwrap();
    let missing = libc::SECCOMP_RET_ERRNO | libc::ENOSYS.cast_unsigned();
    let step = |code: u32, jf, k| libc::sock_filter {
        code: u16::try_from(code).unwrap(),
        jt: 0,
        jf,
        k,
    };
    let mut steps = [
        // The number of the call is the first word of what the filter sees.
        step(BPF_LD | BPF_W | BPF_ABS, 0, 0),
        step(BPF_JMP | BPF_JEQ | BPF_K, 1, number),
        step(BPF_RET | BPF_K, 0, missing),
        step(BPF_RET | BPF_K, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog {
        len: u16::try_from(steps.len()).unwrap(),
        filter: steps.as_mut_ptr(),
    };
    let (mode, none) = (libc::SECCOMP_MODE_FILTER, 0_u64);
    // SAFETY: drops a privilege, and accesses no memory.
    let given_up = unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1_u64, none, none, none) };
    assert_eq!(given_up, 0);
    // SAFETY: the kernel copies a program that outlives the call.
    let filtered = unsafe { libc::prctl(libc::PR_SET_SECCOMP, mode, &raw const program) };
    assert_eq!(filtered, 0);
}

/// A rank that is gone before the first check is lost, also where the system does not support pidfds.
#[test]
fn a_rank_that_is_gone_is_lost_without_pidfds() {
    let test = "a_rank_that_is_gone_is_lost_without_pidfds";
    if let Some(config) = role(test) {
        without_pidfds();
        let comm = ShmBackend::attach(config).unwrap();
        let pids = comm.allgather_vec(&[std::process::id()]).unwrap().0;
        if comm.rank() == 1 {
            kill_self();
        }
        let shown = PathBuf::from(format!("/proc/{}", pids[1]));
        let began = Instant::now();
        // The driver reaps it.
        while shown.exists() {
            assert!(began.elapsed() < PATIENCE, "nobody reaps rank 1");
            thread::sleep(Duration::from_millis(1));
        }
        let error = comm.barrier().unwrap_err();
        assert_eq!(blame(&error), (FailureKind::PeerLost, Some(1)), "{error}");
        say("done");
        return;
    }
    let outcomes = launch(test, 2, &[("COBRE_SHM_TIMEOUT_SECS", "5")]);
    assert_eq!(outcomes[0].said, ["done"], "{}", outcomes[0].output);
}
