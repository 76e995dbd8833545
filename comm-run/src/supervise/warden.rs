//! The warden: a small shell that kills the ranks' process groups, and removes the name of their segment, when the
//! starter dies without cleaning up.
//!
//! A starter killed by `SIGKILL` cannot clean up. On Linux the parent-death signal ends its ranks,
//! but not what the ranks started, and other systems have no such signal. So the warden waits at the
//! other end of a pipe. The ranks write their group into it before they become the program (see
//! `Start::spawn`); the starter takes a group off the list once it has ended it. End of file means the
//! starter is gone: whatever is still on the list is killed. What was killed may still be inside a
//! system call that creates the name, so that is removed once all of it is gone.
//!
//! The list holds only groups whose leader the starter had not reaped, so a number on it can be a
//! stranger's only if the system hands it out anew in the milliseconds after the starter's death.
//!
//! Every end of the pipe is close-on-exec, so no rank holds it open and the warden sees the end at
//! once.

use std::io::{self, PipeWriter, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use comm_kit::segments;
use rustix::process::Pid;

/// Ignores every signal that a terminal or a supervisor sends to a whole job, because it must outlive
/// the starter by a moment. Waits about a second at most for what it killed; zombies have ended, and may stay
/// for long where nobody reaps orphans. One whose other threads still run has not.
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
    /// Starts a warden that removes `segment` and the names beside it, or none where there is no
    /// shell: a bare container still has the parent-death signal.
    pub(crate) fn start(segment: &Path) -> io::Result<Option<Self>> {
        let (read, write) = io::pipe()?;
        let mut command = Command::new("/bin/sh");
        command.args(["-c", SCRIPT, "comm-run-warden"]).arg(segment);
        // Out of the starter's group, so that a signal to the group leaves it; its output closed,
        // so that it holds nobody's pipe.
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

    /// Returns the process of the shell.
    pub(super) fn pid(&self) -> Pid {
        Pid::from_child(&self.shell)
    }

    /// Takes a group off the list. Call it when the group is killed and before its leader is
    /// reaped: from then on the number may belong to a stranger.
    pub(super) fn forget(&self, group: Pid) {
        // A warden that is gone has nothing to forget.
        let _ = writeln!(&*self.pipe, "forget {}", group.as_raw_nonzero());
    }

    /// Ends the warden before it acts: the groups are gone.
    pub(super) fn dismiss(mut self) {
        // Neither can fail for a child that is not reaped.
        let _ = self.shell.kill();
        let _ = self.shell.wait();
    }
}

/// Writes `watch <pid>\n` into `line` and returns the used part. Allocates nothing: runs between
/// fork and exec.
pub(crate) fn enlistment(pid: Pid, line: &mut [u8; 32]) -> &[u8] {
    let size = line.len();
    let mut free = &mut line[..];
    // Cannot fail: there is room for every process id.
    let _ = writeln!(free, "watch {}", pid.as_raw_nonzero());
    let used = size - free.len();
    &line[..used]
}

/// The names that the ranks of one job may leave in shared memory: `name`, and `name.` with something behind.
///
/// The ranks remove the name once all have come. Ranks that are ended before that, all at once, leave it, and with it a megabyte of
/// memory per rank. Nobody else can have the name, since it is new and cannot be guessed, so it is removed without a look at who
/// holds it.
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

    /// Removes what is left, once no rank can create it again.
    pub(super) fn remove(&self) {
        // A name that is not there is as it should be; one that cannot be removed would not be
        // removed by a second try either.
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
