//! The cost of a launcher while its ranks compute: the processor time of everything except the ranks.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::process::Stdio;
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::launcher::Launcher;

const RANKS: usize = 4;
const WATCHED: Duration = Duration::from_secs(5);
const PATIENCE: Duration = Duration::from_secs(10);

/// Returns the processor time, in milliseconds, that a launcher and its helpers use while the ranks sleep.
pub(crate) fn cost(launcher: &Launcher) -> io::Result<f64> {
    let mut command = launcher.command(RANKS, false, &["/bin/sleep", "6"]);
    let mut child = command.stdout(Stdio::null()).spawn()?;
    let until = Instant::now() + PATIENCE;
    while family(child.id()).1 < RANKS {
        if Instant::now() > until {
            child.kill()?;
            return Err(io::Error::other(format!("{}: no ranks", launcher.name)));
        }
        sleep(Duration::from_millis(5));
    }
    let helpers = family(child.id()).0;
    let before = spent(&helpers);
    sleep(WATCHED);
    let cost = spent(&helpers).saturating_sub(before).as_secs_f64() * 1e3;
    child.wait()?;
    Ok(cost)
}

/// Returns the launcher and the processes it started, without the ranks, and the number of ranks.
fn family(launcher: u32) -> (BTreeSet<u32>, usize) {
    let processes: Vec<_> = fs::read_dir("/proc")
        .into_iter()
        .flatten()
        .flatten()
        .collect();
    let mut parents: Vec<(u32, u32, bool)> = Vec::new();
    for process in processes {
        let pid = process
            .file_name()
            .to_str()
            .and_then(|name| name.parse().ok());
        let stat = fs::read_to_string(process.path().join("stat")).unwrap_or_default();
        // The parent is the second field after the name.
        let parent = stat
            .rsplit_once(") ")
            .and_then(|(_, rest)| rest.split(' ').nth(1)?.parse().ok());
        if let (Some(pid), Some(parent)) = (pid, parent) {
            parents.push((pid, parent, stat.contains("(sleep)")));
        }
    }
    let (mut helpers, mut ranks) = (BTreeSet::from([launcher]), BTreeSet::new());
    // Until there is no new generation.
    loop {
        let known = helpers.len();
        for &(pid, parent, is_rank) in &parents {
            if helpers.contains(&parent) {
                let kin = if is_rank { &mut ranks } else { &mut helpers };
                kin.insert(pid);
            }
        }
        if helpers.len() == known {
            return (helpers, ranks.len());
        }
    }
}

/// Returns the processor time of all threads of these processes.
fn spent(pids: &BTreeSet<u32>) -> Duration {
    let threads = pids.iter().flat_map(|pid| {
        fs::read_dir(format!("/proc/{pid}/task"))
            .into_iter()
            .flatten()
    });
    let nanoseconds = threads.flatten().filter_map(|thread| {
        let stat = fs::read_to_string(thread.path().join("schedstat")).ok()?;
        stat.split(' ').next()?.parse::<u64>().ok()
    });
    Duration::from_nanos(nanoseconds.sum())
}
