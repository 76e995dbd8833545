//! Resources for ranks: shared memory, descriptors, processes.

use std::fs;
use std::path::Path;

use comm_kit::control_group::limits;
use comm_kit::segments::{folder, remove_stale};
use comm_run::Job;
use rustix::process::{Resource, getrlimit};

use super::{Finding, Level, bytes};

/// The prefix of the segment names that this project chooses.
const PREFIX: &str = "cobre-";
/// The prefixes of the files that killed jobs of MPICH 4, MPICH 5, Open MPI 4 and Open MPI 5 leave behind.
const PREFIXES_OF_MPI: [&str; 4] = [
    "mpich_shar_tmp",
    "mpich_shm_",
    "vader_segment.",
    "sm_segment.",
];
/// The shared memory of a container by default.
const USUAL_IN_CONTAINERS: u64 = 64 << 20;
/// With fewer, jobs of an ordinary size fail.
const FEW_FILES: u64 = 1024;
const FEW_PROCESSES: u64 = 256;
/// The descriptors that are open when the launcher begins.
const OPEN_FILES: u64 = 4;

/// Returns whether segments can be created at all.
pub(super) fn usable() -> bool {
    rustix::fs::access(folder(), rustix::fs::Access::WRITE_OK).is_ok()
}

pub(super) fn shared_memory() -> Finding {
    const WHAT: &str = "shared memory";
    let folder = folder();
    let shown = folder.display();
    let statistics = match rustix::fs::statvfs(&folder) {
        Ok(statistics) if usable() => statistics,
        Ok(_) => {
            let advice = "make it writable (mode 1777), or use --backend tcp";
            return Finding::warning(WHAT, format!("{shown} cannot be written"), advice);
        }
        Err(error) => {
            let advice = "mount a tmpfs there, or use --backend tcp";
            return Finding::warning(WHAT, format!("{shown}: {error}"), advice);
        }
    };
    let size = statistics.f_blocks.saturating_mul(statistics.f_frsize);
    let free = statistics.f_bavail.saturating_mul(statistics.f_frsize);
    let text = format!("{} in {shown}, {} free", bytes(size), bytes(free));
    if free < USUAL_IN_CONTAINERS || size <= USUAL_IN_CONTAINERS {
        let advice = "for large regions, free some or start the container with a larger --shm-size";
        return Finding::warning(WHAT, text, advice);
    }
    Finding::fine(WHAT, text)
}

/// Lists the segments with the launcher's prefix. A segment has a name only while its job starts.
pub(super) fn ours() -> Option<Finding> {
    let folder = folder();
    let mut names = names_in(&folder, &[PREFIX])?;
    if names.is_empty() {
        return Some(Finding::fine("segments", "none left over from a job"));
    }
    names.sort();
    let advice = format!(
        "they belong to jobs that are starting or were killed while starting; comm-run doctor --clean removes those of killed jobs; if no job is starting, remove any others with: cd {} && rm -- {}",
        folder.display(),
        names.join(" ")
    );
    Some(Finding::warning("segments", names.join(", "), advice))
}

/// Removes the segments of killed jobs; those of living jobs are locked.
pub(super) fn clean() -> Finding {
    let removed = remove_stale(&folder(), PREFIX);
    let text = if removed.is_empty() {
        "found no segment of a killed job".to_owned()
    } else {
        format!("removed {}", removed.join(", "))
    };
    Finding::fine("clean", text)
}

/// Lists the files that jobs of MPI libraries use in shared memory or have left there.
pub(super) fn of_mpi() -> Option<Finding> {
    judge_mpi(&folder())
}

fn judge_mpi(folder: &Path) -> Option<Finding> {
    let names = names_in(folder, &PREFIXES_OF_MPI)?;
    let first = names.iter().min()?;
    let size = |name: &String| fs::metadata(folder.join(name)).map_or(0, |found| found.len());
    let text = format!(
        "{} files, {} in total, for example {first}",
        names.len(),
        bytes(names.iter().map(size).sum())
    );
    let patterns = PREFIXES_OF_MPI.map(|prefix| format!("{prefix}*"));
    let advice = format!(
        "they belong to jobs that are running or were killed; if no MPI job is running, remove them with: cd {} && rm -f -- {}",
        folder.display(),
        patterns.join(" ")
    );
    Some(Finding::warning("segments of MPI", text, advice))
}

fn names_in(folder: &Path, prefixes: &[&str]) -> Option<Vec<String>> {
    let entries = fs::read_dir(folder).ok()?.filter_map(Result::ok);
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let begins = |name: &String| prefixes.iter().any(|prefix| name.starts_with(prefix));
    let names = names.filter(|name| begins(name) && !name.contains(char::is_whitespace));
    Some(names.collect())
}

pub(super) fn open_files() -> Finding {
    // A job raises the soft limit if necessary.
    judge_files(getrlimit(Resource::Nofile).maximum)
}

fn judge_files(hard: Option<u64>) -> Finding {
    const WHAT: &str = "open files";
    let Some(hard) = hard else {
        return Finding::fine(WHAT, "no limit");
    };
    // Two pipes per rank, and two files with --log-dir.
    let own = OPEN_FILES + Job::descriptors(0) as u64;
    let ranks = hard.saturating_sub(own) / 2;
    let text = format!(
        "hard limit {hard}, enough for {ranks} ranks, {} with --log-dir",
        ranks / 2
    );
    if hard >= FEW_FILES {
        return Finding::fine(WHAT, text);
    }
    let advice = "raise it as root (ulimit -Hn), or start the container with --ulimit nofile";
    let mut finding = Finding::warning(WHAT, text, advice);
    if ranks == 0 {
        finding.level = Level::Problem;
    }
    finding
}

pub(super) fn processes() -> Finding {
    // `max` means no limit and does not parse.
    let limit_of = |group: &Path| {
        let text = fs::read_to_string(group.join("pids.max")).ok()?;
        text.trim().parse().ok()
    };
    let group = limits("pids", limit_of).into_iter().min();
    judge_processes(getrlimit(Resource::Nproc).current, group)
}

fn judge_processes(user: Option<u64>, group: Option<u64>) -> Finding {
    const WHAT: &str = "processes";
    let show = |limit: Option<u64>| limit.map_or_else(|| "none".into(), |limit| limit.to_string());
    let text = format!(
        "user limit {}, control group limit {}",
        show(user),
        show(group)
    );
    if user.is_some_and(|limit| limit < FEW_PROCESSES) {
        return Finding::warning(WHAT, text, "raise it with ulimit -u; threads count, too");
    }
    if group.is_some_and(|limit| limit < FEW_PROCESSES) {
        let advice = "raise it with --pids-limit of the container or TasksMax of the systemd unit; threads count, too";
        return Finding::warning(WHAT, text, advice);
    }
    Finding::fine(WHAT, text)
}

#[cfg(test)]
mod tests {
    use super::{Level, judge_files, judge_mpi, judge_processes, names_in};

    #[test]
    fn descriptors_are_counted_in_ranks() {
        let fine = judge_files(Some(1024));
        assert_eq!(fine.level, Level::Fine);
        assert!(fine.text.contains("486 ranks, 243 with"), "{fine}");
        let few = judge_files(Some(256));
        assert_eq!(few.level, Level::Warning);
        assert!(few.to_string().contains("ulimit -Hn"), "{few}");
        assert_eq!(judge_files(Some(54)).level, Level::Warning);
        assert_eq!(judge_files(Some(53)).level, Level::Problem);
        assert_eq!(judge_files(None).level, Level::Fine);
    }

    #[test]
    fn the_tighter_limit_on_processes_is_named() {
        assert_eq!(judge_processes(None, None).level, Level::Fine);
        let user = judge_processes(Some(100), None).to_string();
        assert!(user.contains("ulimit -u"), "{user}");
        let group = judge_processes(Some(9999), Some(100)).to_string();
        assert!(group.contains("--pids-limit"), "{group}");
    }

    #[test]
    fn a_folder_that_is_not_there_holds_nothing() {
        assert_eq!(names_in("/no/such/folder".as_ref(), &["cobre-"]), None);
    }

    #[test]
    fn leftovers_of_mpi_libraries_are_counted_with_what_removes_them() {
        let folder = tempfile::tempdir().unwrap();
        let judged = || judge_mpi(folder.path());
        std::fs::write(folder.path().join("cobre-1"), "").unwrap();
        assert_eq!(judged(), None);
        for name in [
            "vader_segment.host.0.1.2",
            "sm_segment.host",
            "mpich_shar_tmpA1b2C3",
            "mpich_shm_1a2b",
        ] {
            std::fs::write(folder.path().join(name), [0; 1024]).unwrap();
        }
        let found = judged().unwrap();
        assert_eq!(found.level, Level::Warning);
        let (found, path) = (found.to_string(), folder.path().display().to_string());
        let says = "segments of MPI: 4 files, 4.0 KiB in total, for example mpich_shar_tmpA1b2C3";
        assert!(found.contains(says), "{found}");
        let remedy = format!(
            "cd {path} && rm -f -- mpich_shar_tmp* mpich_shm_* vader_segment.* sm_segment.*"
        );
        assert!(found.ends_with(&remedy), "{found}");
    }
}
