//! Start-up with everything that can go wrong: a clear error, in time, and nothing is left behind.

#![allow(clippy::unwrap_used, reason = "a test fails where it is wrong")]

mod common;

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::{FileExt, MetadataExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use comm_api::{Communicator, CommunicatorExt, ReduceOp};
use comm_shm::{InitError, InitErrorKind, ShmBackend, ShmConfig};
use comm_testing::not_run;
use common::markers::wait_for;
use common::{exists, finish, fresh_name, role, say, start};

fn config(name: &str, rank: usize, size: usize, limit_ms: u64) -> ShmConfig {
    let mut config = ShmConfig::new(name, rank, size);
    config.connect_timeout = Duration::from_millis(limit_ms);
    config
}

/// Attaches all seats at once, as threads.
fn attach(seats: Vec<ShmConfig>) -> Vec<Result<ShmBackend, InitError>> {
    let threads: Vec<_> = seats
        .into_iter()
        .map(|seat| thread::spawn(move || ShmBackend::attach(seat)))
        .collect();
    threads
        .into_iter()
        .map(|thread| thread.join().unwrap())
        .collect()
}

fn path(name: &str) -> PathBuf {
    PathBuf::from("/dev/shm").join(name)
}

fn has(error: &InitError, words: &[&str]) {
    for word in words {
        assert!(error.message.contains(word), "no {word:?} in: {error}");
    }
}

#[test]
fn a_rank_that_never_comes_is_named_on_all() {
    let name = fresh_name();
    let start = Instant::now();
    let results = attach([0, 1, 3].map(|rank| config(&name, rank, 4, 300)).into());
    assert!(start.elapsed() < Duration::from_secs(3));
    for result in results {
        let error = result.expect_err("rank 2 never came");
        assert_eq!(error.kind, InitErrorKind::Failed);
        has(&error, &["rank 2 of 4", "COBRE_SHM_CONNECT_TIMEOUT_MS"]);
    }
    assert!(!exists(&name));
}

#[test]
fn without_rank_0_there_is_no_segment() {
    let name = fresh_name();
    let error = ShmBackend::attach(config(&name, 1, 2, 100)).expect_err("nobody made it");
    has(&error, &["rank 0", &name]);
}

#[test]
fn sizes_that_differ_fail_all_at_once() {
    let name = fresh_name();
    let start = Instant::now();
    let results = attach(vec![
        config(&name, 0, 3, 20_000),
        config(&name, 1, 2, 20_000),
    ]);
    assert!(
        start.elapsed() < Duration::from_secs(5),
        "nobody waits for the limit"
    );
    for result in results {
        let error = result.expect_err("3 is not 2");
        assert_eq!(error.kind, InitErrorKind::InvalidConfiguration);
        assert_eq!(error.variables, ["COBRE_SHM_SIZE"]);
        has(&error, &["3", "2"]);
    }
    assert!(!exists(&name));
}

/// The number of the rank is beyond those that the others know.
#[test]
fn a_rank_beyond_the_size_of_the_others_is_named() {
    let name = fresh_name();
    let mut results = attach(vec![
        config(&name, 0, 2, 20_000),
        config(&name, 5, 8, 20_000),
    ]);
    let error = results.swap_remove(0).expect_err("2 is not 8");
    has(&error, &["2 on rank 0", "8 on rank 5"]);
}

/// A rank of another build knows nothing about the segment except how to end its start.
#[test]
fn a_rank_of_another_build_ends_the_start_of_all() {
    let name = fresh_name();
    let creator = thread::spawn({
        let seat = config(&name, 0, 2, 60_000);
        move || ShmBackend::attach(seat)
    });
    wait_for(&path(&name));
    let segment = File::options().write(true).open(path(&name)).unwrap();
    segment.write_all_at(&999_u64.to_ne_bytes(), 8).unwrap();
    let began = Instant::now();
    let error = ShmBackend::attach(config(&name, 1, 2, 60_000)).expect_err("another build");
    has(&error, &["another build", "999"]);
    let error = creator.join().unwrap().expect_err("rank 1 cannot attach");
    has(&error, &["rank 1 of 2 could not attach"]);
    assert!(
        began.elapsed() < Duration::from_secs(20),
        "{:?}",
        began.elapsed()
    );
    assert!(!exists(&name));
}

#[test]
fn job_ids_that_differ() {
    let name = fresh_name();
    let mut seats = vec![config(&name, 0, 2, 400), config(&name, 1, 2, 400)];
    seats[0].job_id = Some("monday".into());
    seats[1].job_id = Some("tuesday".into());
    let mut results = attach(seats);
    let error = results.remove(1).expect_err("another job");
    assert_eq!(error.variables, ["COBRE_JOB_ID"]);
    has(&error, &["monday", "tuesday"]);
    // A stranger does not harm the other job, which waits for its own rank.
    has(
        &results.remove(0).expect_err("rank 1 never came"),
        &[
            "rank 1 of 2 did not attach",
            "another COBRE_JOB_ID",
            "increase",
        ],
    );
}

#[test]
fn twice_the_same_rank() {
    let name = fresh_name();
    let results = attach([0, 1, 1].map(|rank| config(&name, rank, 2, 5000)).into());
    let (good, bad): (Vec<_>, Vec<_>) = results.into_iter().partition(Result::is_ok);
    assert_eq!((good.len(), bad.len()), (2, 1));
    for error in bad.into_iter().filter_map(Result::err) {
        // The second arrives while the first waits, or finds no segment any longer.
        let pid = std::process::id().to_string();
        if error.kind == InitErrorKind::InvalidConfiguration {
            assert_eq!(error.variables, ["COBRE_SHM_RANK"]);
            has(&error, &["rank 1", &pid]);
        }
    }
}

#[test]
fn a_configuration_made_by_hand_is_checked() {
    for name in ["", "a/b", &"x".repeat(300)] {
        let error = ShmBackend::attach(config(name, 0, 1, 100)).expect_err("no such name");
        assert_eq!(error.variables, ["COBRE_SHM_NAME"]);
    }
    let error = ShmBackend::attach(config("good", 3, 2, 100)).expect_err("no such rank");
    assert_eq!(error.variables, ["COBRE_SHM_RANK", "COBRE_SHM_SIZE"]);
}

/// Tries to attach as rank 0 and rank 1 to a file under the name, which must stay.
fn refused_and_untouched(name: &str, words: &[&str]) {
    for rank in [0, 1] {
        let error = ShmBackend::attach(config(name, rank, 2, 200)).expect_err("not a segment");
        has(&error, words);
        has(&error, &[name]);
    }
    assert!(
        path(name).symlink_metadata().is_ok(),
        "it is not ours to remove"
    );
}

#[test]
fn what_is_not_a_segment_stays() {
    let name = fresh_name();
    for content in [vec![], vec![7; 100], vec![7; 100_000]] {
        File::create(path(&name))
            .unwrap()
            .write_all(&content)
            .unwrap();
        refused_and_untouched(&name, &["not a segment"]);
    }
    fs::remove_file(path(&name)).unwrap();

    symlink("/etc/hostname", path(&name)).unwrap();
    refused_and_untouched(&name, &["symbolic link"]);
    fs::remove_file(path(&name)).unwrap();

    fs::create_dir(path(&name)).unwrap();
    refused_and_untouched(&name, &["folder"]);
    fs::remove_dir(path(&name)).unwrap();

    let socket = UnixListener::bind(path(&name)).unwrap();
    refused_and_untouched(&name, &["socket", "another name"]);
    fs::remove_file(path(&name)).unwrap();
    drop(socket);
}

#[test]
fn a_file_of_another_user_stays() {
    let name = fresh_name();
    fs::write(path(&name), "theirs").unwrap();
    let other = fs::metadata(path(&name)).unwrap().uid() + 1;
    if let Err(error) = std::os::unix::fs::chown(path(&name), Some(other), None) {
        fs::remove_file(path(&name)).unwrap();
        return not_run(format_args!("this user may not give files away: {error}"));
    }
    refused_and_untouched(
        &name,
        &[&format!("belongs to user {other}"), "have that user"],
    );
    fs::remove_file(path(&name)).unwrap();
}

/// A segment as left by a job that was killed between link and unlink.
fn stale(name: &str) -> Vec<u8> {
    let waiting = thread::spawn({
        let seat = config(name, 0, 2, 1000);
        move || ShmBackend::attach(seat)
    });
    let deadline = Instant::now() + Duration::from_secs(5);
    let content = loop {
        if let Ok(content) = fs::read(path(name)) {
            break content;
        }
        assert!(Instant::now() < deadline);
        thread::yield_now();
    };
    waiting.join().unwrap().expect_err("nobody else came");
    content
}

#[test]
fn a_stale_segment_is_replaced_and_a_strange_one_refused() {
    let name = fresh_name();
    let mut content = stale(&name);
    // No process that started then has the pid of the creator.
    content[8 * 5..8 * 6].copy_from_slice(&1_u64.to_ne_bytes());
    fs::write(path(&name), &content).unwrap();
    let results = attach([0, 1].map(|rank| config(&name, rank, 2, 5000)).into());
    for result in results {
        drop(result.expect("the stale one was replaced"));
    }
    assert!(!exists(&name));

    // A segment with another layout, and a truncated one, of a creator that lives: this very process.
    let own = stale(&name);
    let mut newer = own.clone();
    newer[8..16].copy_from_slice(&999_u64.to_ne_bytes());
    fs::write(path(&name), &newer).unwrap();
    let error = ShmBackend::attach(config(&name, 1, 2, 200)).expect_err("another build");
    has(&error, &["another build", "999"]);
    fs::write(path(&name), &own[..8192]).unwrap();
    let error = ShmBackend::attach(config(&name, 1, 2, 200)).expect_err("cut short");
    has(&error, &["truncated", "8192"]);
    fs::remove_file(path(&name)).unwrap();
}

/// Ten jobs want one name: one gets it, the others learn which process has it, and no name is left behind.
#[test]
fn ten_jobs_race_for_a_name() {
    let test = "ten_jobs_race_for_a_name";
    if let Some(config) = role(test) {
        match ShmBackend::attach(config) {
            Ok(comm) => {
                // Keeps the name taken until the second rank attaches, which the driver starts last.
                let sum = comm.allreduce_scalar(1, ReduceOp::Sum).unwrap();
                say(format!("won {sum}"));
            }
            Err(error) => say(format!("lost {error}")),
        }
        return;
    }
    let name = fresh_name();
    let limit = [("COBRE_SHM_CONNECT_TIMEOUT_MS", "20000")];
    let rivals: Vec<_> = (0..10).map(|_| start(test, &name, 0, 2, &limit)).collect();
    let pids: Vec<String> = rivals.iter().map(|rival| rival.id().to_string()).collect();
    // All but the winner exit by themselves; only then does rank 1 attach.
    let mut rivals: Vec<_> = rivals.into_iter().enumerate().collect();
    let deadline = Instant::now() + Duration::from_secs(30);
    let mut lost = Vec::new();
    while rivals.len() > 1 {
        assert!(
            Instant::now() < deadline,
            "{} rivals still run",
            rivals.len()
        );
        let ended = rivals
            .iter_mut()
            .position(|(_, rival)| rival.try_wait().unwrap().is_some());
        match ended {
            Some(index) => {
                let (index, rival) = rivals.remove(index);
                lost.push(finish(index, rival));
            }
            None => thread::sleep(Duration::from_millis(1)),
        }
    }
    let second = finish(1, start(test, &name, 1, 2, &limit));
    let (index, winner) = rivals.remove(0);
    let winner = finish(index, winner);
    assert_eq!(winner.said, ["won 2"], "{}", winner.output);
    assert_eq!(second.said, ["won 2"], "{}", second.output);
    for loser in lost {
        let said = loser.said.join(" ");
        assert!(
            said.starts_with("lost") && said.contains("in use"),
            "{}",
            loser.output
        );
        assert!(
            said.contains(&pids[index]),
            "{said} does not name {}",
            pids[index]
        );
    }
    assert!(!exists(&name));
}

/// A rank that dies during the start fails it on all ranks, long before the timeout.
#[test]
fn a_rank_that_dies_on_the_way() {
    let test = "a_rank_that_dies_on_the_way";
    if let Some(config) = role(test) {
        let start = Instant::now();
        let error = ShmBackend::attach(config).expect_err("one dies");
        say(format!("{} {error}", start.elapsed().as_secs() < 10));
        return;
    }
    for victim in [0, 1] {
        let name = fresh_name();
        let mut doomed = start(test, &name, victim, 3, &[]);
        let survivor = start(test, &name, 1 - victim, 3, &[]);
        // Both are in the segment once it shows their pids.
        let deadline = Instant::now() + Duration::from_secs(20);
        let inside = |rank: usize| {
            let content = fs::read(path(&name)).unwrap_or_default();
            let at = 4096 + 64 * rank + 8;
            content.get(at).is_some_and(|&ready| ready != 0)
        };
        while !(inside(0) && inside(1)) {
            assert!(Instant::now() < deadline);
            thread::sleep(Duration::from_millis(1));
        }
        doomed.kill().unwrap();
        let outcome = finish(1 - victim, survivor);
        let said = outcome.said.join(" ");
        assert!(said.starts_with("true"), "{}", outcome.output);
        assert!(
            said.contains(&format!("rank {victim} of 3 ended")),
            "{said}"
        );
        doomed.wait().unwrap();
        // Including the name of rank 0, which had no time to remove it; a job of that name would replace it.
        assert!(!exists(&name), "a name was left by rank {victim}");
        let results = attach([0, 1].map(|rank| config(&name, rank, 2, 5000)).into());
        for result in results {
            result.expect("the name is free again").rank();
        }
        assert!(!exists(&name));
    }
}

#[test]
fn a_hundred_communicators_leave_nothing_open() {
    let count = |folder: &str| fs::read_dir(folder).unwrap().count();
    let maps = || {
        fs::read_to_string("/proc/self/maps")
            .unwrap()
            .matches("/dev/shm")
            .count()
    };
    let round = || {
        let name = fresh_name();
        let comms = attach([0, 1].map(|rank| config(&name, rank, 2, 5000)).into());
        drop(comms);
    };
    round();
    // Other tests of this binary run concurrently: compare only mappings of this test's names.
    for _ in 0..100 {
        round();
    }
    let open = count("/proc/self/fd");
    assert!(open < 60, "{open} descriptors are open");
    assert!(maps() < 40, "{} mappings are left", maps());
}

#[test]
fn timeouts_at_their_limits() {
    let name = fresh_name();
    let ranks = [0, 1].map(|rank| {
        let mut config = config(&name, rank as usize, 2, 20_000);
        // No timeout, as with 0 in the variable.
        config.timeout = Some(Duration::ZERO);
        config.connect_timeout = Duration::MAX;
        thread::spawn(move || {
            let comm = ShmBackend::attach(config).unwrap();
            thread::sleep(Duration::from_millis(200) * rank);
            comm.barrier().unwrap();
        })
    });
    for rank in ranks {
        rank.join().unwrap();
    }
}

/// Removing what killed jobs left does not harm a job that is starting, even if its file has a name before it
/// is complete.
#[cfg(comm_portable_wait)]
#[test]
fn cleaning_up_leaves_a_job_that_is_starting() {
    use std::sync::atomic::{AtomicBool, Ordering};
    let (name, done) = (fresh_name(), AtomicBool::new(false));
    thread::scope(|scope| {
        scope.spawn(|| {
            let folder = comm_kit::segments::folder();
            while !done.load(Ordering::Relaxed) {
                let _ = comm_kit::segments::remove_stale(&folder, &name);
            }
        });
        let attached: Vec<_> = (0..500)
            .map(|_| ShmBackend::attach(ShmConfig::new(&name, 0, 1)).map(drop))
            .collect();
        done.store(true, Ordering::Relaxed);
        attached.into_iter().for_each(|attached| attached.unwrap());
    });
}
