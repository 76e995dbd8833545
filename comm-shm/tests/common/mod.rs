//! Ranks as real processes: a test starts its own binary again, once per rank.
//!
//! The driver and the ranks run the same test function; [`job`] distinguishes them by a variable.
#![allow(
    dead_code,
    unreachable_pub,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "every test binary uses another part of this, and ranks print for their driver"
)]

#[cfg(target_os = "linux")]
pub mod forbid;
pub mod markers;
pub mod namespace;

use std::io::Read;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use comm_api::{CommError, FailureKind};
use comm_shm::{ShmBackend, ShmConfig};

const ROLE: &str = "COMM_SHM_TEST_ROLE";

/// The maximum run time of a rank of any test.
const WATCHDOG: Duration = Duration::from_mins(2);

/// The outcome of one rank.
#[derive(Debug)]
pub struct Outcome {
    pub rank: usize,
    pub status: ExitStatus,
    /// What the rank printed with [`say`].
    pub said: Vec<String>,
    pub output: String,
}

/// Returns a name that no other test uses.
pub fn fresh_name() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    comm_testing::watchdog();
    let next = NEXT.fetch_add(1, Ordering::Relaxed);
    format!("cobre-test-{}-{next}", std::process::id())
}

/// Prints a line for the driver.
pub fn say(text: impl std::fmt::Display) {
    println!("@{text}");
}

/// In a rank: its number, and the part of the test.
pub fn role(test: &str) -> Option<ShmConfig> {
    (std::env::var(ROLE).ok()? == test).then(|| {
        std::thread::spawn(|| {
            std::thread::sleep(WATCHDOG);
            eprintln!("watchdog: this rank took {WATCHDOG:?}");
            std::process::abort();
        });
        ShmConfig::from_env().expect("the driver sets the environment")
    })
}

/// Starts one rank of `test`.
pub fn start(
    test: &str,
    name: &str,
    rank: usize,
    size: usize,
    variables: &[(&str, &str)],
) -> Child {
    let binary = std::env::current_exe().expect("a test has a binary");
    Command::new(binary)
        .args([test, "--exact", "--nocapture", "--test-threads=1"])
        .env(ROLE, test)
        .env("COBRE_SHM_NAME", name)
        .env("COBRE_SHM_RANK", rank.to_string())
        .env("COBRE_SHM_SIZE", size.to_string())
        .env("COBRE_SHM_TIMEOUT_SECS", "30")
        .envs(variables.iter().copied())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("a process can be started")
}

/// Waits for a rank; a rank that does not end is killed and fails the test.
pub fn finish(rank: usize, mut child: Child) -> Outcome {
    let mut stdout = child.stdout.take().expect("piped");
    let mut stderr = child.stderr.take().expect("piped");
    let out = std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = stdout.read_to_end(&mut bytes);
        String::from_utf8_lossy(&bytes).into_owned()
    });
    let err = std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = stderr.read_to_end(&mut bytes);
        String::from_utf8_lossy(&bytes).into_owned()
    });
    let deadline = Instant::now() + WATCHDOG + Duration::from_secs(10);
    let status = loop {
        if let Some(status) = child.try_wait().expect("our child") {
            break status;
        }
        if Instant::now() > deadline {
            let _ = child.kill();
            let _ = child.wait();
            panic!("rank {rank} hung: {}", out.join().expect("reads"));
        }
        std::thread::sleep(Duration::from_millis(2));
    };
    let out = out.join().expect("reads");
    let said = out
        .lines()
        // The test harness prints the name of the test and no new line before the first output.
        .filter_map(|line| line.split_once('@').map(|(_, text)| text.to_owned()))
        .collect();
    Outcome {
        rank,
        status,
        said,
        output: format!("{out}{}", err.join().expect("reads")),
    }
}

/// Starts `size` ranks of `test` and waits for all of them.
pub fn launch(test: &str, size: usize, variables: &[(&str, &str)]) -> Vec<Outcome> {
    let name = fresh_name();
    let children: Vec<Child> = (0..size)
        .map(|rank| start(test, &name, rank, size, variables))
        .collect();
    let outcomes = std::thread::scope(|scope| {
        let waits: Vec<_> = children
            .into_iter()
            .enumerate()
            .map(|(rank, child)| scope.spawn(move || finish(rank, child)))
            .collect();
        waits
            .into_iter()
            .map(|wait| wait.join().expect("no hang"))
            .collect()
    });
    assert!(!exists(&name), "{name} was left behind");
    outcomes
}

/// Whether a segment of that name exists.
pub fn exists(name: &str) -> bool {
    std::path::Path::new("/dev/shm").join(name).exists()
}

/// Runs `body` on every rank of worlds of all `sizes`; every rank must complete it.
pub fn job(test: &str, sizes: &[usize], body: impl FnOnce(ShmBackend)) {
    if let Some(config) = role(test) {
        body(ShmBackend::attach(config).expect("attaches"));
        say("done");
        return;
    }
    for &size in sizes {
        for outcome in launch(test, size, &[]) {
            let Outcome {
                rank,
                status,
                said,
                output,
            } = outcome;
            let done = status.success() && said.last().is_some_and(|said| said == "done");
            assert!(done, "rank {rank} of {size}: {status}\n{output}");
        }
    }
}

/// The rank that an error of a collective blames, and the kind of failure.
pub fn blame(error: &CommError) -> (FailureKind, Option<usize>) {
    match error {
        CommError::CollectiveFailed { kind, rank, .. } => (*kind, *rank),
        other => panic!("{other}"),
    }
}

/// Ends this process as the system ends one that uses too much memory.
#[allow(unsafe_code, reason = "a signal has no safe interface")]
pub fn kill_self() -> ! {
    // SAFETY: ends this process and touches no memory.
    unsafe { libc::raise(libc::SIGKILL) };
    unreachable!("nobody survives that")
}
