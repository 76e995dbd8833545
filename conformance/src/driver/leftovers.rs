//! What a job leaves behind: its name is unique, so whatever carries it is its own.

use std::fs;

/// Lists the files, sockets and processes that carry the name of a job that has ended.
pub(crate) fn find(name: &str) -> Vec<String> {
    let mut found = files("/dev/shm", name);
    found.extend(sockets(name));
    found.extend(processes(name));
    found
}

fn files(dir: &str, name: &str) -> Vec<String> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    entries
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .filter(|file| file.contains(name))
        .map(|file| format!("left behind: {dir}/{file}"))
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
