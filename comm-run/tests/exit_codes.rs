//! The messages and exit codes of `comm-run`, for every way in which a job can end.
#![cfg(target_os = "linux")]

mod common;

use std::time::Instant;

use common::{Folder, Starter, alive, comm_run_in_shell, eventually, fresh_mark};
use rustix::process::{Pid, Signal, kill_process};

fn end(args: &[&str]) -> common::Ended {
    Starter::new(args).end()
}

#[test]
fn all_well_is_zero_and_says_nothing() {
    let ended = end(&["-n", "3", "--", "true"]);
    assert_eq!(ended.code(), 0);
    assert!(
        ended.stdout.is_empty() && ended.stderr.is_empty(),
        "{ended:?}"
    );
}

#[test]
fn wrong_usage_is_two() {
    for args in [
        &[][..],
        &["-n", "2"],
        &["-n", "2", "--"],
        &["-n", "0", "--", "true"],
        &["-n", "x", "--", "true"],
        &["-n", "-1", "--", "true"],
        &["--", "true"],
        &["-n", "1", "--timeout", "soon", "--", "true"],
    ] {
        let ended = end(args);
        assert_eq!(ended.code(), 2, "{args:?}: {ended:?}");
        assert!(
            !ended.stderr.is_empty() && ended.stdout.is_empty(),
            "{args:?}: {ended:?}"
        );
    }
}

#[test]
fn help_is_for_people_and_no_error() {
    let ended = end(&["--help"]);
    assert_eq!(ended.code(), 0);
    for word in ["Examples:", "--timeout", "Exit code:", "127"] {
        assert!(
            ended.stdout.iter().any(|line| line.contains(word)),
            "{word}: {ended:?}"
        );
    }
}

#[test]
fn a_program_that_is_not_there_is_named() {
    for program in ["no-such-program-anywhere", "./no/such/program"] {
        let ended = end(&["-n", "2", "--", program]);
        assert_eq!(ended.code(), 127, "{ended:?}");
        assert!(ended.says(program), "{ended:?}");
    }
}

#[test]
fn a_file_that_is_no_program_is_126() {
    let ended = end(&["-n", "2", "--", "/dev/null"]);
    assert_eq!(ended.code(), 126, "{ended:?}");
    assert!(ended.says("/dev/null"), "{ended:?}");
}

#[test]
fn the_first_failing_rank_gives_the_code_and_its_last_lines() {
    let script = "for n in $(seq 1 30); do echo out $n; done; echo why >&2; \
                  [ $RANK = 1 ] && exit 7; exec sleep 1000";
    let since = Instant::now();
    let ended = Starter::shell(3, script).end();
    assert_eq!(ended.code(), 7, "{ended:?}");
    assert!(ended.says("rank 1 exited with code 7"), "{ended:?}");
    assert!(ended.says("ended ranks 0, 2 with SIGTERM"), "{ended:?}");
    let shown: Vec<_> = ended
        .stderr
        .iter()
        .filter_map(|line| line.strip_prefix("comm-run:   [1] "))
        .collect();
    // Twenty lines of stdout and the one of stderr, in the order in which they were read.
    assert_eq!(shown.len(), 21, "{ended:?}");
    assert!(
        shown.contains(&"why") && shown.contains(&"out 30"),
        "{shown:?}"
    );
    assert!(
        shown.contains(&"out 11") && !shown.contains(&"out 10"),
        "{shown:?}"
    );
    assert!(
        since.elapsed().as_millis() >= 500,
        "the others had no time to report it"
    );
}

#[test]
fn ranks_that_fail_alike_are_all_listed() {
    let ended = Starter::shell(3, "exit 2").end();
    assert_eq!(ended.code(), 2, "{ended:?}");
    // In the headline or in the list of codes: on a busy machine the ranks may not end together.
    let all = |line: &String| line.contains("ranks 0-2 ") && line.contains("exited with code 2");
    assert!(ended.stderr.iter().any(all), "{ended:?}");
    let alone = Starter::shell(1, "exit 2").end();
    assert_eq!(alone.stderr.len(), 2, "{alone:?}");
}

#[test]
fn others_that_report_the_failure_within_half_a_second_are_not_signalled() {
    // The others notice its end through a pipe, as through a lost connection, without any delay.
    let folder = Folder::new();
    let [one, two] = ["1", "2"].map(|name| folder.fifo(name));
    let script = format!(
        "trap 'echo told to end; exit 1' TERM; [ $RANK = 0 ] && exec 3>{} 4>{} && exit 9; read end <{}/$RANK; exit 3",
        one.display(),
        two.display(),
        folder.join("").display()
    );
    let ended = Starter::shell(3, &script).end();
    assert_eq!(ended.code(), 9, "{ended:?}");
    assert!(
        ended.stdout.is_empty() && !ended.says("ended rank"),
        "{ended:?}"
    );
}

#[test]
fn a_killed_rank_is_128_plus_signal_and_named() {
    for (signal, code, name) in [
        (Signal::KILL, 137, "SIGKILL"),
        (Signal::ABORT, 134, "SIGABRT"),
        (Signal::SEGV, 139, "SIGSEGV"),
    ] {
        let starter = Starter::shell(3, "echo $RANK $$; exec sleep 1000");
        let lines = starter.lines(3);
        let victim = lines
            .iter()
            .find_map(|line| line.strip_prefix("[2] 2 "))
            .unwrap();
        kill_process(Pid::from_raw(victim.parse().unwrap()).unwrap(), signal).unwrap();
        let ended = starter.end();
        assert_eq!(ended.code(), code, "{ended:?}");
        assert!(
            ended.says(&format!("rank 2 was killed by {name}")),
            "{ended:?}"
        );
    }
}

#[test]
fn of_two_that_are_found_dead_together_the_killed_one_is_to_blame() {
    // Rank 0 only exits, as survivors do that report a loss, and it exits first. It may do so before it prints its process id.
    let script = "[ $RANK = 0 ] && trap 'exit 7' TERM; echo $$; \
                  [ $RANK = 0 ] && while :; do sleep 0.01; done; exec sleep 60";
    let starter = Starter::shell(2, script);
    let mut pids = [0; 2];
    for line in starter.lines(2) {
        let (rank, pid) = line.split_once(' ').unwrap();
        pids[usize::from(rank == "[1]")] = pid.parse().unwrap();
    }
    // The launcher sees neither until both are gone.
    starter.signal(Signal::STOP);
    for (pid, signal) in pids.into_iter().zip([Signal::TERM, Signal::KILL]) {
        kill_process(Pid::from_raw(pid).unwrap(), signal).unwrap();
        eventually("the rank has ended", || !alive(pid.unsigned_abs()));
    }
    starter.signal(Signal::CONT);
    let ended = starter.end();
    assert_eq!(ended.code(), 137, "{ended:?}");
    assert!(ended.says("rank 1 was killed by SIGKILL"), "{ended:?}");
}

#[test]
fn the_timeout_is_124() {
    let ended = end(&["-n", "2", "--timeout", "0.2", "--", "sleep", "1000"]);
    assert_eq!(ended.code(), 124, "{ended:?}");
    assert!(ended.says("the job timed out after 0.2 s"), "{ended:?}");
}

#[test]
fn signals_to_the_starter_reach_the_ranks_and_give_128_plus_signal() {
    for (signal, code, name) in [
        (Signal::INT, 130, "INT"),
        (Signal::TERM, 143, "TERM"),
        (Signal::HUP, 129, "HUP"),
    ] {
        let script = "for name in INT TERM HUP; do \
                      trap \"echo got $name; trap - $name; kill -s $name $$\" $name; done; \
                      echo ready; while :; do sleep 0.01; done";
        let starter = Starter::shell(2, script);
        starter.lines(2);
        starter.signal(signal);
        let ended = starter.end();
        assert_eq!(ended.code(), code, "{ended:?}");
        assert!(ended.says(&format!("stopped by SIG{name}")), "{ended:?}");
        assert_eq!(ended.stdout.len(), 2, "{ended:?}");
        assert!(
            ended
                .stdout
                .iter()
                .all(|line| line.ends_with(&format!("got {name}"))),
            "{ended:?}"
        );
    }
}

#[test]
fn a_signal_that_is_ignored_stays_ignored() {
    let mark = fresh_mark();
    let script = "trap '' HUP; exec \"$0\" -n 1 -- sh -c 'echo ready; sleep 0.2; echo done'";
    let command = comm_run_in_shell(script, &mark);
    let starter = Starter::of(command, mark);
    assert_eq!(starter.line(), "[0] ready");
    starter.signal(Signal::HUP);
    let ended = starter.end();
    assert_eq!(ended.code(), 0, "{ended:?}");
    assert_eq!(ended.stdout, ["[0] done"]);
}
