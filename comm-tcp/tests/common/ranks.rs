//! Ranks as processes: a test program starts itself again, as its test `one_rank`, with a role.

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::os::fd::{IntoRawFd, OwnedFd};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use comm_tcp::TcpConfig;
use rustix::io::fcntl_dupfd_cloexec;
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};

/// The variable that holds the role of a rank.
pub(crate) const ROLE: &str = "COMM_TCP_TEST_ROLE";

/// One rank, and the lines it prints.
pub(crate) struct Rank {
    child: Child,
    lines: std::io::Lines<BufReader<std::process::ChildStdout>>,
}

impl Rank {
    /// Returns the next line that begins with `word`, without it.
    pub(crate) fn wait_for(&mut self, word: &str) -> String {
        for line in self.lines.by_ref() {
            let line = line.unwrap();
            if let Some((_, rest)) = line.split_once(&format!("@{word} ")) {
                return rest.to_owned();
            }
        }
        panic!("a rank ended without saying {word}");
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(i32::try_from(self.child.id()).unwrap()).unwrap();
        kill_process(pid, signal).unwrap();
    }

    /// Kills the process and waits until all of it is gone.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Stops the process and waits until it is stopped.
    pub(crate) fn stop(&self) {
        self.signal(Signal::STOP);
        let pid = Pid::from_raw(i32::try_from(self.child.id()).unwrap());
        let status = waitpid(pid, WaitOptions::UNTRACED).unwrap();
        assert!(status.unwrap().1.stopped());
    }

    /// Resumes the process, which waits in [`wait_here`].
    pub(crate) fn let_go(&self) {
        std::fs::write(gate(self.child.id()), "").unwrap();
    }
}

fn gate(process: u32) -> PathBuf {
    std::env::temp_dir().join(format!("comm-tcp-gate-{process}"))
}

/// Waits until the test resumes this process.
pub(crate) fn wait_here() {
    let gate = gate(std::process::id());
    while std::fs::remove_file(&gate).is_err() {
        std::thread::sleep(Duration::from_millis(1));
    }
}

impl Drop for Rank {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Starts ranks with a timeout of this many seconds.
pub(crate) fn start_with(role: &str, size: usize, seconds: &str) -> Vec<Rank> {
    start_each(role, size, |_| seconds.to_owned())
}

/// Starts ranks, each with its own timeout in `seconds`.
pub(crate) fn start_each(role: &str, size: usize, seconds: impl Fn(usize) -> String) -> Vec<Rank> {
    comm_testing::watchdog();
    // Rank 0 takes over the listener, so no other process has the port in between.
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = listener.local_addr().unwrap().port().to_string();
    let mut listener = Some(OwnedFd::from(listener));
    let program = std::env::current_exe().unwrap();
    let start = |rank: usize| {
        let mut command = Command::new(&program);
        if let Some(listener) = listener.take() {
            command.stdin(listener);
        }
        let mut child = command
            .args(["--exact", "one_rank", "--nocapture", "--test-threads", "1"])
            .env(ROLE, role)
            .env("COBRE_TCP_COORDINATOR", "127.0.0.1")
            .env("COBRE_TCP_PORT", &port)
            .env("COBRE_TCP_RANK", rank.to_string())
            .env("COBRE_TCP_SIZE", size.to_string())
            .env("COBRE_TCP_SECRET", "between processes")
            .env("COBRE_TCP_TIMEOUT_SECS", seconds(rank))
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Rank { child, lines }
    };
    (0..size).map(start).collect()
}

/// Returns the role of this process, if it is a rank; a rank ends itself after `limit`.
pub(crate) fn role(limit: Duration) -> Option<String> {
    let role = std::env::var(ROLE).ok()?;
    std::thread::spawn(move || {
        std::thread::sleep(limit);
        std::process::exit(3);
    });
    Some(role)
}

/// Returns how this rank connects.
pub(crate) fn config() -> TcpConfig {
    let mut config = TcpConfig::from_env().unwrap();
    if config.rank == 0 {
        // The standard input is the listener.
        let listener = fcntl_dupfd_cloexec(std::io::stdin(), 3).unwrap();
        config.listen_fd = Some(listener.into_raw_fd());
    }
    config
}

/// Prints something for the test that started this rank.
pub(crate) fn say(word: &str, rest: impl std::fmt::Display) {
    println!("@{word} {rest}");
}
