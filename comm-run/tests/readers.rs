//! Readers that block, are late or never open their pipe: the output of a job delays neither signals nor timeouts, nor the end of
//! a job that failed or was stopped.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a helper of tests may fail like a test")]

mod common;

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use common::{Folder, Starter, comm_run, fill, fresh_mark};
use rustix::process::Signal;

/// A job with blocked readers has ended by then. It takes 13 s at most if a processor is free.
const HELD_UP: Duration = Duration::from_secs(40);

/// Creates a named pipe that a reader has open but does not read.
fn still(folder: &Folder, name: &str) -> (std::path::PathBuf, File) {
    let path = folder.fifo(name);
    let pipe = File::options().read(true).write(true).open(&path).unwrap();
    fill(pipe.try_clone().unwrap());
    (path, pipe)
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn script<'a>(options: &[&'a str], script: &'a str) -> Vec<&'a str> {
    [options, &["--", "sh", "-c", script]].concat()
}

/// A full pipe, with its reader.
fn full_pipe() -> (io::PipeReader, io::PipeWriter) {
    let (reader, writer) = io::pipe().unwrap();
    fill(writer.try_clone().unwrap());
    (reader, writer)
}

fn with_streams(args: &[&str], stdout: impl Into<Stdio>, stderr: impl Into<Stdio>) -> Starter {
    let mark = fresh_mark();
    let mut command: Command = comm_run(args, &mark);
    command.stdout(stdout).stderr(stderr);
    Starter::of(command, mark)
}

#[test]
fn events_that_nobody_reads_hold_up_nothing() {
    let folder = Folder::new();
    let (pipe, _reader) = still(&folder, "events");
    let sleeps = "echo up; exec sleep 1000";
    for (options, program, signals, code, lost) in [
        (
            &[][..],
            "[ $RANK = 1 ] && exit 7; exec sleep 1000",
            &[][..],
            7,
            3,
        ),
        (&["--timeout", "0.5"], sleeps, &[], 124, 3),
        (&[], sleeps, &[Signal::TERM], 143, 3),
        (
            &[],
            "trap '' INT; echo up; sleep 1000 & wait",
            &[Signal::INT, Signal::INT],
            130,
            3,
        ),
        (&[], "exit 0", &[], 0, 2),
    ] {
        let options = [&["-n", "3", "--events", text(&pipe)], options].concat();
        let mut starter = Starter::new(&script(&options, program));
        if !signals.is_empty() {
            starter.lines(3);
        }
        for &signal in signals {
            starter.signal(signal);
        }
        starter.wait_within(HELD_UP);
        let ended = starter.end();
        assert_eq!(ended.code(), code, "{ended:?}");
        let said = format!("{lost} events were not written: nobody read them in time");
        assert!(ended.says(&said), "{ended:?}");
    }
}

#[test]
fn events_of_a_thousand_ranks_reach_a_reader_that_comes_late() {
    let folder = Folder::new();
    let (pipe, go_on) = (folder.fifo("events"), folder.join("go-on"));
    let program = format!("while [ ! -e {} ]; do sleep 0.1; done", go_on.display());
    let options = ["-n", "200", "--events", text(&pipe)];
    let starter = Starter::new(&script(&options, &program));
    // Opening the pipe waits for the writer, and so for the job.
    let mut events = BufReader::new(File::open(&pipe).unwrap());
    let mut line = String::new();
    events.read_line(&mut line).unwrap();
    assert!(line.contains("\"event\":\"started\""), "{line}");
    std::fs::write(&go_on, "").unwrap();
    line.clear();
    events.read_to_string(&mut line).unwrap();
    assert!(
        line.ends_with("}]}\n") && line.contains("\"event\":\"ended\""),
        "{line}"
    );
    let ended = starter.end();
    assert_eq!((ended.code(), ended.stderr.len()), (0, 0), "{ended:?}");
}

#[test]
fn events_to_a_pipe_that_nobody_opens_hold_up_nothing() {
    let folder = Folder::new();
    let pipe = folder.fifo("events");
    let options = ["-n", "1", "--events", text(&pipe)];
    let mut starter = Starter::new(&script(&options, "exit 0"));
    starter.wait_within(HELD_UP);
    let ended = starter.end();
    assert_eq!(ended.code(), 0, "{ended:?}");
    assert!(ended.says("2 events were not written"), "{ended:?}");
}

#[test]
fn output_that_nobody_reads_does_not_keep_a_job_that_failed() {
    let (_reader, writer) = full_pipe();
    let program = "echo out; [ $RANK = 1 ] && exit 7; exec sleep 1000";
    let mut starter = with_streams(&script(&["-n", "3"], program), writer, Stdio::piped());
    starter.wait_within(HELD_UP);
    let ended = starter.end();
    assert_eq!(ended.code(), 7, "{ended:?}");
    assert!(ended.says("rank 1 exited with code 7"), "{ended:?}");
    let said = |line: &String| line.contains(" not written: nobody read ");
    assert!(ended.stderr.iter().any(said), "{ended:?}");
}

#[test]
fn a_job_that_ends_well_waits_for_its_reader_and_a_signal_ends_that() {
    for stop in [false, true] {
        let folder = Folder::new();
        let done = folder.join("done");
        let (reader, writer) = full_pipe();
        let program = format!(
            "seq 1 1000; echo $$ >{0}.new; mv {0}.new {0}",
            done.display()
        );
        let args = script(&["-n", "1"], &program);
        let mut starter = with_streams(&args, writer, Stdio::piped());
        common::eventually("the rank has written everything", || done.exists());
        let pid = std::fs::read_to_string(&done).unwrap();
        let pid = pid.trim().parse().unwrap();
        common::eventually("the rank has ended", || !common::alive(pid));
        if stop {
            starter.signal(Signal::TERM);
            starter.wait_within(HELD_UP);
            drop(reader);
        } else {
            // Longer than a failed job would wait.
            std::thread::sleep(Duration::from_secs(7));
            assert!(starter.child.try_wait().unwrap().is_none());
            let lines = BufReader::new(reader).lines().map(Result::unwrap);
            let lines: Vec<_> = lines.filter(|line| !line.is_empty()).collect();
            assert_eq!(lines.len(), 1000);
            assert_eq!(lines[999], "[0] 1000");
        }
        // The job had succeeded.
        assert_eq!(starter.end().code(), 0);
    }
}

#[test]
fn a_reader_of_the_report_that_stands_still_cannot_keep_the_ranks() {
    let (_reader, writer) = full_pipe();
    // The rank ignores the signal and is killed when its time is up, after the launcher has printed what it waits for.
    let program = "trap '' TERM; echo up; sleep 1000 & wait; wait";
    let args = script(&["-n", "2", "--grace", "2"], program);
    let mut starter = with_streams(&args, Stdio::piped(), writer);
    starter.lines(2);
    starter.signal(Signal::TERM);
    let status = starter.wait_within(HELD_UP);
    assert_eq!(status.code(), Some(143));
    starter.gone();
}

#[test]
fn logs_that_are_pipes_hold_up_nothing_and_lose_nothing() {
    let folder = Folder::new();
    let logs = folder.join("logs");
    std::fs::create_dir(&logs).unwrap();
    let pipe = folder.fifo("logs/rank-0.out");
    let options = ["-n", "1", "--log-dir", text(&logs)];
    // No reader opens the pipe.
    let mut stopped = Starter::new(&script(&options, "echo up; exec sleep 1000"));
    assert_eq!(stopped.line(), "[0] up");
    stopped.signal(Signal::TERM);
    stopped.wait_within(HELD_UP);
    let ended = stopped.end();
    assert_eq!(ended.code(), 143, "{ended:?}");
    assert!(ended.says("at least 1 line was not written"), "{ended:?}");
    // A reader opens the pipe later: the job succeeds, and waits.
    let job = Starter::new(&script(&options, "seq 1 1000"));
    job.lines(1000);
    let mut read = String::new();
    File::open(&pipe)
        .unwrap()
        .read_to_string(&mut read)
        .unwrap();
    assert_eq!(read.lines().count(), 1000);
    assert_eq!(job.end().code(), 0);
}

#[test]
fn a_terminal_that_stands_still_does_not_keep_the_logs() {
    let (_reader, writer) = full_pipe();
    let folder = Folder::new();
    let logs = folder.join("logs");
    let program = "seq 1 1000; exit 7";
    let args = script(&["-n", "1", "--log-dir", text(&logs)], program);
    let mut starter = with_streams(&args, writer, Stdio::piped());
    starter.wait_within(HELD_UP);
    assert_eq!(starter.end().code(), 7);
    let log = std::fs::read_to_string(logs.join("rank-0.out")).unwrap();
    assert_eq!(log.lines().count(), 1000);
}
