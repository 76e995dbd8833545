//! Jobs over shared memory that are ended while they start: their names never stay in `/dev/shm`,
//! whichever process is ended, however and whenever.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a helper of tests may fail like a test")]

mod common;
#[path = "../../comm-factory/tests/hello/mod.rs"]
mod hello;

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use common::{Folder, Starter, eventually};
use rustix::process::{Pid, Signal, kill_process};

/// The number of ranks, the number of jobs of that size, and the time within which they are ended after the first rank began:
/// about as long as such a job takes to start.
const JOBS: [(usize, u64, Duration); 3] = [
    (2, 40, Duration::from_millis(50)),
    (16, 12, Duration::from_millis(300)),
    (128, 3, Duration::from_secs(2)),
];

/// A starter acts on a signal once all its ranks run, which takes longer than the usual patience if 128 ranks
/// share a busy machine.
const SLOW_START: Duration = Duration::from_mins(1);

/// How long a test looks for a name that may have come and gone.
const LOOK: Duration = Duration::from_millis(200);

/// Rank 0 writes the name of the job and its own process id to a file before it can create anything.
const SCRIPT: &str = "[ $RANK = 0 ] && echo $COBRE_SHM_NAME $$ >\"$NOTES.new\" && mv \"$NOTES.new\" \"$NOTES\"; \
     exec \"$0\"";

/// Shifts the moments at which jobs are ended, so that different runs try different moments.
const SEED: &str = "COMM_RUN_TEST_SEED";

#[derive(Debug, Clone, Copy)]
enum Way {
    StarterKilled,
    StarterTerminated,
    CtrlC,
    RankKilled,
}

const WAYS: [Way; 4] = [
    Way::StarterKilled,
    Way::StarterTerminated,
    Way::RankKilled,
    Way::CtrlC,
];

fn job(hello: &str, ranks: usize, notes: &Path) -> Starter {
    let mark = common::fresh_mark();
    let ranks = ranks.to_string();
    let args = ["-n", &ranks, "--", "sh", "-c", SCRIPT, hello];
    let mut command = common::comm_run(&args, &mark);
    command.env("NOTES", notes);
    Starter::of(command, mark)
}

/// Waits until rank 0 is about to become the program; returns the name of the job's segment and
/// the process of rank 0.
fn begun(notes: &Path) -> (String, i32) {
    eventually("rank 0 begins", || notes.exists());
    let text = fs::read_to_string(notes).unwrap();
    fs::remove_file(notes).unwrap();
    let (name, pid) = text.trim().split_once(' ').unwrap();
    (name.to_owned(), pid.parse().unwrap())
}

fn left(name: &str) -> Vec<String> {
    let entries = fs::read_dir("/dev/shm").unwrap().filter_map(Result::ok);
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    names.filter(|found| found.starts_with(name)).collect()
}

#[test]
fn jobs_ended_while_they_start_leave_no_segment() {
    let hello = hello::build("shm");
    let seed: u64 = std::env::var(SEED).map_or(0, |seed| seed.parse().unwrap());
    let folder = Folder::new();
    let notes = folder.join("notes");
    let mut segments = 0;
    for (ranks, ends, time) in JOBS {
        for number in 0..ends {
            let way = WAYS[usize::try_from(number).unwrap() % WAYS.len()];
            let mut starter = job(&hello, ranks, &notes);
            let (name, first) = begun(&notes);
            let part = (number + seed * 7919 + 1) * 2_654_435_761 % 1000;
            if number % 8 < 4 {
                // Chance, not synchronisation.
                std::thread::sleep(time / 1000 * u32::try_from(part).unwrap());
            } else {
                // Each way in turn, as soon as the name exists. A job that starts fast has the name for less time than one check takes.
                let until = Instant::now() + LOOK;
                while left(&name).is_empty() && Instant::now() < until {
                    std::thread::yield_now();
                }
            }
            segments += left(&name).len();
            match way {
                Way::StarterKilled => starter.signal(Signal::KILL),
                Way::StarterTerminated => starter.signal(Signal::TERM),
                Way::CtrlC => starter.signal(Signal::INT),
                // The process may have ended by itself.
                Way::RankKilled => drop(kill_process(Pid::from_raw(first).unwrap(), Signal::KILL)),
            }
            starter.wait_within(SLOW_START);
            // The warden ends last, when no process of the job is left.
            starter.gone_within(SLOW_START);
            let left = left(&name);
            assert!(left.is_empty(), "{ranks} ranks, {way:?}, {part}: {left:?}");
        }
    }
    println!("{segments} of the names existed when their job was ended");
    assert!(segments > 0, "no job was ended while it had a segment");
}

/// The starter removes the name, or the warden if the starter was killed.
#[test]
fn a_segment_that_all_ranks_left_goes_with_the_job() {
    let folder = Folder::new();
    let notes = folder.join("notes");
    // As if all ranks were killed at once: the name stays, and so do those derived from it.
    let script = "touch /dev/shm/$COBRE_SHM_NAME /dev/shm/$COBRE_SHM_NAME.0; \
                  echo $COBRE_SHM_NAME $$ >\"$NOTES\"; exec sleep 1000";
    for signal in [Signal::KILL, Signal::TERM] {
        let mark = common::fresh_mark();
        let mut command = common::comm_run(&["-n", "1", "--", "sh", "-c", script], &mark);
        command.env("NOTES", &notes);
        let mut starter = Starter::of(command, mark);
        eventually("the name is known", || {
            fs::read_to_string(&notes).is_ok_and(|text| text.ends_with('\n'))
        });
        let (name, _) = begun(&notes);
        assert_eq!(left(&name).len(), 2);
        starter.signal(signal);
        starter.wait();
        starter.gone();
        assert!(left(&name).is_empty(), "{signal:?}: {:?}", left(&name));
    }
}

/// Segments of other jobs stay, even if their names are similar.
#[test]
fn a_name_that_only_begins_alike_stays() {
    let script = "touch /dev/shm/${COBRE_SHM_NAME}x; echo $COBRE_SHM_NAME";
    let ended = Starter::shell(1, script).end();
    let name = ended.stdout[0].strip_prefix("[0] ").unwrap();
    let found = left(name);
    fs::remove_file(format!("/dev/shm/{name}x")).unwrap();
    assert_eq!(found, [format!("{name}x")]);
}
