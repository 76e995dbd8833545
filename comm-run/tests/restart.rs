//! Failed jobs that are restarted, and failed jobs that are not.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a helper of tests may fail like a test")]

mod common;

use std::sync::mpsc::channel;
use std::time::Duration;

use comm_run::{Ending, Job, Line, Notice};
use common::{Ended, Starter, fresh_mark, gone};
use rustix::process::{Pid, Signal, kill_process};

/// Prints which start this is, and fails after a second in the first two.
const FAILS_TWICE: &str = "echo start $COBRE_RESTART $COBRE_SHM_NAME $COBRE_JOB_ID; \
                           [ $COBRE_RESTART = 2 ] && exit 0; [ $RANK = 1 ] && sleep 1.1 && exit 7; exec sleep 1000";

fn run(restarts: &str, script: &str) -> Ended {
    Starter::new(&[
        "-n",
        "2",
        "--max-restarts",
        restarts,
        "--",
        "sh",
        "-c",
        script,
    ])
    .end()
}

fn starts(ended: &Ended) -> Vec<Vec<&str>> {
    let starts = ended
        .stdout
        .iter()
        .filter_map(|line| line.split_once("start "));
    starts.map(|(_, rest)| rest.split(' ').collect()).collect()
}

#[test]
fn a_failed_job_starts_again_under_another_name() {
    let ended = run("3", FAILS_TWICE);
    assert_eq!(ended.code(), 0, "{ended:?}");
    let mut starts = starts(&ended);
    starts.sort_unstable();
    let counts: Vec<_> = starts.iter().map(|start| start[0]).collect();
    assert_eq!(counts, ["0", "0", "1", "1", "2", "2"]);
    starts.dedup();
    assert_eq!(
        starts.len(),
        3,
        "the ranks of a start have one name: {starts:?}"
    );
    for field in [1, 2] {
        assert_ne!(starts[0][field], starts[1][field]);
        assert_ne!(starts[1][field], starts[2][field]);
    }
    assert!(ended.says("rank 1 exited with code 7"), "{ended:?}");
    assert!(ended.says("starting again, 2 of 3"), "{ended:?}");
}

#[test]
fn the_last_failure_stays() {
    let ended = run("1", FAILS_TWICE);
    assert_eq!(ended.code(), 7, "{ended:?}");
    assert_eq!(starts(&ended).len(), 4, "{ended:?}");
}

#[test]
fn without_the_option_nothing_is_restarted_or_counted() {
    let script = "echo \"start ${COBRE_RESTART-unset}\"; sleep 1.1; exit 7";
    let ended = Starter::shell(1, script).end();
    assert_eq!((ended.code(), starts(&ended)), (7, vec![vec!["unset"]]));
}

#[test]
fn what_would_fail_again_is_not_restarted() {
    let wrongly = "means that the program was started wrongly";
    for (script, code, why) in [
        (
            "echo start now; exit 7",
            7,
            "it failed within its first second",
        ),
        ("echo start now; sleep 1.1; exit 2", 2, wrongly),
        ("echo start now; sleep 1.1; no-such-program", 127, wrongly),
    ] {
        let ended = run("5", script);
        assert_eq!(ended.code(), code, "{ended:?}");
        assert_eq!(starts(&ended).len(), 2, "{ended:?}");
        assert!(!ended.says("starting again"), "{ended:?}");
        let last = ended.stderr.last().unwrap();
        assert!(
            last.starts_with("comm-run: not started again: ") && last.ends_with(why),
            "{ended:?}"
        );
        // Without --max-restarts.
        let ended = run("0", script);
        assert!(!ended.says("started again"), "{ended:?}");
    }
}

#[test]
fn the_first_second_begins_anew_with_each_start() {
    let script = "echo start $COBRE_RESTART; [ $COBRE_RESTART = 0 ] && sleep 1.1; exit 7";
    let args = ["-n", "1", "--max-restarts", "5", "--", "sh", "-c", script];
    let ended = Starter::new(&args).end();
    assert_eq!(ended.code(), 7, "{ended:?}");
    assert!(ended.says("starting again, 1 of 5"), "{ended:?}");
    assert!(ended.says("it failed within its first second"), "{ended:?}");
}

#[test]
fn one_timeout_is_for_all_starts_together() {
    let script = "echo start now; sleep 1.1; exit 7";
    let args = ["-n", "2", "--max-restarts", "50", "--timeout", "4"];
    let ended = Starter::new(&[&args[..], &["--", "sh", "-c", script]].concat()).end();
    assert_eq!(ended.code(), 124, "{ended:?}");
    assert!(ended.says("starting again, 1 of 50"), "{ended:?}");
    assert!(starts(&ended).len() <= 8, "{ended:?}");
}

#[test]
fn a_stop_or_a_timeout_does_not_restart() {
    let script = "trap 'exit 5' TERM; echo start now; while :; do sleep 0.01; done";
    let args = ["-n", "2", "--max-restarts", "5"];
    let program = ["--", "sh", "-c", script];
    let starter = Starter::new(&[&args[..], &program].concat());
    starter.lines(2);
    std::thread::sleep(Duration::from_millis(1100));
    starter.signal(Signal::TERM);
    let ended = starter.end();
    assert_eq!((ended.code(), ended.stdout.len()), (5, 0), "{ended:?}");
    // Stopped while the others report the failure. That phase lasts as long as the lost rank lives, but at most 5 s.
    let script = "echo start $$; [ $RANK = 0 ] && sleep 1.1 && exit 7; \
                  echo cobre-report 0 lost 1 >/proc/$$/fd/${COBRE_COMM_REPORT_FD%%:*}; exec sleep 1000";
    let starter = Starter::new(&[&args[..], &["--", "sh", "-c", script]].concat());
    let first = starter.lines(2).into_iter();
    let first = first.min().unwrap();
    let pid = first.strip_prefix("[0] start ").unwrap().parse().unwrap();
    common::eventually("rank 0 fails", || !common::alive(pid));
    starter.signal(Signal::TERM);
    let ended = starter.end();
    // The code of the rank: if the stop were the first cause, it would be that of the signal.
    assert_eq!(ended.code(), 7, "{ended:?}");
    assert!(!ended.says("starting again"), "{ended:?}");
    let ended = Starter::new(&[&args[..], &["--timeout", "3"], &program].concat()).end();
    assert_eq!((ended.code(), starts(&ended).len()), (124, 2), "{ended:?}");
}

#[test]
fn a_stop_in_a_later_start_is_heard() {
    let script =
        "echo start $COBRE_RESTART; [ $COBRE_RESTART = 0 ] && sleep 1.1 && exit 1; exec sleep 1000";
    let args = ["-n", "1", "--max-restarts", "5", "--", "sh", "-c", script];
    let starter = Starter::new(&args);
    assert_eq!(starter.lines(2), ["[0] start 0", "[0] start 1"]);
    starter.signal(Signal::INT);
    let ended = starter.end();
    assert_eq!(ended.code(), 130, "{ended:?}");
}

#[test]
fn the_library_tells_of_a_restart_and_its_handle_reaches_the_new_ranks() {
    let mark = fresh_mark();
    let ((sender, lines), (told, notices)) = (channel(), channel());
    let script = "echo $COBRE_RESTART $$; exec sleep 1000";
    let job = Job::new("sh", 2)
        .args(["-c", script])
        .env("COMM_RUN_TEST_MARK", &mark)
        .timeout(common::PATIENCE)
        .max_restarts(1)
        .on_notice(move |notice| {
            if let Notice::Restarting { outcome, restart } = notice {
                told.send((outcome.ending, *restart)).unwrap();
            }
        })
        .sink(move |line: Line<'_>| {
            let text = String::from_utf8_lossy(line.bytes).into_owned();
            sender.send(text).map_err(std::io::Error::other)
        });
    let running = job.start().unwrap();
    let handle = running.handle();
    let next = || lines.recv_timeout(common::PATIENCE).unwrap();
    for restart in ["0 ", "1 "] {
        assert!(
            [next(), next()]
                .iter()
                .all(|line| line.starts_with(restart))
        );
        // A failure in the first second would be the last.
        std::thread::sleep(Duration::from_millis(1100));
        let pid = i32::try_from(handle.pids()[1]).unwrap();
        kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL).unwrap();
    }
    let outcome = running.wait();
    assert_eq!(outcome.ending, Ending::RankFailed(1));
    assert_eq!((outcome.restarts, outcome.exit_code()), (1, 137));
    assert_eq!(
        notices.iter().collect::<Vec<_>>(),
        [(Ending::RankFailed(1), 1)]
    );
    gone(&mark);
}
