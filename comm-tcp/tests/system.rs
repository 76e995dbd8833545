//! What the system does to a rank: forks, signals that interrupt every call, descriptors that run out.
#![allow(unsafe_code, reason = "fork and timers have no safe interface")]
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

mod common;

use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use comm_api::{CommError, Communicator, ReduceOp};
use comm_tcp::TcpBackend;
use common::{WATCHDOG, config, listener, world};
use rustix::process::{Resource, Rlimit, setrlimit};

const ROLE: &str = "COMM_TCP_TEST_ROLE";

/// Runs the test of this name in a process of its own, where it finds the role set.
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

/// A forked child can use nothing it inherited, drops it without harm, and may open its own.
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
            // SAFETY: the child uses what this thread alone had in hand, and leaves by `_exit`.
            let child = unsafe { libc::fork() };
            if child == 0 {
                let invalid = |result| matches!(result, Err(CommError::InvalidCommunicator));
                let mut good = invalid(comm.barrier())
                    && invalid(comm.allreduce(&[1], &mut [0], ReduceOp::Sum))
                    && comm.broadcast(&mut [1], 9).is_err();
                drop(comm);
                let alone = TcpBackend::connect(config(0, 1, 1));
                good &= alone.is_ok_and(|comm| comm.barrier().is_ok());
                // SAFETY: ends the child without running what belongs to its parent.
                unsafe { libc::_exit(i32::from(!good)) }
            }
            let mut status = 0;
            // SAFETY: our own child, and a place for its status.
            assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
            assert_eq!(status, 0, "the child was right");
            // Neither its refusal nor its drop has reached anybody.
            comm.barrier().unwrap();
            comm.barrier().unwrap();
        },
    );
}

static SIGNALS: AtomicUsize = AtomicUsize::new(0);

extern "C" fn count(_: libc::c_int) {
    SIGNALS.fetch_add(1, Ordering::Relaxed);
}

/// Sends this process a signal every 200 us that interrupts what it interrupts.
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

/// Signals that interrupt every call of the system, from start to end, change nothing.
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
                        // The others sleep, and are woken by signals alone for a while.
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

/// A job whose program leaves rank 0 too few descriptors says so, with what to raise.
#[test]
fn too_few_descriptors() {
    if !has_role("too_few_descriptors") {
        return in_a_process("too_few_descriptors");
    }
    let (listener, port) = listener();
    let limit = libc::rlimit {
        rlim_cur: 160,
        rlim_max: 160,
    };
    let strangers: Vec<_> = (0..8)
        .map(|_| std::net::TcpStream::connect(("127.0.0.1", port)).unwrap())
        .collect();
    // SAFETY: a limit of this process.
    let set = unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) };
    assert_eq!(set, 0);
    let mut files = Vec::new();
    while files.len() < 160
        && let Ok(file) = std::fs::File::open("/dev/null")
    {
        files.push(file);
    }
    files.truncate(files.len().saturating_sub(2));
    let mut config = config(0, 64, port);
    config.connect_timeout = Duration::from_millis(300);
    let error = TcpBackend::connect_with_listener(config, listener)
        .map(drop)
        .unwrap_err();
    for word in ["Too many open files", "ulimit -n", "131"] {
        assert!(error.message.contains(word), "no {word} in: {error}");
    }
    drop(strangers);
}

/// With fewer descriptors than the links need, rank 0 says so before anybody waits for it.
#[test]
fn a_limit_on_descriptors_that_cannot_suffice() {
    if !has_role("a_limit_on_descriptors_that_cannot_suffice") {
        return in_a_process("a_limit_on_descriptors_that_cannot_suffice");
    }
    let limit = Rlimit {
        current: Some(100),
        maximum: Some(100),
    };
    setrlimit(Resource::Nofile, limit).unwrap();
    let began = Instant::now();
    let (listener, port) = listener();
    let error = TcpBackend::connect_with_listener(config(0, 64, port), listener).unwrap_err();
    assert!(began.elapsed() < Duration::from_secs(10), "{error}");
    for word in ["ulimit -n", "130", "100"] {
        assert!(error.to_string().contains(word), "{error}");
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

/// Whatever a link is for, a host that vanishes at its other end is found.
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
