//! The library as a test driver uses it: sinks, handles, deadlines, policies.
#![cfg(target_os = "linux")]

mod common;

use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use comm_run::{
    Ending, Exit, Job, Line, LineEnd, Node, OnFailure, Outcome, Signal, StartError, Stream,
};
use common::{Folder, PATIENCE, alive, eventually, fresh_mark, gone};

type Lines = Receiver<(usize, Stream, String)>;

/// A job that runs a shell script, with its lines and its mark.
fn shell(size: usize, script: &str) -> (Job, Lines, String) {
    let mark = fresh_mark();
    let (sender, lines) = channel();
    let sink = move |line: Line<'_>| {
        let text = String::from_utf8_lossy(line.bytes).into_owned();
        sender
            .send((line.rank, line.stream, text))
            .map_err(io::Error::other)
    };
    let job = Job::new("sh", size)
        .args(["-c", script])
        .env("COMM_RUN_TEST_MARK", &mark);
    (job.sink(sink).timeout(PATIENCE), lines, mark)
}

fn exits(outcome: &Outcome) -> Vec<Option<Exit>> {
    outcome.ranks.iter().map(|rank| rank.exit).collect()
}

#[test]
fn arguments_and_variables_reach_their_rank() {
    let (job, lines, mark) = shell(2, "echo $COLOUR $COBRE_COMM_BACKEND $SIDE $*");
    let job = job
        .args(["name", "all"])
        .rank_args(0, ["zero"])
        .rank_args(1, ["one", "more"]);
    let job = job.env("COLOUR", "red").rank_env(1, "COLOUR", "blue");
    let job = job
        .env("COBRE_COMM_BACKEND", "local")
        .rank_env(0, "SIDE", "left")
        .current_dir("/");
    let outcome = job.run().unwrap();
    assert!(outcome.success(), "{outcome:?}");
    assert_eq!(outcome.exit_code(), 0);
    let mut lines: Vec<_> = lines.iter().collect();
    lines.sort_by_key(|line| line.0);
    let expected = [
        (0, "red local left all zero"),
        (1, "blue local all one more"),
    ];
    assert_eq!(
        lines,
        expected.map(|(rank, text)| (rank, Stream::Stdout, text.to_owned()))
    );
    gone(&mark);
}

#[test]
fn survivors_of_a_killed_rank_may_report_it() {
    // The survivors end only after the death of the victim, when the test signals them.
    let (job, lines, mark) = shell(
        3,
        "trap 'echo lost; exit 4' TERM; echo up; while :; do sleep 0.01; done",
    );
    let running = job.on_failure(OnFailure::LetOthersFinish).start().unwrap();
    let handle = running.handle();
    for _ in 0..3 {
        lines.recv_timeout(PATIENCE).unwrap();
    }
    let pids = running.pids();
    assert!(pids.iter().all(|&pid| alive(pid)));
    handle.signal(1, Signal::Kill).unwrap();
    // Reaped: now the handle returns an error, even if another process has the number.
    eventually("rank 1 is reaped", || {
        handle.signal(1, Signal::Continue).is_err()
    });
    // Longer than the default for the others.
    std::thread::sleep(Duration::from_millis(700));
    for rank in [0, 2] {
        handle.signal(rank, Signal::Terminate).unwrap();
    }
    let outcome = running.wait();
    assert_eq!(outcome.ending, Ending::RankFailed(1));
    assert_eq!(outcome.first_failure, Some(1));
    assert_eq!(
        exits(&outcome),
        [Exit::Code(4), Exit::Signal(9), Exit::Code(4)].map(Some)
    );
    assert!(
        outcome.ranks.iter().all(|rank| rank.ended_by.is_none()),
        "{outcome:?}"
    );
    assert!(!outcome.timed_out && outcome.ranks[1].elapsed < outcome.ranks[0].elapsed);
    assert_eq!(outcome.ranks[1].last_lines.len(), 1);
    assert_eq!(outcome.ranks[0].last_lines.last().unwrap().bytes, b"lost");
    assert_eq!(outcome.exit_code(), 137);
    gone(&mark);
}

#[test]
fn the_deadline_ends_survivors_that_hang() {
    let (job, _lines, mark) = shell(2, "[ $RANK = 0 ] && exit 5; exec sleep 1000");
    let job = job
        .on_failure(OnFailure::LetOthersFinish)
        .timeout(Duration::from_secs(3));
    let outcome = job.run().unwrap();
    assert!(outcome.timed_out);
    assert_eq!(outcome.ending, Ending::RankFailed(0));
    assert_eq!(outcome.ranks[1].ended_by, Some(Signal::Terminate));
    assert!(outcome.elapsed >= Duration::from_secs(3));
    gone(&mark);
}

#[test]
fn a_frozen_rank_is_absent_until_it_goes_on() {
    let (job, lines, mark) = shell(1, "while :; do echo tick; sleep 0.01; done");
    let running = job.start().unwrap();
    lines.recv_timeout(PATIENCE).unwrap();
    running.handle().signal(0, Signal::Stop).unwrap();
    let stat = format!("/proc/{}/stat", running.pids()[0]);
    eventually("rank 0 is frozen", || {
        std::fs::read_to_string(&stat).unwrap().contains(") T ")
    });
    running.handle().signal(0, Signal::Continue).unwrap();
    while lines.try_recv().is_ok() {}
    lines.recv_timeout(PATIENCE).unwrap();
    running.handle().stop(Signal::Terminate);
    let outcome = running.wait();
    assert_eq!(outcome.ending, Ending::Stopped(Signal::Terminate));
    assert_eq!(outcome.exit_code(), 143);
    gone(&mark);
}

#[test]
fn dropping_a_job_ends_it() {
    let (job, lines, mark) = shell(2, "trap '' TERM; sleep 1000 & echo up; wait; sleep 1000");
    let running = job.start().unwrap();
    let handle = running.handle();
    for _ in 0..2 {
        lines.recv_timeout(PATIENCE).unwrap();
    }
    drop(running);
    gone(&mark);
    assert!(handle.signal(0, Signal::Kill).is_err());
    handle.stop(Signal::Kill);
}

#[test]
fn a_sink_that_fails_or_panics_ends_the_job() {
    for panics in [false, true] {
        let mark = fresh_mark();
        let job = Job::new("yes", 2)
            .env("COMM_RUN_TEST_MARK", &mark)
            .timeout(PATIENCE);
        let sink = move |_: Line<'_>| {
            assert!(!panics, "this panic is part of the test");
            Err(io::Error::other("full"))
        };
        let outcome = job.sink(sink).run().unwrap();
        assert_eq!(outcome.ending, Ending::OutputLost, "{outcome:?}");
        assert!(outcome.output_error.is_some());
        gone(&mark);
    }
}

#[test]
fn a_job_outlives_the_thread_that_started_it() {
    let (job, lines, mark) = shell(2, "sleep 0.3; echo still here");
    // The parent-death signal depends on the thread that starts the ranks; this thread ends at once.
    let running = std::thread::spawn(move || job.start().unwrap())
        .join()
        .unwrap();
    let outcome = running.wait();
    assert!(outcome.success(), "{outcome:?}");
    assert_eq!(lines.iter().count(), 2);
    gone(&mark);
}

#[test]
fn jobs_do_not_disturb_each_other() {
    let run = |code: i32| {
        let (job, lines, mark) = shell(3, &format!("echo $COBRE_JOB_ID; exit {code}"));
        let outcome = job.on_failure(OnFailure::LetOthersFinish).run().unwrap();
        assert_eq!(exits(&outcome), [Some(Exit::Code(code)); 3]);
        gone(&mark);
        let mut ids: Vec<_> = lines.iter().map(|line| line.2).collect();
        ids.dedup();
        assert_eq!(ids.len(), 1, "one id per job");
        ids.remove(0)
    };
    let ids: Vec<_> = std::thread::scope(|scope| {
        let runs: Vec<_> = (0..8).map(|code| scope.spawn(move || run(code))).collect();
        runs.into_iter().map(|run| run.join().unwrap()).collect()
    });
    for (place, id) in ids.iter().enumerate() {
        assert!(!ids[..place].contains(id), "an id came twice");
    }
}

#[test]
fn jobs_that_cannot_start_say_why() {
    assert!(matches!(
        Job::new("true", 0).run(),
        Err(StartError::NoRanks)
    ));
    let error = Job::new("/no/such/program", 3).run().unwrap_err();
    assert_eq!(
        error.to_string(),
        "cannot start /no/such/program: no such file"
    );
    assert_eq!(error.exit_code(), 127);
    let error = Job::new("true", 1)
        .current_dir("/no/such/folder")
        .run()
        .unwrap_err();
    assert!(error.to_string().contains("/no/such/folder"), "{error}");
}

#[test]
fn descriptors_are_given_back_and_none_is_handed_on() {
    let open = || std::fs::read_dir("/proc/self/fd").unwrap().count();
    // One job first, so that the descriptors that tokio keeps for the process are open.
    shell(1, ":").0.run().unwrap();
    // Except for the pipe of the reports, which the variable names, and the folder that the shell has open while it lists it.
    let script = "for file in /proc/$$/fd/*; do number=${file##*/}; \
                  [ $number = \"${COBRE_COMM_REPORT_FD%%:*}\" ] || [ ! -e $file ] || echo $number; done; \
                  [ -z \"$COBRE_COMM_REPORT_FD\" ] || [ -p /proc/$$/fd/${COBRE_COMM_REPORT_FD%%:*} ]";
    // Descriptors that this program was started with are inherited; ours are not.
    let plain = std::process::Command::new("sh")
        .args(["-c", script])
        .env_remove("COBRE_COMM_REPORT_FD")
        .output()
        .unwrap();
    let (sender, lines) = channel();
    let job = Job::new("sh", 1)
        .args(["-c", script])
        .sink(move |line: Line<'_>| {
            sender
                .send(String::from_utf8_lossy(line.bytes).into_owned())
                .map_err(io::Error::other)
        });
    assert!(job.run().unwrap().success(), "there is no such pipe");
    let seen: Vec<_> = lines.iter().collect();
    assert_eq!(
        seen.join("\n"),
        String::from_utf8_lossy(&plain.stdout).trim_end()
    );
    // Other tests of this program open and close descriptors meanwhile, so the count is compared until
    // it fits.
    let before = open();
    for _ in 0..20 {
        shell(2, ":").0.run().unwrap();
    }
    eventually("no descriptor is left", || open() <= before);
}

#[test]
fn a_machine_beyond_the_last_is_refused() {
    let node = Node {
        nodes: 2,
        node: 2,
        coordinator: "localhost".into(),
        port: 1,
        secret_file: "key".into(),
    };
    let job = Job::new("true", 1).node(node);
    let error = job.dry_run().unwrap_err();
    assert!(matches!(
        error,
        StartError::NoSuchNode { node: 2, nodes: 2 }
    ));
    assert_eq!(job.start().unwrap_err().exit_code(), 2);
}

#[test]
fn what_a_live_rank_writes_arrives_before_its_line_has_ended() {
    let folder = Folder::new();
    let goes_on = folder.join("goes-on");
    let script = format!(
        "printf '10%%\\r50%%'; while [ ! -e {} ]; do sleep 0.01; done; printf ' done\\n'",
        goes_on.display()
    );
    let (sender, lines) = channel();
    let (job, _, mark) = shell(2, &script);
    let sink = move |line: Line<'_>| {
        let text = String::from_utf8_lossy(line.bytes).into_owned();
        sender
            .send((line.rank, text, line.end))
            .map_err(io::Error::other)
    };
    let running = job.sink(sink).live(0).start().unwrap();
    let first = lines.recv_timeout(PATIENCE).unwrap();
    assert_eq!(first, (0, "10%\r50%".to_owned(), LineEnd::Open));
    std::fs::write(&goes_on, "").unwrap();
    let outcome = running.wait();
    let mut rest: Vec<_> = lines.iter().collect();
    rest.sort_by_key(|line| line.0);
    let expected = [
        (0, " done", LineEnd::Newline),
        (1, "10%\r50% done", LineEnd::Newline),
    ];
    assert_eq!(
        rest,
        expected.map(|(rank, text, end)| (rank, text.to_owned(), end))
    );
    for rank in outcome.ranks {
        let last: Vec<_> = rank.last_lines.into_iter().map(|line| line.bytes).collect();
        assert_eq!(last, [b"10%\r50% done"]);
    }
    gone(&mark);
}

#[test]
fn a_passed_descriptor_reaches_its_rank_and_nobody_else() {
    let folder = Folder::new();
    let file = std::fs::File::create(folder.join("file")).unwrap();
    let number = file.as_raw_fd();
    // By its path, because `>&` of a shell may take one digit only.
    let file_of_rank = format!("/proc/$$/fd/{number}");
    let script = format!("[ ! -e {file_of_rank} ] || echo rank $RANK >> {file_of_rank}");
    let (job, _, mark) = shell(3, &script);
    let outcome = job.pass_descriptor(1, OwnedFd::from(file)).run().unwrap();
    assert!(outcome.success(), "{outcome:?}");
    assert_eq!(
        std::fs::read_to_string(folder.join("file")).unwrap(),
        "rank 1\n"
    );
    gone(&mark);
}

/// The reader of a pipe notices that the last writer has closed it, although the job continues.
#[test]
fn the_launcher_lets_go_of_what_it_passed_on() {
    for restarts in [0, 1] {
        let (reader, writer) = io::pipe().unwrap();
        let pipe = writer.as_raw_fd();
        let script = format!(
            "echo up >&{pipe}; [ \"${{COBRE_RESTART-0}}\" = {restarts} ] || {{ sleep 1.1; exit 7; }}; \
             exec {pipe}>&-; echo closed; exec sleep 1000"
        );
        let mark = fresh_mark();
        let (sender, lines) = channel();
        let job = Job::new("bash", 1)
            .args(["-c", &script])
            .env("COMM_RUN_TEST_MARK", &mark)
            .max_restarts(restarts)
            .timeout(PATIENCE)
            .sink(move |_: Line<'_>| sender.send(()).map_err(io::Error::other))
            .pass_descriptor(0, OwnedFd::from(writer));
        let running = job.start().unwrap();
        lines.recv_timeout(PATIENCE).unwrap();
        let (ended, end) = channel();
        let read = std::thread::spawn(move || {
            let text = io::read_to_string(reader);
            ended.send(()).unwrap();
            text.unwrap()
        });
        let seen = end.recv_timeout(Duration::from_secs(10));
        running.handle().stop(Signal::Kill);
        let outcome = running.wait();
        assert_eq!(seen, Ok(()), "{restarts} restarts: {outcome:?}");
        assert_eq!(read.join().unwrap(), "up\n".repeat(restarts + 1));
        assert_eq!(outcome.ending, Ending::Stopped(Signal::Kill));
        gone(&mark);
    }
}
