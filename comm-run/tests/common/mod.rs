//! Starts `comm-run` in tests, waits for it with deadlines, and finds leftovers.
#![allow(
    dead_code,
    unreachable_pub,
    reason = "every test file is a crate of its own and uses a part"
)]
#![allow(clippy::unwrap_used, reason = "a helper of tests may fail like a test")]

pub mod dice;
pub mod trial;

use std::fs;
use std::io::{BufRead, BufReader, Read, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::{Mode, OFlags, fcntl_getfl, fcntl_setfl, open};
use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

/// Everything a test waits for happens within this time, even on a busy machine.
pub const PATIENCE: Duration = Duration::from_mins(1);
/// The variables that set the number of jobs of a test.
pub const MORE_JOBS: &str = "COMM_RUN_TEST_JOBS";
pub const MORE_BLAME: &str = "COMM_RUN_TEST_BLAME";
/// Nothing of a job is left after this time. It takes milliseconds if a processor is free; the warden needs the processor, too.
pub const GONE: Duration = Duration::from_secs(20);

const MARK: &str = "COMM_RUN_TEST_MARK";
static NEXT: AtomicU32 = AtomicU32::new(0);

/// A running `comm-run` whose processes all carry a mark in their environment.
pub struct Starter {
    pub child: Child,
    mark: String,
    stdout: Receiver<String>,
    stderr: Receiver<String>,
}

/// The output of `comm-run`, and how it ended.
#[derive(Debug)]
pub struct Ended {
    pub status: ExitStatus,
    pub stdout: Vec<String>,
    pub stderr: Vec<String>,
}

impl Ended {
    pub fn code(&self) -> i32 {
        self.status
            .code()
            .unwrap_or_else(|| 1000 + self.status.signal().unwrap_or(0))
    }

    pub fn says(&self, text: &str) -> bool {
        self.stderr.iter().any(|line| line.contains(text))
    }
}

/// Returns a name that no other process on this machine carries. Only tests call this, so it also starts the watchdog of this
/// thread, or restarts it for the next job. Time to compile programs before that, also in other tests, does not count.
pub fn fresh_mark() -> String {
    comm_testing::watchdog();
    format!(
        "{}-{}",
        std::process::id(),
        NEXT.fetch_add(1, Ordering::Relaxed)
    )
}

/// Returns the number in a variable that makes a test run more jobs than usual.
pub fn asked_for(variable: &str) -> Option<u32> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().unwrap())
}

/// Builds `comm-run` with a mark; the caller may change it before it runs.
pub fn comm_run(args: &[&str], mark: &str) -> Command {
    let mut command = heedful(env!("CARGO_BIN_EXE_comm-run"), mark);
    command.args(args);
    command
}

/// Builds a shell that runs `script`, in which `comm-run` is `"$0"`.
pub fn comm_run_in_shell(script: &str, mark: &str) -> Command {
    let mut command = heedful("sh", mark);
    command.args(["-c", script, env!("CARGO_BIN_EXE_comm-run")]);
    command
}

/// Builds a program that handles signals even if the tests were started with these signals ignored, as by a shell with `&`
/// or `nohup`: `comm-run` keeps ignoring signals that were ignored when it started.
fn heedful(program: &str, mark: &str) -> Command {
    let mut command = Command::new("/usr/bin/env");
    command.args(["--default-signal", program]).env(MARK, mark);
    // Lines are compared without colours.
    command.env_remove("CLICOLOR_FORCE");
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

impl Starter {
    /// Starts `comm-run`.
    pub fn new(args: &[&str]) -> Self {
        let mark = fresh_mark();
        Self::of(comm_run(args, &mark), mark)
    }

    /// Starts `comm-run -n ranks -- sh -c script`.
    pub fn shell(ranks: usize, script: &str) -> Self {
        Self::new(&["-n", &ranks.to_string(), "--", "sh", "-c", script])
    }

    pub fn of(mut command: Command, mark: String) -> Self {
        let mut child = command.spawn().unwrap();
        let stdout = child.stdout.take().map_or_else(|| channel().1, lines);
        let stderr = child.stderr.take().map_or_else(|| channel().1, lines);
        Self {
            child,
            mark,
            stdout,
            stderr,
        }
    }

    /// Sends a signal to the starter.
    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Returns the next line of standard output.
    pub fn line(&self) -> String {
        self.stdout
            .recv_timeout(PATIENCE)
            .expect("a line of output")
    }

    /// Returns the next line of standard error.
    pub fn complaint(&self) -> String {
        self.stderr
            .recv_timeout(PATIENCE)
            .expect("a line of standard error")
    }

    /// Returns the next `count` lines of standard output.
    pub fn lines(&self, count: usize) -> Vec<String> {
        (0..count).map(|_| self.line()).collect()
    }

    /// Waits for the starter's end.
    pub fn wait(&mut self) -> ExitStatus {
        self.wait_within(PATIENCE)
    }

    /// Waits for the starter's end, at most this long.
    pub fn wait_within(&mut self, patience: Duration) -> ExitStatus {
        let until = Instant::now() + patience;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(
                Instant::now() < until,
                "comm-run did not end: {:?}",
                self.stderr.try_iter().collect::<Vec<_>>()
            );
            thread::sleep(Duration::from_millis(1));
        }
    }

    /// Waits for the starter's end, collects its output, and makes sure that nothing of the job is
    /// left.
    pub fn end(mut self) -> Ended {
        let status = self.wait();
        self.gone();
        let (stdout, stderr) = (self.stdout.iter().collect(), self.stderr.iter().collect());
        Ended {
            status,
            stdout,
            stderr,
        }
    }

    /// Returns how long it takes until no process of the job is left. Panics after [`GONE`].
    pub fn gone(&self) -> Duration {
        gone(&self.mark)
    }

    /// As [`gone`](Self::gone), but waits at most this long.
    pub fn gone_within(&self, patience: Duration) -> Duration {
        gone_within(&self.mark, patience)
    }
}

impl Drop for Starter {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn lines(from: impl Read + Send + 'static) -> Receiver<String> {
    let (sender, receiver) = channel();
    thread::spawn(move || {
        for line in BufReader::new(from).split(b'\n').map_while(Result::ok) {
            if sender
                .send(String::from_utf8_lossy(&line).into_owned())
                .is_err()
            {
                return;
            }
        }
    });
    receiver
}

/// Waits until no process carries the mark.
pub fn gone(mark: &str) -> Duration {
    gone_within(mark, GONE)
}

fn gone_within(mark: &str, patience: Duration) -> Duration {
    let since = Instant::now();
    loop {
        let left = marked(mark);
        if left.is_empty() {
            return since.elapsed();
        }
        assert!(since.elapsed() < patience, "left behind: {left:#?}");
        thread::sleep(Duration::from_millis(2));
    }
}

/// Returns the living processes that carry the mark, as `pid: command line`. A zombie has no
/// environment and is not found.
pub fn marked(mark: &str) -> Vec<String> {
    let wanted = format!("{MARK}={mark}");
    let processes = std::fs::read_dir("/proc").unwrap().filter_map(Result::ok);
    let carries = |pid: &str| {
        let environ = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environ
            .split(|&byte| byte == 0)
            .any(|variable| variable == wanted.as_bytes())
    };
    processes
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter(|name| name.bytes().all(|byte| byte.is_ascii_digit()) && carries(name))
        .map(|pid| {
            let command = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            format!(
                "{pid}: {}",
                String::from_utf8_lossy(&command).replace('\0', " ")
            )
        })
        .collect()
}

/// Kills the processes that carry the mark, and returns how many there were: the test must end the processes that left their
/// rank's group on purpose.
pub fn kill_marked(mark: &str) -> usize {
    let left = marked(mark);
    for process in &left {
        let pid = process.split(':').next().and_then(|pid| pid.parse().ok());
        // The process may have ended meanwhile.
        let _ = pid
            .and_then(Pid::from_raw)
            .map(|pid| kill_process(pid, Signal::KILL));
    }
    left.len()
}

/// Waits until `condition` holds.
pub fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let until = Instant::now() + PATIENCE;
    while !condition() {
        assert!(Instant::now() < until, "never happened: {what}");
        thread::sleep(Duration::from_millis(1));
    }
}

/// Returns whether a process exists and is no zombie.
pub fn alive(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // The state follows the name, which may hold any characters and ends with the last parenthesis.
    stat.rsplit_once(") ")
        .is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
}

/// A secret in a file that is removed on drop.
pub struct Key(PathBuf);

impl Key {
    pub fn new(content: &str, mode: u32) -> Self {
        let name = format!("comm-run-test-key-{}", fresh_mark());
        let path = std::env::temp_dir().join(name);
        fs::write(&path, content).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        Self(path)
    }

    pub fn path(&self) -> &str {
        self.0.to_str().unwrap()
    }
}

impl Drop for Key {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// Returns the options of one of two machines with two ranks each.
pub fn node<'a>(rank: &'a str, coordinator: &'a str, key: &'a str) -> Vec<&'a str> {
    let place = ["-n", "2", "--nnodes", "2", "--node-rank", rank];
    let meeting = ["--coordinator", coordinator, "--secret-file", key];
    [&place[..], &meeting].concat()
}

/// A folder that is removed on drop.
pub struct Folder(PathBuf);

impl Folder {
    pub fn new() -> Self {
        let path = std::env::temp_dir().join(format!("comm-run-test-{}", fresh_mark()));
        fs::create_dir(&path).unwrap();
        Self(path)
    }

    pub fn join(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Creates a named pipe. Its reader notices at once, without a timer, that the last writer has ended.
    pub fn fifo(&self, name: &str) -> PathBuf {
        let path = self.join(name);
        let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
        rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, mode, 0).unwrap();
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Returns the two ends of a terminal: the one that a person sees, and the one that the program writes to.
pub fn terminal() -> (fs::File, fs::File) {
    let screen = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&screen).unwrap();
    unlockpt(&screen).unwrap();
    let name = ptsname(&screen, Vec::new()).unwrap();
    let flags = OFlags::RDWR | OFlags::NOCTTY;
    let program = open(&name, flags, Mode::empty()).unwrap();
    (screen.into(), program.into())
}

/// Fills a pipe, so that the next write to it waits for a reader.
pub fn fill(pipe: impl Into<OwnedFd>) {
    let pipe = fs::File::from(pipe.into());
    let flags = fcntl_getfl(&pipe).unwrap();
    fcntl_setfl(&pipe, flags | OFlags::NONBLOCK).unwrap();
    for size in [1 << 16, 1] {
        while (&pipe).write(&vec![b'\n'; size]).is_ok() {}
    }
    fcntl_setfl(&pipe, flags).unwrap();
}
