//! What a job leaves behind: its name is unique, so everything with that name belongs to it.

use std::fs;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

/// How long the processes of a job may outlive another launcher than ours. Milliseconds; this machine may be
/// busy.
const PATIENCE: Duration = Duration::from_secs(5);

/// Waits until the processes of a job have ended: after `MPI_Abort`, the launcher of MPICH returns a moment
/// before they have.
pub(crate) fn wait(name: &str) {
    let began = Instant::now();
    while !processes(name).is_empty() && began.elapsed() < PATIENCE {
        thread::sleep(Duration::from_millis(5));
    }
}

/// Lists the files, sockets and processes with the name of a job that has ended.
pub(crate) fn find(name: &str) -> Vec<String> {
    let left = |path: &PathBuf| format!("left behind: {}", path.display());
    let mut found: Vec<String> = files(name).iter().map(left).collect();
    found.extend(sockets(name));
    found.extend(processes(name));
    found
}

/// Removes the files with the name.
pub(crate) fn remove(name: &str) {
    for path in files(name) {
        // Another process removed it, which is as good.
        let _ = fs::remove_file(path);
    }
}

fn files(name: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir("/dev/shm").into_iter().flatten().flatten();
    entries
        .filter(|entry| entry.file_name().to_string_lossy().contains(name))
        .map(|entry| entry.path())
        .collect()
}

fn sockets(name: &str) -> Vec<String> {
    let table = fs::read_to_string("/proc/net/unix").unwrap_or_default();
    table
        .lines()
        .filter(|line| line.contains(name))
        .map(|line| format!("left behind: the socket {line}"))
        .collect()
}

/// Finds processes by their environment, which children inherit.
fn processes(name: &str) -> Vec<String> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries
        .filter(|entry| {
            let environment = fs::read(entry.path().join("environ")).unwrap_or_default();
            environment
                .windows(name.len())
                .any(|part| part == name.as_bytes())
        })
        .map(|entry| {
            let command = fs::read_to_string(entry.path().join("comm")).unwrap_or_default();
            let pid = entry.file_name();
            format!("left behind: process {} {}", pid.display(), command.trim())
        })
        .collect()
}
