//! The warden: a small shell that kills the ranks' process groups, and removes the name of their segment, when the
//! starter dies without cleaning up.
//!
//! A starter killed by `SIGKILL` cannot clean up. On Linux the parent-death signal ends its ranks,
//! but not the processes that the ranks started, and other systems have no such signal. So the warden reads from
//! a pipe. Each rank writes its group into the pipe before it executes the program (see
//! `Start::spawn`); the starter removes a group from the list once it has ended it. End of file means that the
//! starter is gone: the warden kills all groups that are still on the list. A killed process may still be inside a
//! system call that creates the name, so the warden removes the name only when all of them are gone.
//!
//! The list holds only groups whose leader the starter had not reaped, so a number on it can belong to another
//! process only if the system reuses it within the milliseconds after the starter's death.
//!
//! Every end of the pipe is close-on-exec, so no rank holds it open, and the warden sees the end of file
//! at once.

use std::io::{self, PipeWriter, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use comm_kit::segments;
use rustix::process::Pid;

/// Ignores every signal that a terminal or a supervisor sends to a whole job, because the warden must outlive
/// the starter by a moment. Waits about a second at most for the killed processes to end. A zombie has ended and may stay
/// for long if no process reaps orphans, but a zombie with other threads that still run has not ended.
const SCRIPT: &str = r#"
trap '' HUP INT QUIT TERM PIPE TSTP TTIN TTOU
groups=' '
while read -r verb group; do
  case $verb in
    watch) groups="$groups$group " ;;
    forget)
      case $groups in
        *" $group "*) groups="${groups%%" $group "*} ${groups#*" $group "}" ;;
      esac ;;
  esac
done
for group in $groups; do kill -s KILL -- "-$group"; done
PATH=$PATH:/usr/bin:/bin
alive() {
  for stat in /proc/[0-9]*/stat; do
    read -r line <"$stat" || continue
    set -- ${line##*) }
    case $groups in
      *" $3 "*) [ "$1" = Z ] && [ "${18}" -le 1 ] || return 0 ;;
    esac
  done
  return 1
}
tries=0
while [ $tries -lt 100 ] && alive; do
  sleep 0.01
  tries=$((tries + 1))
done
rm -f -- "$1" "$1".*
"#;

#[derive(Debug)]
pub(crate) struct Warden {
    shell: Child,
    pipe: Arc<PipeWriter>,
}

impl Warden {
    /// Starts a warden that removes `segment` and the names derived from it. Starts none if there is no
    /// shell: a minimal container still has the parent-death signal.
    pub(crate) fn start(segment: &Path) -> io::Result<Option<Self>> {
        let (read, write) = io::pipe()?;
        let mut command = Command::new("/bin/sh");
        command.args(["-c", SCRIPT, "comm-run-warden"]).arg(segment);
        // In its own group, so that a signal to the starter's group does not reach it; with its output closed,
        // so that it holds no pipe open.
        command
            .process_group(0)
            .stdin(read)
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        match command.spawn() {
            Ok(shell) => Ok(Some(Self {
                shell,
                pipe: Arc::new(write),
            })),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Returns the pipe into which a rank writes its [`enlistment`].
    pub(crate) fn pipe(&self) -> Arc<PipeWriter> {
        Arc::clone(&self.pipe)
    }

    /// Returns the process id of the shell.
    pub(super) fn pid(&self) -> Pid {
        Pid::from_child(&self.shell)
    }

    /// Removes a group from the list. Call it when the group is killed and before its leader is
    /// reaped: from then on the number may belong to another process.
    pub(super) fn forget(&self, group: Pid) {
        // If the warden is gone, it has nothing to forget.
        let _ = writeln!(&*self.pipe, "forget {}", group.as_raw_nonzero());
    }

    /// Ends the warden without letting it act, because the groups are gone.
    pub(super) fn dismiss(mut self) {
        // Neither can fail for a child that is not reaped.
        let _ = self.shell.kill();
        let _ = self.shell.wait();
    }
}

/// Writes `watch <pid>\n` into `line` and returns the used part. Does not allocate, because it runs between
/// fork and exec.
pub(crate) fn enlistment(pid: Pid, line: &mut [u8; 32]) -> &[u8] {
    let size = line.len();
    let mut free = &mut line[..];
    // Cannot fail: there is room for every process id.
    let _ = writeln!(free, "watch {}", pid.as_raw_nonzero());
    let used = size - free.len();
    &line[..used]
}

/// The names that the ranks of one job may leave in shared memory: `name`, and names that begin with `name.`.
///
/// The ranks remove the name when all of them have attached. If all ranks are ended before that, the name stays, and with it a
/// megabyte of memory per rank. No other job can have the name, because it is new and cannot be guessed, so it is removed without
/// a check for users.
#[derive(Debug)]
pub(crate) struct Segment {
    path: PathBuf,
}

impl Segment {
    pub(crate) fn new(name: &str) -> Self {
        Self {
            path: segments::folder().join(name),
        }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Removes the names that are left, once no rank can create them again.
    pub(super) fn remove(&self) {
        // A missing name is the normal case, and if a name cannot be removed, a second attempt would fail,
        // too.
        let _ = std::fs::remove_file(&self.path);
        let (Some(folder), Some(name)) = (self.path.parent(), self.path.file_name()) else {
            return;
        };
        let is_beside = |found: &[u8]| {
            let rest = found.strip_prefix(name.as_encoded_bytes());
            rest.is_some_and(|rest| rest.starts_with(b"."))
        };
        let entries = std::fs::read_dir(folder).into_iter().flatten();
        for entry in entries.filter_map(Result::ok) {
            if is_beside(entry.file_name().as_encoded_bytes()) {
                let _ = std::fs::remove_file(entry.path());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::enlistment;
    use rustix::process::Pid;

    #[test]
    fn enlistment_spells_the_pid() {
        for pid in [1, 9, 10, 4242, i32::MAX] {
            let mut line = [0; 32];
            let written = enlistment(Pid::from_raw(pid).unwrap(), &mut line);
            assert_eq!(written, format!("watch {pid}\n").as_bytes());
        }
    }
}
