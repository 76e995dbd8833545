//! Faults of this backend only: forks, executed programs, lack of memory, and the cost of waiting.
#![allow(unsafe_code, reason = "fork has no safe interface")]
#![allow(clippy::unwrap_used, reason = "a test fails where it is wrong")]

mod common;

use std::os::unix::process::CommandExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::Command;
use std::time::{Duration, Instant};

use comm_api::{
    CommError, Communicator, CommunicatorExt, FailureKind, ReduceOp, SharedMemoryProvider,
    SharedRegion,
};
use comm_shm::{ShmBackend, ShmConfig};
use common::markers::{Folder, wait_for};
use common::namespace::{is_forbidden, unshare};
use common::{Outcome, finish, fresh_name, job, kill_self, launch, role, say, start};

fn blame(error: &CommError) -> (FailureKind, Option<usize>) {
    match error {
        CommError::CollectiveFailed { kind, rank, .. } => (*kind, *rank),
        other => panic!("{other}"),
    }
}

/// A forked child can use nothing that it inherited, drops it without harm, and may attach anew.
#[test]
fn a_forked_child() {
    job("a_forked_child", &[2], |comm| {
        let mut region = comm.create_shared_region::<u64>(8).unwrap();
        let mut gathered = comm.create_gathered_region::<u64>(1).unwrap();
        gathered.as_mut_slice().fill(6);
        comm.barrier().unwrap();
        // SAFETY: the child only uses what belonged to this thread, and exits with `_exit`.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let invalid = |result| matches!(result, Err(CommError::InvalidCommunicator { .. }));
            let mut good = invalid(comm.barrier())
                && invalid(comm.allreduce(&[1], &mut [0], ReduceOp::Sum))
                && invalid(
                    comm.broadcast(&mut [1], 9)
                        .map_err(|_| CommError::invalid_communicator()),
                )
                && invalid(region.fence())
                && invalid(comm.exchange(&mut gathered))
                && invalid(comm.exchange(&mut region))
                && invalid(comm.create_gathered_region::<u8>(1).map(drop))
                && invalid(comm.split_local().map(|_| ()));
            drop(comm);
            drop((region, gathered));
            let single = ShmBackend::attach(ShmConfig::new(fresh_name(), 0, 1));
            good &= single.is_ok_and(|comm| comm.barrier().is_ok());
            // SAFETY: ends the child without running the exit handlers of its parent.
            unsafe { libc::_exit(i32::from(!good)) }
        }
        let mut status = 0;
        // SAFETY: our own child, and a place for its status.
        assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
        assert_eq!(status, 0, "the child was right");
        // The calls and drops of the child have harmed no rank.
        comm.barrier().unwrap();
        comm.exchange(&mut gathered).unwrap();
        assert_eq!(gathered.as_slice(), [6; 2]);
        if comm.is_leader() {
            region.as_mut_slice().fill(5);
        }
        region.fence().unwrap();
        assert_eq!(region.as_slice(), [5; 8]);
    });
}

/// A forked child cannot access an element of a region: it would share the parent's part, and write it while
/// the parent does.
#[test]
fn a_forked_child_reaches_no_element() {
    fn refused(access: impl FnOnce()) -> bool {
        let panic = catch_unwind(AssertUnwindSafe(access)).expect_err("the child is let in");
        let message = panic.downcast_ref::<String>();
        message.is_some_and(|message| message.contains("forked"))
    }
    job("a_forked_child_reaches_no_element", &[2], |comm| {
        let mut part = comm.create_partitioned_region::<usize>(8).unwrap();
        let mut table = comm.create_shared_region::<usize>(8).unwrap();
        if comm.is_leader() {
            table.as_mut_slice().fill(5);
        }
        table.fence().unwrap();
        // SAFETY: the child only uses what belonged to this thread, and exits with `_exit`.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let good = catch_unwind(AssertUnwindSafe(|| {
                refused(|| part.as_mut_slice().fill(9))
                    && refused(|| assert_eq!(table.as_slice(), [5; 8]))
            }));
            // SAFETY: ends the child without running the exit handlers of its parent.
            unsafe { libc::_exit(i32::from(!good.unwrap_or(false))) }
        }
        let mut status = 0;
        // SAFETY: our own child, and a place for its status.
        assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
        assert_eq!(status, 0, "the child was right");
        part.fence().unwrap();
        assert_eq!(part.as_slice(), [0; 16]);
        assert_eq!(table.as_slice(), [5; 8]);
    });
}

/// A rank that executes another program is alive and absent; its descriptors are closed. Where locks show
/// which ranks live, it is lost with them.
#[test]
fn an_executed_program() {
    let test = "an_executed_program";
    if let Some(mut config) = role(test) {
        config.timeout = Some(Duration::from_millis(500));
        let comm = ShmBackend::attach(config).unwrap();
        comm.barrier().unwrap();
        if comm.rank() == 1 {
            let leak = "echo leaked=$(ls -l /proc/$$/fd | grep -c cobre-test); sleep 1";
            panic!("{}", Command::new("sh").args(["-c", leak]).exec());
        }
        let start = Instant::now();
        let error = comm.barrier().unwrap_err();
        let kind = if cfg!(comm_portable_wait) {
            FailureKind::PeerLost
        } else {
            FailureKind::TimedOut
        };
        assert_eq!(blame(&error), (kind, Some(1)), "{error}");
        assert!(
            start.elapsed() < Duration::from_millis(900),
            "{:?}",
            start.elapsed()
        );
        say("done");
        return;
    }
    let outcomes = launch(test, 2, &[]);
    assert_eq!(outcomes[0].said, ["done"], "{}", outcomes[0].output);
    assert!(
        outcomes[1].output.contains("leaked=0"),
        "{}",
        outcomes[1].output
    );
}

/// Rank 2 refuses a call, then dies or leaves; rank 1 has not entered that call. Rank 0 has left it early and
/// is in the next call, which needs rank 1 and cannot have rank 2. Rank 0 gets the error at once, not when
/// rank 1 arrives or the timeout expires.
#[test]
fn the_death_of_who_refused_does_not_wait_for_the_late() {
    end_after_a_refusal(
        "the_death_of_who_refused_does_not_wait_for_the_late",
        |_| kill_self(),
    );
}

#[test]
fn the_departure_of_who_refused_does_not_wait_for_the_late() {
    // The process stays alive.
    end_after_a_refusal(
        "the_departure_of_who_refused_does_not_wait_for_the_late",
        drop,
    );
}

fn end_after_a_refusal(test: &str, end: fn(ShmBackend)) {
    if let Some(config) = role(test) {
        let comm = ShmBackend::attach(config).unwrap();
        comm.barrier().unwrap();
        let told = Folder::of_driver().join("told");
        match comm.rank() {
            0 => {
                let refused = comm.broadcast(&mut [0_u8], 0).unwrap_err();
                assert_eq!(blame(&refused), (FailureKind::Refused, Some(2)));
                let error = comm.barrier().unwrap_err();
                std::fs::write(told, "").unwrap();
                assert_eq!(blame(&error), (FailureKind::PeerLost, Some(2)), "{error}");
                say("done");
            }
            1 => wait_for(&told),
            _ => {
                comm.broadcast(&mut [0_u8], 9).unwrap_err();
                end(comm);
                wait_for(&told);
            }
        }
        return;
    }
    let folder = Folder::new();
    let outcomes = launch(test, 3, &[folder.variable()]);
    assert_eq!(outcomes[0].said, ["done"], "{}", outcomes[0].output);
}

/// Waiting for a late peer costs next to nothing.
#[test]
fn waiting_is_cheap() {
    let test = "waiting_is_cheap";
    if let Some(config) = role(test) {
        let comm = ShmBackend::attach(config).unwrap();
        comm.barrier().unwrap();
        if comm.rank() == 0 {
            let mut line = String::new();
            std::io::stdin().read_line(&mut line).unwrap();
        }
        let before = cpu_ticks();
        comm.barrier().unwrap();
        say(cpu_ticks() - before);
        return;
    }
    let name = fresh_name();
    let waiting = start(test, &name, 1, 2, &[]);
    let mut late = Command::new(std::env::current_exe().unwrap());
    late.args([test, "--exact", "--nocapture", "--test-threads=1"])
        .env("COMM_SHM_TEST_ROLE", test)
        .env("COBRE_SHM_NAME", &name)
        .env("COBRE_SHM_RANK", "0")
        .env("COBRE_SHM_SIZE", "2")
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped());
    let mut late = late.spawn().unwrap();
    std::thread::sleep(Duration::from_secs(5));
    drop(late.stdin.take());
    finish(0, late);
    let outcome = finish(1, waiting);
    let ticks: u64 = outcome.said[0].parse().unwrap();
    // A tick is 10 ms. Without wake-ups by the kernel, a rank looks up to 500 times a second.
    let limit = if cfg!(comm_portable_wait) { 40 } else { 10 };
    assert!(ticks < limit, "{ticks} ticks of processor time in 5 s");
}

fn cpu_ticks() -> u64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let rest = stat.rsplit(')').next().unwrap();
    let mut fields = rest.split_ascii_whitespace().skip(11);
    let mut next = || fields.next().unwrap().parse::<u64>().unwrap();
    next() + next()
}

/// An environment with little memory: a shell script that enters it and runs the rest of its arguments, or
/// exits with 77 if this user may not.
struct Narrow {
    /// The kinds of namespaces in which the script begins.
    namespaces: Option<&'static str>,
    script: String,
    /// The beginning of the line that every rank prints.
    said: &'static str,
}

/// A separate `/dev/shm` with this many mebibytes.
fn tiny_shm(mebibytes: u32, said: &'static str) -> Narrow {
    let script = format!(
        "sh -c 'mount -t tmpfs -o size={mebibytes}m tmpfs /dev/shm || exit 77; \
         exec \"$0\" \"$@\"' \"$0\" \"$@\""
    );
    Narrow {
        namespaces: Some("--mount"),
        script,
        said,
    }
}

/// A control group of 48 MiB, of either version; the script waits, so that it can remove the group.
fn tiny_group() -> Narrow {
    let group = fresh_name();
    let script = format!(
        "cd /sys/fs/cgroup/memory 2>/dev/null && limit=memory.limit_in_bytes || \
           {{ cd /sys/fs/cgroup && limit=memory.max; }} || exit 77\n\
         mkdir {group} || exit 77\n\
         if echo 48M >{group}/$limit && \
           (echo 0 >{group}/cgroup.procs && exec \"$0\" \"$@\")\n\
         then code=0; else code=$?; fi\n\
         rmdir {group} || exit 1; exit $code"
    );
    Narrow {
        namespaces: None,
        script,
        said: "region",
    }
}

/// Lack of memory is an error on every rank, never a signal: in a `/dev/shm` that is too small even for the
/// segment, and in a control group, whose limit the kernel enforces by killing.
#[rstest::rstest]
#[case::no_segment(tiny_shm(1, "attach"))]
#[case::no_region(tiny_shm(6, "region"))]
#[case::no_group(tiny_group())]
fn no_room(#[case] narrow: Narrow) {
    let test = std::thread::current().name().unwrap().to_owned();
    if let Some(config) = role(&test) {
        let comm = match ShmBackend::attach(config) {
            Ok(comm) => comm,
            Err(error) => return say(format!("attach: {error}")),
        };
        let error = comm.create_shared_region::<u8>(64 << 20).unwrap_err();
        assert!(
            matches!(error, CommError::AllocationFailed { requested_bytes, .. } if requested_bytes == 64 << 20)
        );
        say(format!("region: {error}"));
        // What fits still works, and the communicator stays usable.
        let mut small = comm.create_shared_region::<u8>(1 << 20).unwrap();
        small.fence().unwrap();
        assert_eq!(small.as_slice().len(), 1 << 20);
        assert_eq!(comm.allreduce_scalar(1, ReduceOp::Sum).unwrap(), 2);
        say("done");
        return;
    }
    let script = match narrow.namespaces.map(unshare) {
        None => narrow.script,
        Some(Some(unshare)) => format!("{unshare} {}", narrow.script),
        Some(None) => return,
    };
    let name = fresh_name();
    let two = "for rank in 0 1; do COBRE_SHM_RANK=$rank \"$0\" \"$@\" & pids=\"$pids $!\"; done\n\
               for pid in $pids; do wait $pid || exit 1; done; ls /dev/shm";
    let child = Command::new("sh")
        .args(["-c", &script, "sh", "-c", two])
        .arg(std::env::current_exe().unwrap())
        .args([&test, "--exact", "--nocapture", "--test-threads=1"])
        .env("COMM_SHM_TEST_ROLE", &test)
        .env("COBRE_SHM_NAME", &name)
        .env("COBRE_SHM_SIZE", "2")
        .env("COBRE_SHM_CONNECT_TIMEOUT_MS", "500")
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .expect("there is a shell");
    let Outcome {
        status,
        said,
        output,
        ..
    } = finish(0, child);
    if is_forbidden(status, &output) {
        return;
    }
    assert!(status.success(), "{status}: {output}");
    let lines = said.iter().filter(|line| line.starts_with(narrow.said));
    let lines: Vec<_> = lines.collect();
    assert_eq!(lines.len(), 2, "{output}");
    if narrow.said == "region" {
        assert!(
            lines.iter().all(|line| line.contains("available")),
            "{output}"
        );
    }
    // As a whole line: the names of other tests may begin with it.
    assert!(output.lines().all(|line| line != name), "{output}");
}
