//! Effects of the system on a rank: forks, signals that interrupt every system call, lack of descriptors.
#![allow(unsafe_code, reason = "fork and timers have no safe interface")]
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

mod common;

use std::io::Read;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use comm_api::{CommError, Communicator, ReduceOp};
use comm_tcp::TcpBackend;
use common::{WATCHDOG, config, listener, world};
use rustix::process::{Resource, Rlimit, setrlimit};

const ROLE: &str = "COMM_TCP_TEST_ROLE";

/// Runs the test of this name in a separate process, where the role is set.
fn in_a_process(test: &str) {
    if std::env::var(ROLE).is_ok() {
        return;
    }
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture", "--test-threads", "1"])
        .env(ROLE, test)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
}

fn has_role(test: &str) -> bool {
    let mine = std::env::var(ROLE).is_ok_and(|role| role == test);
    if mine {
        std::thread::spawn(|| {
            std::thread::sleep(WATCHDOG);
            std::process::exit(3);
        });
    }
    mine
}

/// A forked child can use nothing that it inherited, drops it without harm, and may create its own.
#[test]
fn a_forked_child() {
    if !has_role("a_forked_child") {
        return in_a_process("a_forked_child");
    }
    world(
        3,
        |_| (),
        |comm| {
            comm.barrier().unwrap();
            if comm.rank() < 2 {
                comm.barrier().unwrap();
                return comm.barrier().unwrap();
            }
            // SAFETY: the child only uses what belonged to this thread, and exits with `_exit`.
            let child = unsafe { libc::fork() };
            if child == 0 {
                let invalid = |result| matches!(result, Err(CommError::InvalidCommunicator { .. }));
                let mut good = invalid(comm.barrier())
                    && invalid(comm.allreduce(&[1], &mut [0], ReduceOp::Sum))
                    && comm.broadcast(&mut [1], 9).is_err();
                drop(comm);
                let alone = TcpBackend::connect(config(0, 1, 1));
                good &= alone.is_ok_and(|comm| comm.barrier().is_ok());
                // SAFETY: ends the child without running the exit handlers of its parent.
                unsafe { libc::_exit(i32::from(!good)) }
            }
            let mut status = 0;
            // SAFETY: our own child, and a place for its status.
            assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
            assert_eq!(status, 0, "the child was right");
            // Neither its refusal nor its drop has reached any other rank.
            comm.barrier().unwrap();
            comm.barrier().unwrap();
        },
    );
}

static SIGNALS: AtomicUsize = AtomicUsize::new(0);

extern "C" fn count(_: libc::c_int) {
    SIGNALS.fetch_add(1, Ordering::Relaxed);
}

/// Sends this process a signal every 200 us, which interrupts system calls.
fn storm() {
    // SAFETY: all zeros is a valid value of this plain structure.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = count as *const () as usize;
    // SAFETY: the handler touches one atomic number.
    let set = unsafe { libc::sigaction(libc::SIGALRM, &raw const action, std::ptr::null_mut()) };
    assert_eq!(set, 0);
    let interval = libc::timeval {
        tv_sec: 0,
        tv_usec: 200,
    };
    let timer = libc::itimerval {
        it_interval: interval,
        it_value: interval,
    };
    // SAFETY: a timer of this process, which has a handler for its signal.
    let set = unsafe { libc::setitimer(libc::ITIMER_REAL, &raw const timer, std::ptr::null_mut()) };
    assert_eq!(set, 0);
}

/// Signals that interrupt every system call, from start to end, change nothing.
#[test]
fn a_storm_of_signals() {
    if !has_role("a_storm_of_signals") {
        return in_a_process("a_storm_of_signals");
    }
    storm();
    for len in [1, 1000, 200_000] {
        world(
            3,
            |_| (),
            move |comm| {
                for round in 0..20 {
                    if comm.rank() == round % 3 {
                        // The others sleep, and for a while only signals wake them.
                        std::thread::sleep(Duration::from_millis(3));
                    }
                    let mut sum = vec![0; len];
                    comm.allreduce(&vec![comm.rank(); len], &mut sum, ReduceOp::Sum)
                        .unwrap();
                    assert!(sum.iter().all(|&sum| sum == 3));
                }
            },
        );
    }
    let signals = SIGNALS.load(Ordering::Relaxed);
    assert!(signals > 50, "only {signals} signals came");
}

/// A program that opens files while rank 0 waits for the others may leave rank 0 too few descriptors: the
/// error names the limit to raise.
#[test]
fn descriptors_that_run_out_while_ranks_are_waited_for() {
    let test = "descriptors_that_run_out_while_ranks_are_waited_for";
    if !has_role(test) {
        return in_a_process(test);
    }
    let (listener, port) = listener();
    let limit = Rlimit {
        current: Some(160),
        maximum: Some(160),
    };
    setrlimit(Resource::Nofile, limit).unwrap();
    let strangers: Vec<_> = (0..8)
        .map(|_| std::net::TcpStream::connect(("127.0.0.1", port)).unwrap())
        .collect();
    let mut config = config(0, 64, port);
    config.connect_timeout = Duration::from_secs(2);
    let zero =
        std::thread::spawn(move || TcpBackend::connect_with_listener(config, listener).map(drop));
    // Rank 0 sends first, so it is waiting for the others.
    (&strangers[0]).read_exact(&mut [0]).unwrap();
    let mut files = Vec::new();
    while !zero.is_finished() {
        match std::fs::File::open("/dev/null") {
            Ok(file) => files.push(file),
            Err(_) => std::thread::sleep(Duration::from_millis(1)),
        }
    }
    let error = zero.join().unwrap().unwrap_err();
    for word in ["Too many open files", "ulimit -n", "needs 132 "] {
        assert!(error.message.contains(word), "no {word} in: {error}");
    }
}

/// Returns the timers of all connections of this process: 2 is that of keepalive.
fn timers() -> Vec<String> {
    let links = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
    let links = links.filter_map(|link| std::fs::read_link(link.path()).ok());
    let sockets: Vec<String> = links
        .filter_map(|link| {
            let link = link.to_str()?.strip_prefix("socket:[")?;
            Some(link.strip_suffix(']')?.to_owned())
        })
        .collect();
    let table = std::fs::read_to_string("/proc/self/net/tcp").unwrap();
    let rows = table.lines().skip(1).map(|row| row.split_whitespace());
    rows.map(Iterator::collect::<Vec<&str>>)
        .filter(|row| row[3] == "01" && sockets.iter().any(|socket| socket == row[9]))
        .map(|row| row[5][..2].to_owned())
        .collect()
}

/// A vanished host at the other end is detected, whatever the purpose of the link.
#[cfg(target_os = "linux")]
#[test]
fn every_link_of_a_job_is_probed_while_it_is_silent() {
    let test = "every_link_of_a_job_is_probed_while_it_is_silent";
    if !has_role(test) {
        return in_a_process(test);
    }
    world(
        4,
        |_| (),
        |comm| {
            comm.barrier().unwrap();
            if comm.rank() == 0 {
                // Three data links, three watch links and four of the ring, with both ends here.
                let began = Instant::now();
                loop {
                    let timers = timers();
                    assert!(timers.len() >= 20, "{timers:?}");
                    if timers.iter().all(|timer| timer == "02") {
                        break;
                    }
                    assert!(began.elapsed() < Duration::from_secs(10), "{timers:?}");
                    std::thread::yield_now();
                }
            }
            comm.barrier().unwrap();
        },
    );
}

/// A program that a rank starts may outlive the job. If it kept a link, no other rank would notice that the
/// rank is gone.
#[test]
#[cfg(target_os = "linux")]
fn a_program_that_a_rank_starts_inherits_nothing() {
    let test = "a_program_that_a_rank_starts_inherits_nothing";
    if !has_role(test) {
        return in_a_process(test);
    }
    let before = comm_testing::inherited();
    let large = vec![1_u64; 1 << 17];
    let shown = world(
        3,
        |_| (),
        move |comm| {
            // Over the ring, too.
            let mut sums = vec![0; large.len()];
            comm.allreduce(&large, &mut sums, ReduceOp::Sum).unwrap();
            comm.barrier().unwrap();
            let shown = comm_testing::inherited();
            comm.barrier().unwrap();
            shown
        },
    );
    for shown in shown {
        assert_eq!(shown, before);
    }
}
