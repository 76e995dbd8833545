//! `--events FILE`: the events of a job, for other programs to read.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a helper of tests may fail like a test")]

mod common;

use std::io::{self, Write};
use std::path::Path;
use std::sync::{Arc, Mutex};

use comm_run::{Backend, Ending, Exit, Job, Line, Signal, StartError};
use common::{Ended, Folder, Key, Starter, fresh_mark, gone, node};
use rustix::process::Signal as Raw;
use serde_json::Value;

fn read(file: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(file).unwrap();
    assert!(text.ends_with('\n'), "{text}");
    let lines = text.lines().map(serde_json::from_str);
    lines.collect::<Result<_, _>>().unwrap()
}

/// Returns the values of one member in all events.
fn all<'a>(events: &'a [Value], member: &str) -> Vec<&'a str> {
    let texts = events.iter().map(|event| event[member].as_str());
    texts.map(|text| text.unwrap_or("none")).collect()
}

fn start(options: &[&str], file: &Path, program: &[&str]) -> Starter {
    let events = ["--events", file.to_str().unwrap()];
    Starter::new(&[options, &events, &["--"], program].concat())
}

fn run(options: &[&str], script: &str) -> (Ended, Vec<Value>) {
    let folder = Folder::new();
    let file = folder.join("events");
    let ended = start(options, &file, &["sh", "-c", script]).end();
    (ended, read(&file))
}

#[test]
fn a_job_that_ends_well_starts_and_ends() {
    let (ended, events) = run(&["-n", "2"], "echo $$ $COBRE_JOB_ID");
    assert_eq!(ended.code(), 0, "{ended:?}");
    assert_eq!(all(&events, "event"), ["started", "ended"]);
    let [start, end] = &events[..] else {
        panic!("{events:?}")
    };
    for (member, value) in [("backend", "shm"), ("program", "sh")] {
        assert_eq!(start[member], value, "{start}");
    }
    assert_eq!(
        (&start["size"], &start["first_rank"]),
        (&2.into(), &0.into())
    );
    for rank in 0..2 {
        let said = format!(
            "[{rank}] {} {}",
            start["pids"][rank],
            end["job"].as_str().unwrap()
        );
        assert!(ended.stdout.contains(&said), "{said}: {ended:?}");
        assert_eq!(end["ranks"][rank]["pid"], start["pids"][rank]);
    }
    assert_eq!(
        (&end["ending"], &end["exit_code"]),
        (&"completed".into(), &0.into())
    );
    assert_eq!(end["starts_again"], false);
    assert!(start["time"].as_f64() <= end["time"].as_f64(), "{events:?}");
}

#[test]
fn the_cause_is_the_rank_that_others_name() {
    let script = r#"pipe=/proc/$$/fd/${COBRE_COMM_REPORT_FD%%:*}; [ $RANK = 2 ] && exit 7;
                  [ $RANK = 1 ] && exec sleep 1000; [ $RANK = 0 ] && at=' src/solver.rs:88';
                  echo "cobre-report $RANK lost 2$at" >$pipe; exit 4"#;
    let (ended, events) = run(&["-n", "4"], script);
    assert_eq!(ended.code(), 7, "{ended:?}");
    assert_eq!(all(&events, "event"), ["started", "cause", "ended"]);
    let cause = &events[1];
    assert_eq!((&cause["rank"], &cause["code"]), (&2.into(), &7.into()));
    assert_eq!(cause["named_by"], serde_json::json!([0, 3]));
    assert_eq!(cause["reported"], "peer_lost");
    assert_eq!(cause["alike"], false);
    let ranks = events[2]["ranks"].as_array().unwrap();
    assert_eq!(all(ranks, "exit"), ["exited", "killed", "exited", "exited"]);
    assert_eq!(all(ranks, "signal"), ["none", "SIGTERM", "none", "none"]);
    assert_eq!(all(ranks, "ended_by"), ["none", "SIGTERM", "none", "none"]);
    assert_eq!(
        all(ranks, "reported"),
        ["peer_lost", "none", "none", "peer_lost"]
    );
    assert_eq!(ranks[0]["named"], 2);
    assert_eq!(ranks[0]["at"], "src/solver.rs:88");
    assert!(ranks[3]["at"].is_null());
}

#[test]
fn every_ending_has_its_name() {
    let (ended, events) = run(&["-n", "1"], "kill -s KILL $$");
    assert_eq!(
        (ended.code(), &events[1]["signal"]),
        (137, &"SIGKILL".into())
    );
    assert_eq!(events[1]["exit"], "killed");

    let (ended, events) = run(&["-n", "1", "--timeout", "0.2"], "exec sleep 1000");
    assert_eq!(
        (ended.code(), &events[1]["ending"]),
        (124, &"timed_out".into())
    );

    let folder = Folder::new();
    let file = folder.join("events");
    let starter = start(
        &["-n", "1"],
        &file,
        &["sh", "-c", "echo up; exec sleep 1000"],
    );
    starter.line();
    starter.signal(Raw::TERM);
    assert_eq!(starter.end().code(), 143);
    // The same file again, for a job that cannot start.
    let ended = start(&["-n", "1"], &file, &["./no-such \"program\""]).end();
    assert_eq!(ended.code(), 127, "{ended:?}");
    let events = read(&file);
    let expected = ["started", "cause", "ended", "not_started"];
    assert_eq!(all(&events, "event"), expected);
    assert_eq!(
        (&events[1]["ending"], &events[1]["signal"]),
        (&"stopped".into(), &"SIGTERM".into())
    );
    assert_eq!(
        (&events[3]["error"], &events[3]["exit_code"]),
        (&"program".into(), &127.into())
    );
    let message = events[3]["message"].as_str().unwrap();
    assert!(ended.says(message), "{message}: {ended:?}");
}

#[test]
fn ranks_of_the_second_machine_have_their_numbers_in_the_whole_job() {
    let key = Key::new("a secret of the test 0123456789abcdef", 0o600);
    let folder = Folder::new();
    let reported = folder.join("reported");
    // The ranks do not connect.
    let script = format!(
        "pipe=/proc/$$/fd/${{COBRE_COMM_REPORT_FD%%:*}}; \
         if [ $RANK = 2 ]; then echo cobre-report 2 lost 3 >$pipe; : >{0}; exit 4; fi; \
         while [ ! -e {0} ]; do sleep 0.01; done; exit 7",
        reported.display()
    );
    let (ended, events) = run(&node("1", "127.0.0.1:1", key.path()), &script);
    assert_eq!(ended.code(), 7, "{ended:?}");
    assert_eq!(all(&events, "event"), ["started", "cause", "ended"]);
    let cause = &events[1];
    assert_eq!(
        (&events[0]["first_rank"], &cause["rank"]),
        (&2.into(), &3.into())
    );
    assert_eq!(cause["named_by"], serde_json::json!([2]));
}

#[test]
fn each_start_has_its_own_events() {
    let script = "[ $COBRE_RESTART = 1 ] && exit 0; sleep 1.1; exit 7";
    let (ended, events) = run(&["-n", "1", "--max-restarts", "3"], script);
    assert_eq!(ended.code(), 0, "{ended:?}");
    let expected = ["started", "cause", "ended", "started", "ended"];
    assert_eq!(all(&events, "event"), expected);
    let restarts: Vec<_> = events
        .iter()
        .map(|event| event["restart"].as_u64())
        .collect();
    assert_eq!(restarts, [0, 0, 0, 1, 1].map(Some));
    assert_eq!(
        (&events[2]["starts_again"], &events[4]["starts_again"]),
        (&true.into(), &false.into())
    );
    assert_ne!(events[0]["job"], events[3]["job"]);
}

#[test]
fn a_file_that_cannot_be_written_starts_nothing_and_one_that_fills_up_ends_nothing() {
    let folder = Folder::new();
    let ended = start(
        &["-n", "1"],
        &folder.join("no/such/file"),
        &["echo", "started"],
    )
    .end();
    assert_eq!((ended.code(), ended.stdout.len()), (2, 0), "{ended:?}");
    assert!(ended.says("cannot write the events to "), "{ended:?}");
    let ended = start(&["-n", "1"], Path::new("/dev/full"), &["echo", "started"]).end();
    assert_eq!((ended.code(), ended.stdout.len()), (0, 1), "{ended:?}");
    let said = ended
        .stderr
        .iter()
        .filter(|line| line.contains("2 events were not written: No space left"));
    assert_eq!(said.count(), 1, "{ended:?}");
    // Nothing is started, so there are no events.
    let file = folder.join("events");
    let ended = start(&["-n", "1", "--dry-run"], &file, &["true"]).end();
    assert_eq!((ended.code(), file.exists()), (0, false), "{ended:?}");
}

/// Collects the written bytes and counts the writes.
#[derive(Clone, Default)]
struct Kept(Arc<Mutex<Vec<Vec<u8>>>>);

impl Write for Kept {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().push(bytes.to_vec());
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn the_library_writes_them_too_each_in_one_piece() {
    let (kept, mark) = (Kept::default(), fresh_mark());
    let job = |program: &str, size| {
        let job = Job::new(program, size).env("COMM_RUN_TEST_MARK", &mark);
        job.events(kept.clone()).sink(|_: Line<'_>| Ok(()))
    };
    let outcome = job("true", 300).run().unwrap();
    assert!(outcome.success(), "{outcome:?}");
    assert!(job("true", 0).run().is_err());
    let written = std::mem::take(&mut *kept.0.lock().unwrap());
    let events: Vec<Value> = written
        .iter()
        .map(|line| serde_json::from_slice(line).unwrap())
        .collect();
    assert_eq!(all(&events, "event"), ["started", "ended", "not_started"]);
    assert_eq!(events[1]["ranks"].as_array().unwrap().len(), 300);
    assert_eq!(events[2]["error"], "no_ranks");
    gone(&mark);
}

#[test]
fn the_readme_has_every_name() {
    let readme = include_str!("../README.md");
    let endings = [
        Ending::Completed,
        Ending::RankFailed(0),
        Ending::TimedOut,
        Ending::Stopped(Signal::Kill),
        Ending::OutputLost,
        Ending::Unknown(0),
    ];
    let exits = [Exit::Code(0), Exit::Signal(9), Exit::Unknown].map(Exit::as_str);
    let backends = [Backend::Shm, Backend::Tcp].map(Backend::as_str);
    let names = endings
        .map(Ending::as_str)
        .into_iter()
        .chain(exits)
        .chain(backends);
    for name in names.chain([StartError::NoRanks.as_str()]) {
        assert!(readme.contains(&format!("`{name}`")), "{name}");
    }
}
