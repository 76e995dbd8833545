//! Environments that lack something: a rank works without it, or reports the problem and what to do.
#![cfg(target_os = "linux")]
#![allow(unsafe_code, reason = "limits have no safe interface")]
#![allow(clippy::unwrap_used, reason = "a test fails where it is wrong")]

mod common;

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use comm_api::{CommunicatorExt, ReduceOp};
use comm_shm::{ShmBackend, ShmConfig};
use common::namespace::{is_forbidden, unshare};
use common::{Outcome, finish, fresh_name, role, say};

/// The rank ends long before its timeout if it knows that there is nothing to wait for.
const LIMIT_MS: &str = "20000";
const AT_ONCE: Duration = Duration::from_secs(10);

/// Starts one rank of two under a shell script that prepares its environment, in a namespace created by
/// `unshare`.
fn start(test: &str, name: &str, rank: usize, unshare: &str, script: &str) -> Child {
    Command::new("sh")
        .args(["-c", &format!("exec {unshare} sh -c \"$0\" \"$@\"")])
        .arg(format!("{script}; exec \"$0\" \"$@\""))
        .arg(std::env::current_exe().unwrap())
        .args([test, "--exact", "--nocapture", "--test-threads=1"])
        .env("COMM_SHM_TEST_ROLE", test)
        .env("COBRE_SHM_NAME", name)
        .env("COBRE_SHM_RANK", rank.to_string())
        .env("COBRE_SHM_SIZE", "2")
        .env("COBRE_SHM_CONNECT_TIMEOUT_MS", LIMIT_MS)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Returns the output of a rank, or `None` if this user may not do what the script does.
fn said(rank: usize, child: Child) -> Option<String> {
    let Outcome {
        status,
        said,
        output,
        ..
    } = finish(rank, child);
    if is_forbidden(status, &output) {
        return None;
    }
    assert!(status.success(), "{status}: {output}");
    Some(said.join("\n"))
}

/// Runs one rank of two that cannot start, and fails at once.
fn told(test: &str, rank: usize, script: &str) -> Option<String> {
    let unshare = unshare("--mount")?;
    let since = Instant::now();
    let said = said(rank, start(test, &fresh_name(), rank, &unshare, script));
    assert!(since.elapsed() < AT_ONCE, "{:?}", since.elapsed());
    said
}

/// Every rank finds the problem by itself, at once.
fn each_is_told(test: &str, script: &str, words: &[&str]) {
    if let Some(config) = role(test) {
        let error = ShmBackend::attach(config).expect_err("it cannot");
        return say(error);
    }
    for rank in [0, 1] {
        let Some(said) = told(test, rank, script) else {
            return;
        };
        for word in words {
            assert!(said.contains(word), "no {word:?} in: {said}");
        }
    }
}

#[test]
fn no_shared_memory() {
    each_is_told(
        "no_shared_memory",
        "mount -t tmpfs tmpfs /dev || exit 77",
        &["/dev/shm does not exist", "mount a tmpfs", "tcp"],
    );
}

#[test]
fn shared_memory_that_cannot_be_written() {
    each_is_told(
        "shared_memory_that_cannot_be_written",
        "mount -t tmpfs -o ro tmpfs /dev/shm || exit 77",
        &["/dev/shm is read-only", "mount", "tcp"],
    );
}

#[test]
fn shared_memory_that_is_a_file() {
    each_is_told(
        "shared_memory_that_is_a_file",
        "mount -t tmpfs tmpfs /dev && touch /dev/shm || exit 77",
        &["/dev/shm is not a folder", "mount a tmpfs", "tcp"],
    );
}

/// As another user than the owner of the folder.
#[test]
fn shared_memory_of_somebody_else() {
    each_is_told(
        "shared_memory_of_somebody_else",
        "mount -t tmpfs -o mode=755 tmpfs /dev/shm || exit 77; \
         set -- setpriv --reuid 65534 --clear-groups \"$0\" \"$@\"; \
         setpriv --reuid 65534 --clear-groups \"$0\" --list >/dev/null || exit 77; exec \"$@\"",
        &["/dev/shm", "user 65534 may not write", "1777", "tcp"],
    );
}

/// Only that user may remove the file, because all users share the folder.
#[rstest::rstest]
#[case::segment("touch")]
#[case::folder("mkdir")]
fn a_name_of_somebody_else(#[case] make: &str) {
    let test = std::thread::current().name().unwrap().to_owned();
    let script = format!(
        "mount -t tmpfs -o mode=1777 tmpfs /dev/shm || exit 77; \
         {make} /dev/shm/$COBRE_SHM_NAME; chmod 600 /dev/shm/$COBRE_SHM_NAME; \
         set -- setpriv --reuid 65534 --clear-groups \"$0\" \"$@\"; \
         setpriv --reuid 65534 --clear-groups \"$0\" --list >/dev/null || exit 77; exec \"$@\""
    );
    let words = [
        "belongs to user 0, this is user 65534",
        "give the job another name, or have that user remove it",
    ];
    each_is_told(&test, &script, &words);
}

/// There are free bytes: more of them would not help.
#[test]
fn no_inode_left() {
    let test = "no_inode_left";
    if let Some(config) = role(test) {
        let error = ShmBackend::attach(config).expect_err("it cannot");
        return say(error);
    }
    let script = "mount -t tmpfs -o nr_inodes=2 tmpfs /dev/shm && touch /dev/shm/last || exit 77";
    if let Some(said) = told(test, 0, script) {
        assert!(
            said.contains("remove files") && said.contains("nr_inodes"),
            "{said}"
        );
        assert!(!said.contains("size"), "{said}");
    }
}

/// Opening a leased file for writing asks its holder to give up the lease.
#[test]
fn a_leased_file() {
    let name = fresh_name();
    let path = std::path::Path::new("/dev/shm").join(&name);
    std::fs::write(&path, "mine").unwrap();
    let file = std::fs::File::open(&path).unwrap();
    let descriptor = std::os::fd::AsRawFd::as_raw_fd(&file);
    // That request is a signal, which would end this process.
    // SAFETY: installs no handler.
    unsafe { libc::signal(libc::SIGIO, libc::SIG_IGN) };
    // SAFETY: passes numbers.
    let leased = unsafe { libc::fcntl(descriptor, libc::F_SETLEASE, libc::F_RDLCK) };
    assert_eq!(leased, 0, "{}", std::io::Error::last_os_error());
    let errors = [0, 1].map(|rank| ShmBackend::attach(ShmConfig::new(&name, rank, 2)).unwrap_err());
    std::fs::remove_file(&path).unwrap();
    for error in errors {
        assert!(error.message.contains("is leased"), "{error}");
        assert!(error.message.contains("another name"), "{error}");
    }
}

#[test]
fn no_descriptor_left() {
    let test = "no_descriptor_left";
    if let Some(config) = role(test) {
        // The next descriptor would have the number of the limit.
        let next = std::fs::File::open("/dev/null").unwrap();
        let most = std::os::fd::AsRawFd::as_raw_fd(&next)
            .cast_unsigned()
            .into();
        drop(next);
        let limit = libc::rlimit {
            rlim_cur: most,
            rlim_max: most,
        };
        // SAFETY: reads the limit it is given.
        let set = unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) };
        assert_eq!(set, 0);
        let error = ShmBackend::attach(config).expect_err("it cannot");
        return say(error);
    }
    for rank in [0, 1] {
        let Some(said) = told(test, rank, "true") else {
            return;
        };
        assert!(said.contains("ulimit -n"), "{said}");
        assert!(!said.contains("another name"), "{said}");
    }
}

/// Without `/proc`, a file without a name cannot be linked: it has a temporary name for a while.
#[test]
fn without_proc_a_job_starts_and_leaves_nothing() {
    let test = "without_proc_a_job_starts_and_leaves_nothing";
    if let Some(config) = role(test) {
        let comm = ShmBackend::attach(config).unwrap();
        assert_eq!(comm.allreduce_scalar(1, ReduceOp::Sum).unwrap(), 2);
        return say("done");
    }
    let Some(unshare) = unshare("--mount") else {
        return;
    };
    let name = fresh_name();
    let script = "mount -t tmpfs tmpfs /proc || exit 77";
    let ranks = [0, 1].map(|rank| start(test, &name, rank, &unshare, script));
    let mut tested = true;
    for (rank, child) in ranks.into_iter().enumerate() {
        let said = said(rank, child);
        tested &= said.is_some();
        assert!(said.is_none_or(|said| said == "done"));
    }
    let entries = std::fs::read_dir("/dev/shm").unwrap().flatten();
    let left = entries.map(|entry| entry.file_name().into_string().unwrap());
    let left: Vec<String> = left.filter(|found| found.starts_with(&name)).collect();
    assert!(!tested || left.is_empty(), "{left:?}");
}
