//! Nothing survives, neither the ranks nor the processes they started, whichever process ends first, and however it ends.
//!
//! `Starter::end` looks for leftovers itself, so every test here ends with it.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a helper of tests may fail like a test")]

mod common;

use std::time::{Duration, Instant};

use common::{Folder, Starter, alive, eventually};
use rustix::process::{Pid, Signal, kill_process};

/// Each rank has children and a grandchild in its group; one of them ignores Ctrl-C, as background
/// processes of a shell do.
const FAMILY: &str = "sleep 1000 & (sleep 1000; :) & sh -c 'sleep 1000 & wait' & echo $$; wait";

/// Prints that it was asked to end, and ends with a distinct code: that of a `sleep` would depend on the moment.
const ASKED: &str = "trap 'echo asked; exit 9' TERM; echo up; while :; do sleep 0.01; done";

fn pids(lines: &[String]) -> Vec<i32> {
    lines
        .iter()
        .map(|line| line.split_once("] ").unwrap().1.parse().unwrap())
        .collect()
}

#[test]
fn the_family_dies_with_the_starter_whatever_kills_it() {
    for signal in [
        Signal::KILL,
        Signal::TERM,
        Signal::INT,
        Signal::HUP,
        Signal::QUIT,
    ] {
        let mut starter = Starter::shell(3, FAMILY);
        starter.lines(3);
        starter.signal(signal);
        starter.wait();
        starter.gone();
    }
}

#[test]
fn the_family_dies_when_a_rank_is_killed() {
    let starter = Starter::shell(3, FAMILY);
    let victim = pids(&starter.lines(3))[1];
    kill_process(Pid::from_raw(victim).unwrap(), Signal::KILL).unwrap();
    assert_eq!(starter.end().code(), 137);
}

#[test]
fn the_family_dies_when_a_rank_exits() {
    let script = format!("[ $RANK = 2 ] && {{ sleep 1000 & exit 7; }}; {FAMILY}");
    assert_eq!(Starter::shell(3, &script).end().code(), 7);
}

#[test]
fn what_a_rank_leaves_after_a_normal_end_is_ended() {
    // A leftover that has closed its output is ended at once; one that holds the pipe gets half a second.
    for script in [
        "sleep 1000 >/dev/null 2>&1 & echo bye",
        "sleep 1000 & echo bye",
    ] {
        let ended = Starter::shell(2, script).end();
        assert_eq!((ended.code(), ended.stdout.len()), (0, 2), "{ended:?}");
    }
}

#[test]
fn what_a_rank_leaves_may_finish_its_lines() {
    // The leftover continues when the rank has ended, which closes the pipe.
    let folder = Folder::new();
    for rank in ["0", "1"] {
        folder.fifo(rank);
    }
    let pipe = format!("{}/$RANK", folder.join("").display());
    let script = format!("{{ read end <{pipe}; echo late; }} & exec 3>{pipe}; exit 0");
    let ended = Starter::shell(2, &script).end();
    assert_eq!((ended.code(), ended.stdout.len()), (0, 2), "{ended:?}");
}

#[test]
fn ranks_deaf_to_sigterm_are_killed() {
    let script = "[ $RANK = 0 ] && exit 3; trap '' TERM INT HUP; sleep 1000 & \
                  while :; do sleep 1000; done";
    let since = Instant::now();
    let ended = Starter::shell(3, script).end();
    assert_eq!(ended.code(), 3, "{ended:?}");
    assert!(ended.says("ended ranks 1, 2 with SIGKILL"), "{ended:?}");
    assert!(
        since.elapsed() >= Duration::from_secs(1),
        "asked for half a second: {:?}",
        since.elapsed()
    );
}

#[test]
fn a_frozen_rank_is_woken_to_be_asked() {
    let starter = Starter::shell(2, &ASKED.replace("up", "$$"));
    let frozen = pids(&starter.lines(2))[0];
    kill_process(Pid::from_raw(frozen).unwrap(), Signal::STOP).unwrap();
    starter.signal(Signal::TERM);
    let ended = starter.end();
    assert_eq!(ended.code(), 9, "{ended:?}");
    assert_eq!(ended.stdout.len(), 2, "{ended:?}");
}

#[test]
fn what_the_ranks_started_is_asked_too() {
    let starter = Starter::shell(2, &format!("sh -c '{}' & wait", ASKED.replace('\'', "\"")));
    starter.lines(2);
    starter.signal(Signal::TERM);
    let ended = starter.end();
    assert_eq!(ended.code(), 143);
    assert_eq!(ended.stdout.len(), 2, "{ended:?}");
}

#[test]
fn a_second_ctrl_c_does_not_wait() {
    let starter = Starter::shell(
        2,
        "trap 'echo deaf' INT; echo up; while :; do sleep 0.01; done",
    );
    starter.lines(2);
    starter.signal(Signal::INT);
    // Both ranks have received the first signal.
    starter.lines(2);
    starter.signal(Signal::INT);
    let ended = starter.end();
    assert_eq!(ended.code(), 130);
    assert!(ended.says("with SIGKILL"), "{ended:?}");
}

#[test]
fn a_job_within_a_job_dies_with_it() {
    for signal in [Signal::KILL, Signal::TERM, Signal::INT] {
        let inner = format!(
            "exec {} -n 2 -- sh -c 'echo $$; sleep 1000 & wait'",
            env!("CARGO_BIN_EXE_comm-run")
        );
        let mut starter = Starter::shell(2, &inner);
        starter.lines(4);
        starter.signal(signal);
        starter.wait();
        starter.gone();
    }
}

#[test]
fn the_warden_gone_first_does_no_harm() {
    let starter = Starter::shell(2, FAMILY);
    kill_warden(&starter);
    starter.signal(Signal::TERM);
    assert_eq!(starter.end().code(), 143);
}

#[test]
fn without_the_warden_the_kernel_ends_the_ranks() {
    let mut starter = Starter::shell(2, "echo $$; exec sleep 1000");
    kill_warden(&starter);
    starter.signal(Signal::KILL);
    starter.wait();
    starter.gone();
}

/// Expects two ranks that print their process ids.
fn kill_warden(starter: &Starter) {
    let ranks = pids(&starter.lines(2));
    let warden = children(starter.child.id())
        .into_iter()
        .find(|pid| !ranks.contains(pid))
        .unwrap();
    kill_process(Pid::from_raw(warden).unwrap(), Signal::KILL).unwrap();
    eventually("the warden is dead", || !alive(warden.unsigned_abs()));
}

fn children(of: u32) -> Vec<i32> {
    let tasks = std::fs::read_dir(format!("/proc/{of}/task"))
        .unwrap()
        .filter_map(Result::ok);
    tasks
        .map(|task| std::fs::read_to_string(task.path().join("children")).unwrap())
        .flat_map(|text| {
            text.split_whitespace()
                .map(|pid| pid.parse().unwrap())
                .collect::<Vec<_>>()
        })
        .collect()
}
