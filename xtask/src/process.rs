//! Starts other programs, always from the root of the workspace.

use std::cell::{Cell, OnceCell};
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::param::clock_ticks_per_second;
use rustix::process::{Pid, WaitId, WaitIdOptions, setpriority_process, waitid};
use tempfile::NamedTempFile;

use crate::report::Outcome;

mod mark;

use mark::Mark;

/// Returns the directory that holds the workspace's `Cargo.toml`.
pub(crate) fn workspace_root() -> PathBuf {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    package.parent().unwrap_or(package).to_path_buf()
}

/// Prepares `program` with `arguments` and without input.
pub(crate) fn command(program: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(program);
    command
        .args(arguments)
        .current_dir(workspace_root())
        .stdin(Stdio::null());
    command
}

/// Prepares the cargo that started this program.
pub(crate) fn cargo(arguments: &[&str]) -> Command {
    let program = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    command(&program, arguments)
}

/// Lets a build share the compiled crates in `target`, and keep its programs in a separate folder, [`programs`]: a concurrent build of the
/// same program with other features would overwrite them.
pub(crate) fn apart(build: &mut Command, target: &Path, name: &str) {
    build.env("CARGO_BUILD_BUILD_DIR", target);
    build.arg("--target-dir").arg(programs(target, name));
}

/// Returns the folder of the programs of a build that keeps them [`apart`].
pub(crate) fn programs(target: &Path, name: &str) -> PathBuf {
    target.join("programs").join(name)
}

/// Prepares cargo so that ranks wait as on systems other than Linux. Only the packages of the workspace are built again, in addition to
/// their other builds.
pub(crate) fn with_portable_wait(arguments: &[&str]) -> Command {
    let mut command = cargo(arguments);
    command.env(
        "RUSTC_WORKSPACE_WRAPPER",
        workspace_root().join("xtask/portable-wait"),
    );
    command
}

/// Runs to the end with the output on this terminal; anything but success is a failure.
pub(crate) fn run(command: &mut Command) -> Outcome {
    Terminal::default().run(command)
}

/// Runs programs with their output on this terminal, or in the background with their output in a file.
#[derive(Debug, Default)]
pub(crate) struct Terminal {
    log: Option<File>,
    low_priority: bool,
    /// The processor time of the programs.
    processors: Cell<Duration>,
    /// The file in which tests record that they did not run.
    not_run: OnceCell<NamedTempFile>,
    /// How long a program may take; if set, it must also leave nothing behind.
    limit: Cell<Option<Duration>>,
}

/// The variable with the path of that file, see `comm_testing::not_run`.
const NOT_RUN: &str = "COMM_NOT_RUN";

impl Terminal {
    /// Keeps the output until [`Terminal::output`] returns it. The programs run with a low priority, so that they use only free processors.
    pub(crate) fn beside(low_priority: bool) -> io::Result<Self> {
        let log = Some(tempfile::tempfile()?);
        Ok(Self {
            log,
            low_priority,
            ..Self::default()
        })
    }

    /// From now on, ends programs that take longer than this, and processes that they leave behind; both are failures.
    pub(crate) fn bound(&self, limit: Duration) {
        self.limit.set(Some(limit));
    }

    /// Collects the tests that do not run, for [`Terminal::not_run`].
    pub(crate) fn collect(&self) -> io::Result<()> {
        let file = NamedTempFile::new()?;
        // Already set: keep what was collected.
        let _ = self.not_run.set(file);
        Ok(())
    }

    /// Returns a line for each test that did not run, with its reason.
    pub(crate) fn not_run(&self) -> Vec<String> {
        let Some(file) = self.not_run.get() else {
            return Vec::new();
        };
        match fs::read_to_string(file.path()) {
            Ok(text) => text.lines().map(str::to_owned).collect(),
            Err(error) => vec![format!("the tests that did not run are unknown: {error}")],
        }
    }

    /// Runs to the end; anything but success is a failure.
    pub(crate) fn run(&self, command: &mut Command) -> Outcome {
        let program = command.get_program().display().to_string();
        let ended = match self.limit.get() {
            Some(limit) => self.run_bounded(command, limit),
            None => self.start(command).and_then(|child| self.wait_for(child)),
        };
        match ended {
            Ok(outcome) => outcome,
            Err(error) => Outcome::Failed(format!("{program} could not be started: {error}")),
        }
    }

    fn run_bounded(&self, command: &mut Command, limit: Duration) -> io::Result<Outcome> {
        let mark = Mark::put_on(command);
        let mut child = self.start(command)?;
        let until = Instant::now() + limit;
        while is_running(&child) {
            if Instant::now() > until {
                self.list("ended, because it took too long", &mark.end());
                // On systems that do not show marks, ends only the program itself.
                child.kill()?;
                self.wait_for(child)?;
                let reason = format!("it took longer than {} s and was ended", limit.as_secs());
                return Ok(Outcome::Failed(reason));
            }
            thread::sleep(Duration::from_millis(20));
        }
        let outcome = self.wait_for(child)?;
        let left = mark.left_behind();
        self.list("ended, because it was left behind", &left);
        Ok(match (left.as_slice(), outcome) {
            ([first, ..], Outcome::Passed) => Outcome::Failed(format!(
                "{} processes were left behind: {first}",
                left.len()
            )),
            (_, outcome) => outcome,
        })
    }

    /// Shows a line for each process.
    fn list(&self, what: &str, lines: &[String]) {
        let mut log = self.log.as_ref();
        for line in lines {
            let line = format!("{what}: {line}\n");
            // If this cannot be written, the outcome still tells the first process.
            let _ = match &mut log {
                Some(log) => log.write_all(line.as_bytes()),
                None => io::stdout().write_all(line.as_bytes()),
            };
        }
    }

    /// Runs the commands one after another, continues after a failure, and names the failed ones.
    pub(crate) fn run_all(&self, commands: Vec<Command>) -> Outcome {
        let mut failed = Vec::new();
        for mut command in commands {
            if self.run(&mut command) != Outcome::Passed {
                failed.push(shown(&command));
            }
        }
        match failed[..] {
            [] => Outcome::Passed,
            _ => Outcome::Failed(failed.join("; ")),
        }
    }

    fn start(&self, command: &mut Command) -> io::Result<Child> {
        if let Some(log) = &self.log {
            command.stdout(log.try_clone()?).stderr(log.try_clone()?);
        }
        if let Some(file) = self.not_run.get() {
            command.env(NOT_RUN, file.path());
        }
        let child = command.spawn()?;
        if self.low_priority {
            // Without a lower priority the programs still run, but disturb others.
            let _ = setpriority_process(Some(Pid::from_child(&child)), LOWEST);
        }
        Ok(child)
    }

    fn wait_for(&self, mut child: Child) -> io::Result<Outcome> {
        let used = ended(&child).and_then(|()| processors(&child));
        self.processors
            .set(self.processors() + used.unwrap_or_default());
        let status = child.wait()?;
        Ok(if status.success() {
            Outcome::Passed
        } else {
            Outcome::Failed(status.to_string())
        })
    }

    /// Returns the processor time of the programs and of the processes that they started and waited for, if the system counts it.
    pub(crate) fn processors(&self) -> Duration {
        self.processors.get()
    }

    /// Returns the output of the programs; empty if it went to the terminal.
    pub(crate) fn output(self) -> String {
        let mut bytes = Vec::new();
        if let Some(mut log) = self.log {
            let read = log
                .seek(SeekFrom::Start(0))
                .and_then(|_| log.read_to_end(&mut bytes));
            if let Err(error) = read {
                return format!("its output is lost: {error}\n");
            }
        }
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

/// Returns whether a program is still running. If the system does not report that, returns false, and the caller's wait finds out.
fn is_running(child: &Child) -> bool {
    let look = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
    matches!(
        waitid(WaitId::Pid(Pid::from_child(child)), look),
        Ok(None) | Err(rustix::io::Errno::INTR)
    )
}

/// Waits for the end of a program without reaping it, so that its times can still be read.
fn ended(child: &Child) -> Option<()> {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
    loop {
        match waitid(WaitId::Pid(Pid::from_child(child)), options) {
            Ok(_) => return Some(()),
            Err(rustix::io::Errno::INTR) => {}
            Err(_) => return None,
        }
    }
}

/// Reads the processor time of a program and of those that it waited for.
fn processors(child: &Child) -> Option<Duration> {
    let stat = fs::read_to_string(format!("/proc/{}/stat", child.id())).ok()?;
    // The name of the program is in parentheses and may contain any characters.
    let (_, numbers) = stat.rsplit_once(") ")?;
    let times = numbers.split_ascii_whitespace().skip(11).take(4);
    let ticks: u64 = times.map_while(|ticks| ticks.parse::<u64>().ok()).sum();
    let ticks = u32::try_from(ticks).ok()?;
    let second = u32::try_from(clock_ticks_per_second()).ok()?;
    Some(Duration::from_secs(ticks.into()) / second)
}

/// The lowest priority.
const LOWEST: i32 = 19;

/// Runs without showing the output; returns whether the program exists and succeeded.
pub(crate) fn succeeds(program: &str, arguments: &[&str]) -> bool {
    command(program, arguments)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

/// Copies a directory without unwanted paths. Keeps the times of files: for cargo a file that is older than the result of its compilation
/// has not changed.
pub(crate) fn copy_tree(from: &Path, to: &Path, wanted: &dyn Fn(&Path) -> bool) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (path, copy, kind) = (entry.path(), to.join(entry.file_name()), entry.file_type()?);
        if !wanted(&path) {
            continue;
        }
        if kind.is_dir() {
            copy_tree(&path, &copy, wanted)?;
        } else if kind.is_file() {
            fs::copy(&path, &copy)?;
            let written = File::options().append(true).open(&copy)?;
            written.set_modified(entry.metadata()?.modified()?)?;
        }
    }
    Ok(())
}

/// Formats a command as a person would type it.
pub(crate) fn shown(command: &Command) -> String {
    let program = Path::new(command.get_program())
        .file_name()
        .unwrap_or(command.get_program());
    let words = std::iter::once(program).chain(command.get_args());
    words
        .map(|word| word.to_string_lossy())
        .collect::<Vec<_>>()
        .join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_holds_the_workspace_manifest() {
        let manifest = std::fs::read_to_string(workspace_root().join("Cargo.toml")).unwrap();
        assert!(manifest.contains("[workspace]"));
    }

    #[test]
    fn a_program_that_cannot_start_fails() {
        let Outcome::Failed(reason) = run(&mut command("no-such-program", &[])) else {
            panic!("it passed")
        };
        assert!(
            reason.starts_with("no-such-program could not be started"),
            "{reason}"
        );
    }

    #[test]
    fn an_exit_code_other_than_zero_fails() {
        let mut unknown = cargo(&["no-such-command"]);
        assert!(matches!(
            run(unknown.stderr(Stdio::null())),
            Outcome::Failed(_)
        ));
    }

    #[test]
    fn what_runs_beside_has_a_low_priority_keeps_its_output_and_goes_on_after_a_failure() {
        let lowered = "until [ $(nice) = 19 ]; do sleep 0.01; done; echo one; exit 3";
        let script = |text| command("sh", &["-c", text]);
        let beside = Terminal::beside(true).unwrap();
        let outcome = beside.run_all(vec![script(lowered), script("echo two >&2")]);
        assert_eq!(outcome, Outcome::Failed(format!("sh -c {lowered}")));
        assert_eq!(beside.output(), "one\ntwo\n");
    }

    #[test]
    fn what_a_program_used_of_the_processors_is_counted_with_what_it_started() {
        let beside = Terminal::beside(false).unwrap();
        let work = "i=0; while [ $i -lt 400000 ]; do i=$((i+1)); done";
        let outcome = beside.run(&mut command("sh", &["-c", &format!("sh -c '{work}'; :")]));
        assert_eq!(outcome, Outcome::Passed);
        let used = beside.processors();
        let plausible = Duration::from_millis(20)..Duration::from_secs(100);
        assert!(plausible.contains(&used), "{used:?}");
    }

    #[test]
    fn what_tests_say_did_not_run_is_collected() {
        let terminal = Terminal::default();
        terminal.collect().unwrap();
        assert_eq!(terminal.not_run(), Vec::<String>::new());
        let script = |text| command("sh", &["-c", text]);
        let says = |word| format!("echo {word}: because >>\"$COMM_NOT_RUN\"");
        terminal.run_all(vec![script(&says("one")), script(&says("two"))]);
        assert_eq!(terminal.not_run(), ["one: because", "two: because"]);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn what_takes_too_long_or_leaves_something_behind_fails_and_is_shown() {
        let outcome = |script: &str, limit| {
            let beside = Terminal::beside(false).unwrap();
            beside.bound(limit);
            let outcome = beside.run(&mut command("sh", &["-c", script]));
            (outcome, beside.output())
        };
        let (ample, short) = (Duration::from_mins(2), Duration::from_millis(200));
        let failed = |reason: &str| Outcome::Failed(reason.to_owned());
        assert_eq!(outcome("echo up", ample).0, Outcome::Passed);
        assert_eq!(outcome("exit 3", ample).0, failed("exit status: 3"));
        let (slow, shown) = outcome("setsid sleep 999 & exec sleep 998", short);
        assert_eq!(slow, failed("it took longer than 0 s and was ended"));
        for sleep in ["sleep 998", "sleep 999"] {
            assert!(shown.contains(sleep), "{shown}");
        }
        let (untidy, shown) = outcome("setsid sleep 997 & :", ample);
        let Outcome::Failed(reason) = untidy else {
            panic!("it passed: {shown}")
        };
        assert!(
            reason.starts_with("1 processes were left behind: "),
            "{reason}"
        );
        assert!(shown.contains("left behind: "), "{shown}");
    }

    #[test]
    fn copies_keep_their_times_and_leave_out_what_is_not_wanted() {
        let scratch = tempfile::tempdir().unwrap();
        let (from, to) = (scratch.path().join("from"), scratch.path().join("to"));
        fs::create_dir_all(from.join("inner")).unwrap();
        fs::write(from.join("inner/kept"), "text").unwrap();
        fs::write(from.join("inner/other"), "").unwrap();
        let kept = File::options()
            .append(true)
            .open(from.join("inner/kept"))
            .unwrap();
        kept.set_modified(std::time::UNIX_EPOCH).unwrap();
        copy_tree(&from, &to, &|path| !path.ends_with("other")).unwrap();
        assert_eq!(fs::read_to_string(to.join("inner/kept")).unwrap(), "text");
        let time = fs::metadata(to.join("inner/kept")).unwrap().modified();
        assert_eq!(time.unwrap(), std::time::UNIX_EPOCH);
        assert!(!to.join("inner/other").exists());
    }

    #[test]
    fn commands_are_shown_without_the_directory_of_the_program() {
        assert_eq!(
            shown(&command("/usr/bin/cargo", &["fmt", "--all"])),
            "cargo fmt --all"
        );
    }
}
