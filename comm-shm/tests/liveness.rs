//! How a rank knows that another lives: without descriptors, during a core dump, with many ranks, and where
//! `/proc` is unusual.
#![allow(unsafe_code, reason = "limits and signals have no safe interface")]
#![allow(clippy::unwrap_used, reason = "a test fails where it is wrong")]

mod common;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use comm_api::{Communicator, CommunicatorExt, FailureKind, ReduceOp};
use comm_shm::{ShmBackend, ShmConfig};
use comm_testing::not_run;
use common::markers::{Folder, PATIENCE, wait_for};
use common::namespace::{BOTH, is_forbidden, script, unshare};
use common::{blame, exists, finish, fresh_name, kill_self, launch, role, say, start};

/// Sets the soft limit of a resource, and returns the previous one.
fn limit(resource: libc::__rlimit_resource_t, soft: u64) -> u64 {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: a place for the answer.
    assert_eq!(unsafe { libc::getrlimit(resource, &raw mut limit) }, 0);
    let before = limit.rlim_cur;
    limit.rlim_cur = soft.min(limit.rlim_max);
    // SAFETY: a place that is only read.
    assert_eq!(unsafe { libc::setrlimit(resource, &raw const limit) }, 0);
    before
}

/// Running out of file descriptors never makes a rank report a living rank as dead, and it still notices a
/// death.
#[test]
fn a_late_peer_lives_although_no_descriptor_is_left() {
    let test = "a_late_peer_lives_although_no_descriptor_is_left";
    if let Some(config) = role(test) {
        let folder = Folder::of_driver();
        let comm = ShmBackend::attach(config).unwrap();
        comm.barrier().unwrap();
        if comm.rank() == 1 {
            // Long enough for rank 0 to check this process, more than once.
            wait_for(&folder.join("waiting"));
            thread::sleep(Duration::from_millis(300));
            comm.barrier().unwrap();
            wait_for(&folder.join("again"));
            thread::sleep(Duration::from_millis(300));
            kill_self();
        }
        let before = limit(libc::RLIMIT_NOFILE, 3);
        assert!(fs::File::open("/dev/null").is_err(), "none is left");
        // An empty folder needs no descriptor.
        fs::create_dir(folder.join("waiting")).unwrap();
        comm.barrier().unwrap();
        if std::env::var_os("RAISED").is_some() {
            limit(libc::RLIMIT_NOFILE, before);
        }
        fs::create_dir(folder.join("again")).unwrap();
        let error = comm.barrier().unwrap_err();
        assert_eq!(blame(&error), (FailureKind::PeerLost, Some(1)), "{error}");
        say("done");
        return;
    }
    for more in [None, Some(("RAISED", "1"))] {
        let folder = Folder::new();
        let mut variables = vec![folder.variable()];
        variables.extend(more);
        let outcomes = launch(test, 2, &variables);
        assert_eq!(outcomes[0].said, ["done"], "{}", outcomes[0].output);
    }
}

/// A rank that waits for many keeps few files open for that.
#[cfg(not(comm_portable_wait))]
#[test]
fn few_descriptors_whoever_is_waited_for() {
    const RANKS: usize = 40;
    let test = "few_descriptors_whoever_is_waited_for";
    if let Some(config) = role(test) {
        let go = Folder::of_driver().join("go");
        let comm = ShmBackend::attach(config).unwrap();
        if comm.rank() > 0 {
            wait_for(&go);
            return comm.barrier().unwrap();
        }
        let watcher = thread::spawn(move || {
            let watches = || {
                let open = fs::read_dir("/proc/self/fd").unwrap();
                let open = open.filter_map(|entry| fs::read_link(entry.ok()?.path()).ok());
                // Neither the folder itself, nor what a clock occasionally reads about this process.
                let own = ["fd", "schedstat"];
                let others = |file: &PathBuf| !own.iter().any(|name| file.ends_with(name));
                open.filter(|file| file.starts_with("/proc") && others(file))
                    .count()
            };
            let began = Instant::now();
            let mut most = 0;
            // Long enough for every rank to be checked, under any load.
            while began.elapsed() < Duration::from_secs(2) {
                most = watches().max(most);
                thread::sleep(Duration::from_millis(5));
            }
            fs::write(go, "").unwrap();
            most
        });
        comm.barrier().unwrap();
        say(watcher.join().unwrap());
        return;
    }
    let folder = Folder::new();
    let outcomes = launch(test, RANKS, &[folder.variable()]);
    let most: usize = outcomes[0]
        .said
        .first()
        .map_or(0, |said| said.parse().unwrap());
    assert!((1..=16).contains(&most), "{most}: {}", outcomes[0].output);
}

/// A rank that dumps core is lost as soon as the dump begins, not once gigabytes are written.
#[cfg(not(comm_portable_wait))]
#[test]
fn a_core_dump_is_a_death() {
    let test = "a_core_dump_is_a_death";
    if let Some(config) = role(test) {
        let folder = Folder::of_driver();
        let comm = ShmBackend::attach(config).unwrap();
        let pids = comm.allgather_vec(&[std::process::id()]).unwrap().0;
        if comm.rank() == 1 {
            std::env::set_current_dir(&folder).unwrap();
            limit(libc::RLIMIT_CORE, u64::MAX);
            let ballast = vec![7_u8; 384 << 20];
            // From a thread other than the first one, as it may happen.
            let dump = move || {
                fs::write(folder.join("dumping"), "").unwrap();
                std::hint::black_box(&ballast);
                std::process::abort()
            };
            return thread::spawn(dump).join().unwrap();
        }
        wait_for(&folder.join("dumping"));
        let error = comm.barrier().unwrap_err();
        let status = fs::read_to_string(format!("/proc/{}/status", pids[1]));
        assert_eq!(blame(&error), (FailureKind::PeerLost, Some(1)), "{error}");
        let dumping = status.unwrap_or_default().contains("CoreDumping:\t1");
        say(format!("dumping {dumping}"));
        // The driver removes the dump, once it is complete.
        return;
    }
    let folder = Folder::new();
    let outcomes = launch(test, 2, &[folder.variable()]);
    let dumped = fs::read_dir(&folder.0).unwrap().count() > 1;
    let pattern = fs::read_to_string("/proc/sys/kernel/core_pattern").unwrap();
    if !dumped && pattern.trim() != "core" {
        return not_run(format_args!("cores go elsewhere here: {pattern}"));
    }
    assert_eq!(outcomes[0].said, ["dumping true"], "{}", outcomes[0].output);
}

/// The start of many ranks on few processors: what they cost each other while they wait.
#[test]
fn two_hundred_and_fifty_six_ranks_start_soon() {
    const RANKS: usize = 256;
    let test = "two_hundred_and_fifty_six_ranks_start_soon";
    if let Some(config) = role(test) {
        let (before, began) = (processor_time(), Instant::now());
        let comm = ShmBackend::attach(config).unwrap();
        let spent = processor_time().saturating_sub(before).as_micros();
        say(format!("{spent} {}", began.elapsed().as_micros()));
        let sum = comm.allreduce_scalar(1, ReduceOp::Sum).unwrap();
        assert_eq!(sum, RANKS);
        return;
    }
    let outcomes = launch(test, RANKS, &[("COBRE_SHM_CONNECT_TIMEOUT_MS", "90000")]);
    let times = outcomes.iter().map(|outcome| {
        let said = outcome.said.first();
        let said = said.unwrap_or_else(|| panic!("{}", outcome.output));
        let micros = |text: &str| Duration::from_micros(text.parse().unwrap());
        said.split_once(' ')
            .map(|(a, b)| (micros(a), micros(b)))
            .unwrap()
    });
    let (spent, waited): (Vec<Duration>, Vec<Duration>) = times.unzip();
    let (spent, waited): (Duration, Duration) = (spent.iter().sum(), waited.iter().sum());
    // Two processors give 4 s in 2 s, and have to start the processes as well. Where locks show which ranks
    // live, each rank opens a file of every other: 65 000 in all.
    let most = Duration::from_secs(if cfg!(comm_portable_wait) { 6 } else { 2 });
    // On a busy machine they wait for longer, and check now and then meanwhile.
    let most = most + waited / 200;
    say(format!("{spent:?} of processor time"));
    assert!(
        spent < most,
        "{spent:?} of processor time to attach, in {waited:?} of waiting"
    );
}

fn processor_time() -> Duration {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: a place for the answer.
    let done = unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &raw mut time) };
    assert_eq!(done, 0);
    Duration::new(
        time.tv_sec.try_into().unwrap(),
        time.tv_nsec.try_into().unwrap(),
    )
}

/// In a pid namespace that sees the `/proc` of another one, or none, a job runs and a death is noticed.
#[rstest::rstest]
#[case::of_another("--pid --fork", "sh -c")]
#[case::at_all(
    "--mount",
    "sh -c 'mount -t tmpfs tmpfs /proc || exit 77; exec \"$0\" \"$@\"' sh -c"
)]
fn without_a_proc(#[case] kinds: &str, #[case] way: &str) {
    let test = thread::current().name().unwrap().to_owned();
    if let Some(mut config) = role(&test) {
        config.connect_timeout = Duration::from_secs(20);
        let comm = ShmBackend::attach(config).unwrap();
        comm.barrier().unwrap();
        if comm.rank() == 1 {
            thread::sleep(Duration::from_millis(300));
            // A late one that lives.
            comm.barrier().unwrap();
            kill_self();
        }
        comm.barrier().unwrap();
        let began = Instant::now();
        let error = comm.barrier().unwrap_err();
        let took = began.elapsed();
        assert_eq!(blame(&error), (FailureKind::PeerLost, Some(1)), "{error}");
        assert!(took < Duration::from_secs(5), "{took:?}");
        say("done");
        return;
    }
    let Some(unshare) = unshare(kinds) else {
        return;
    };
    let both = BOTH.replace('\'', "");
    let both = format!("{unshare} {way} '{both}' \"$0\" \"$@\"");
    let outcome = script(&test, 2, &both, &[]);
    if !is_forbidden(outcome.status, &outcome.output) {
        assert_eq!(outcome.said, ["done"], "{}", outcome.output);
    }
}

/// A rank in another namespace, in which pids or times differ, ends the start on all ranks at once.
#[rstest::rstest]
#[case::of_times("--time --boottime 100000 --fork", "time namespace")]
#[case::of_pids("--pid --fork", "pid namespace")]
fn two_namespaces(#[case] kinds: &str, #[case] words: &str) {
    let test = thread::current().name().unwrap().to_owned();
    if let Some(mut config) = role(&test) {
        config.connect_timeout = PATIENCE;
        let began = Instant::now();
        let rank = config.rank;
        let error = ShmBackend::attach(config).unwrap_err();
        assert!(began.elapsed() < PATIENCE / 2, "{:?}", began.elapsed());
        return say(format!("{rank} {error}"));
    }
    let Some(unshare) = unshare(kinds) else {
        return;
    };
    let both = format!(
        "COBRE_SHM_RANK=0 \"$0\" \"$@\" & COBRE_SHM_RANK=1 {unshare} \"$0\" \"$@\" || code=$?; wait; exit $code"
    );
    let outcome = script(&test, 2, &both, &[]);
    for (rank, words) in [('0', "rank 1 of 2 could not attach"), ('1', words)] {
        let told = outcome.said.iter().find(|said| said.starts_with(rank));
        let told = told.unwrap_or_else(|| panic!("{}", outcome.output));
        assert!(told.contains(words), "{}", outcome.output);
    }
}

/// A rank that cannot attach notifies the others, which would wait for it in vain.
#[test]
fn a_rank_that_cannot_attach_ends_the_start_of_all() {
    const RANKS: usize = 64;
    let test = "a_rank_that_cannot_attach_ends_the_start_of_all";
    if let Some(config) = role(test) {
        let rank = config.rank;
        if rank == 1 {
            let status = fs::read_to_string("/proc/self/statm").unwrap();
            let pages: u64 = status.split(' ').next().unwrap().parse().unwrap();
            // Too little for a segment of 64 MiB.
            limit(libc::RLIMIT_AS, pages * 4096 + (32 << 20));
        }
        let began = Instant::now();
        let error = ShmBackend::attach(config).unwrap_err();
        limit(libc::RLIMIT_AS, u64::MAX);
        say(format!(
            "{} {error}",
            began.elapsed() < Duration::from_secs(10)
        ));
        return;
    }
    let name = fresh_name();
    let [first, last] = [0, 2].map(|rank| start(test, &name, rank, RANKS, &[]));
    // A rank that arrives after the end of a start finds nothing, and waits.
    wait_for_seat(&Path::new("/dev/shm").join(&name), 2);
    // Otherwise malloc may map 64 MiB for a second thread at any moment. Just before the limit is set, that
    // would leave nothing to map, and rank 1 could not even notify the others.
    let one_arena = [("MALLOC_ARENA_MAX", "1")];
    let ranks = [first, start(test, &name, 1, RANKS, &one_arena), last];
    for (rank, child) in ranks.into_iter().enumerate() {
        let outcome = finish(rank, child);
        let said = outcome.said.join(" ");
        let expected = if rank == 1 {
            "cannot map"
        } else {
            "rank 1 of 64 could not attach"
        };
        assert!(
            said.starts_with("true") && said.contains(expected),
            "{}",
            outcome.output
        );
    }
    assert!(!exists(&name));
}

/// A rank that is killed right after it took its seat is noticed, although it never announced that it
/// attached.
#[test]
fn a_rank_killed_in_its_seat_is_seen() {
    let name = fresh_name();
    let mut gone = Command::new("true").spawn().unwrap();
    let pid = gone.id();
    gone.wait().unwrap();
    let waiting = thread::spawn({
        let mut config = ShmConfig::new(&name, 0, 2);
        config.connect_timeout = Duration::from_secs(20);
        move || ShmBackend::attach(config)
    });
    let path = Path::new("/dev/shm").join(&name);
    wait_for(&path);
    let began = Instant::now();
    take_seat(&path, 1, pid);
    let error = waiting.join().unwrap().unwrap_err();
    assert!(error.message.contains("rank 1 of 2 ended"), "{error}");
    assert!(began.elapsed() < Duration::from_secs(10), "{began:?}");
}

/// Waits until a rank has taken its seat.
fn wait_for_seat(segment: &Path, rank: u64) {
    use std::os::unix::fs::FileExt;
    wait_for(segment);
    let file = fs::File::open(segment).unwrap();
    let mut seat = [0; 8];
    let began = Instant::now();
    while seat == [0; 8] {
        assert!(began.elapsed() < PATIENCE, "rank {rank} did not come");
        file.read_exact_at(&mut seat, 4096 + 64 * rank).unwrap();
        thread::sleep(Duration::from_millis(1));
    }
}

/// Writes what a rank writes first.
fn take_seat(segment: &Path, rank: usize, pid: u32) {
    use std::os::unix::fs::FileExt;
    if cfg!(comm_portable_wait) {
        // What its owner has locked before.
        fs::write(segment.with_extension(rank.to_string()), "").unwrap();
    }
    let file = fs::File::options().write(true).open(segment).unwrap();
    let seat = 4096 + 64 * rank as u64;
    file.write_all_at(&(u64::from(pid) << 40 | 1).to_ne_bytes(), seat)
        .unwrap();
}

/// Every rank that did not enter the call is named, whatever its number.
#[test]
fn a_timeout_names_all_who_are_missing() {
    const RANKS: usize = 48;
    for (missing, words) in [
        (
            vec![3, 33, 47],
            "ranks 3, 33, 47 did not enter the call within",
        ),
        (
            (20..48).collect(),
            "ranks 20-47 did not enter the call within",
        ),
    ] {
        let name = fresh_name();
        let ranks: Vec<_> = (0..RANKS)
            .map(|rank| {
                let mut config = ShmConfig::new(&name, rank, RANKS);
                config.timeout = Some(Duration::from_millis(500));
                let absent = missing.contains(&rank);
                thread::spawn(move || {
                    let comm = ShmBackend::attach(config).unwrap();
                    if absent {
                        thread::sleep(Duration::from_secs(3));
                    }
                    comm.barrier().unwrap_err()
                })
            })
            .collect();
        for (rank, thread) in ranks.into_iter().enumerate() {
            let error = thread.join().unwrap();
            assert_eq!(
                blame(&error),
                (FailureKind::TimedOut, Some(missing[0])),
                "{error}"
            );
            assert!(error.to_string().contains(words), "rank {rank}: {error}");
        }
    }
}
