//! Finds and ends the processes that a command has started, in whatever group or session they are.

use std::fs;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};
use std::{env, thread};

use rustix::process::{Pid, Signal, kill_process};

/// The variable that every process of a command inherits.
const VARIABLE: &str = "COMM_XTASK_MARK";
/// How long processes may take to end by themselves, and to be gone after they are killed.
const GRACE: Duration = Duration::from_secs(10);

static NEXT: AtomicU32 = AtomicU32::new(0);

/// A word in the environment of a command and of all processes that it starts.
pub(super) struct Mark(String);

impl Mark {
    /// Puts a new mark on a command. The mark of this process, if it has one, stays a part of the new one, so that the process that set it
    /// also finds these processes.
    pub(super) fn put_on(command: &mut Command) -> Self {
        let outer = env::var(VARIABLE).unwrap_or_default();
        let (pid, number) = (std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let mark = format!("{outer}{pid}-{number}/");
        command.env(VARIABLE, &mark);
        Self(mark)
    }

    /// Waits for the processes that carry the mark to end; ends those that do not, and returns a line for each of them.
    pub(super) fn left_behind(&self) -> Vec<String> {
        let until = Instant::now() + GRACE;
        while !self.processes().is_empty() {
            if Instant::now() > until {
                return self.end();
            }
            thread::sleep(Duration::from_millis(20));
        }
        Vec::new()
    }

    /// Kills the processes that carry the mark, and those that they start meanwhile; returns a line for each that existed at first.
    pub(super) fn end(&self) -> Vec<String> {
        let found = self.processes();
        let lines = found.iter().map(|&pid| line(pid)).collect();
        let until = Instant::now() + GRACE;
        let mut left = found;
        while !left.is_empty() && Instant::now() < until {
            for &pid in &left {
                // The process may have ended by itself.
                let _ = kill_process(pid, Signal::KILL);
            }
            thread::sleep(Duration::from_millis(20));
            left = self.processes();
        }
        lines
    }

    /// Returns the living processes that carry the mark; a zombie has no environment. Empty if the system does not show environments.
    fn processes(&self) -> Vec<Pid> {
        let wanted = format!("{VARIABLE}={}", self.0);
        let carries = |pid: &Pid| {
            let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            let mut variables = environment.split(|&byte| byte == 0);
            variables.any(|variable| variable.starts_with(wanted.as_bytes()))
        };
        let entries = fs::read_dir("/proc").into_iter().flatten();
        entries
            .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
            .filter_map(Pid::from_raw)
            .filter(carries)
            .collect()
    }
}

/// Describes a process, for a person who needs to know what it is waiting for.
fn line(pid: Pid) -> String {
    let read = |file: &str| fs::read(format!("/proc/{pid}/{file}")).unwrap_or_default();
    let text = |file: &str| String::from_utf8_lossy(&read(file)).into_owned();
    let status = text("status");
    let field = |name: &str| {
        let found = status.lines().find_map(|line| line.strip_prefix(name));
        found.unwrap_or("?").trim().to_owned()
    };
    let command = text("cmdline").replace('\0', " ");
    let shown: String = command.trim_end().chars().take(200).collect();
    let (parent, state) = (field("PPid:"), field("State:"));
    let place = text("wchan");
    format!("{pid}, child of {parent}, {state}, in {place}: {shown}")
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::process::Stdio;

    use super::*;

    fn marked(script: &str) -> (Command, Mark) {
        let mut command = Command::new("setsid");
        command.args(["sh", "-c", script]).stdout(Stdio::piped());
        let mark = Mark::put_on(&mut command);
        (command, mark)
    }

    #[test]
    fn what_is_left_of_a_command_is_named_and_ended() {
        let (mut command, mark) = marked("setsid sleep 1000 >/dev/null & exec sleep 0.01");
        assert!(command.status().unwrap().success());
        let lines = mark.left_behind();
        assert_eq!(lines.len(), 1, "{lines:?}");
        assert!(lines[0].ends_with(": sleep 1000"), "{lines:?}");
        assert_eq!(mark.processes(), []);
    }

    #[test]
    fn nothing_is_left_of_a_command_that_ends_with_what_it_started() {
        let (mut command, mark) = marked("sleep 0.2 >/dev/null & :");
        assert!(command.status().unwrap().success());
        assert_eq!(mark.left_behind(), Vec::<String>::new());
    }

    #[test]
    fn a_command_that_goes_on_is_ended_with_all_that_it_starts() {
        let (mut command, mark) = marked("echo up; while :; do sleep 0.01; done");
        let mut child = command.spawn().unwrap();
        let mut up = [0];
        std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut up).unwrap();
        let lines = mark.end();
        let script = |line: &String| line.contains(": sh -c echo up");
        assert!(lines.iter().any(script), "{lines:?}");
        assert_eq!(mark.processes(), []);
        assert!(!child.wait().unwrap().success());
    }
}
