//! A stop that leaves the ranks time to end: they end by themselves, and the exit code is theirs.
#![cfg(target_os = "linux")]

mod common;

use std::time::{Duration, Instant};

use common::{Ended, Starter};
use rustix::process::Signal;

/// Finishes its iteration, as a solver does, and writes its policy; each rank exits with a different code.
const SOLVER: &str = "trap 'asked=1' TERM INT; echo up; while [ -z \"$asked\" ]; do sleep 0.01; done; \
                      sleep 1.2; echo policy; exit $((5 * RANK))";

fn start(options: &[&str], script: &str) -> Starter {
    let starter = Starter::new(&[&["-n", "2"], options, &["--", "sh", "-c", script]].concat());
    starter.lines(2);
    starter
}

fn stopped(starter: Starter, signal: Signal) -> Ended {
    starter.signal(signal);
    starter.end()
}

#[test]
fn ranks_that_need_longer_than_half_a_second_end_by_themselves() {
    for signal in [Signal::TERM, Signal::INT] {
        let ended = stopped(start(&[], SOLVER), signal);
        assert_eq!(ended.code(), 5, "{ended:?}");
        assert_eq!(ended.stdout.len(), 2, "{ended:?}");
        assert!(ended.says("stopped by SIG"), "{ended:?}");
        // The message names the signal and the ranks that still run.
        assert!(ended.says("was passed on; 2 ranks have"), "{ended:?}");
    }
}

#[test]
fn the_exit_code_is_that_of_the_ranks() {
    // All ranks succeed although they were stopped; then some that do not end by themselves.
    for (script, code) in [
        (
            "trap 'exit 0' TERM; echo up; while :; do sleep 0.01; done",
            0,
        ),
        (
            "[ $RANK = 1 ] && trap 'exit 5' TERM; echo up; while :; do sleep 0.01; done",
            143,
        ),
    ] {
        let ended = stopped(start(&[], script), Signal::TERM);
        assert_eq!(ended.code(), code, "{ended:?}");
    }
}

#[test]
fn the_grace_is_what_the_option_says() {
    let deaf = "trap '' TERM INT; echo up; while :; do sleep 0.01; done";
    for signal in [Signal::TERM, Signal::INT] {
        let since = Instant::now();
        let ended = stopped(start(&["--grace", "1.5"], deaf), signal);
        assert_eq!(ended.code(), 128 + signal.as_raw(), "{ended:?}");
        assert!(ended.says("with SIGKILL"), "{ended:?}");
        assert!(since.elapsed() >= Duration::from_millis(1500), "{ended:?}");
    }
}

#[test]
fn a_signal_that_comes_twice_does_not_kill_but_a_second_ctrl_c_does() {
    let starter = start(&[], SOLVER);
    // As `timeout` sends it: to the process and to its group.
    starter.signal(Signal::TERM);
    starter.signal(Signal::TERM);
    let ended = stopped(starter, Signal::TERM);
    assert_eq!(ended.code(), 5, "{ended:?}");

    let deaf = "trap 'echo heard' TERM; trap '' INT; echo up; while :; do sleep 0.01; done";
    let starter = start(&["--grace", "600"], deaf);
    starter.signal(Signal::TERM);
    starter.lines(2);
    starter.signal(Signal::INT);
    let ended = starter.end();
    assert_eq!(ended.code(), 143, "{ended:?}");
    assert!(ended.says("with SIGKILL"), "{ended:?}");
}

#[test]
fn other_signals_go_to_the_ranks() {
    let script =
        "trap 'echo one' USR1; trap 'echo two; exit 3' USR2; echo up; while :; do sleep 0.01; done";
    let starter = start(&[], script);
    starter.signal(Signal::USR1);
    assert!(starter.lines(2).iter().all(|line| line.ends_with("one")));
    let ended = stopped(starter, Signal::USR2);
    assert_eq!((ended.code(), ended.stdout.len()), (3, 2), "{ended:?}");
}

#[test]
fn sigquit_is_a_stop_too() {
    let ended = stopped(start(&[], "echo up; exec sleep 1000"), Signal::QUIT);
    assert_eq!(ended.code(), 131, "{ended:?}");
    assert!(ended.says("stopped by SIGQUIT"), "{ended:?}");
}
