//! Limits of the system, and jobs with many ranks.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a helper of tests may fail like a test")]

mod common;

use common::{Ended, Folder, Starter, comm_run_in_shell, fresh_mark};

fn in_shell(script: &str) -> Ended {
    let mark = fresh_mark();
    Starter::of(comm_run_in_shell(script, &mark), mark).end()
}

#[test]
fn a_soft_limit_on_descriptors_is_raised_and_the_ranks_get_it_back() {
    let ended = in_shell("ulimit -Sn 40; exec \"$0\" -n 50 -- sh -c 'ulimit -Sn'");
    assert_eq!(ended.code(), 0, "{ended:?}");
    assert_eq!(ended.stdout.len(), 50);
    let kept = ended.stdout.iter().all(|line| line.ends_with("] 40"));
    assert!(kept, "{ended:?}");
}

/// All ranks connect to rank 0 and to no other rank.
#[test]
fn only_rank_0_over_tcp_may_open_more_than_the_soft_limit() {
    let ended = in_shell("ulimit -Sn 40; exec \"$0\" -n 50 --backend tcp -- sh -c 'ulimit -Sn'");
    assert_eq!(ended.code(), 0, "{ended:?}");
    let raised = ended.stdout.iter().filter(|line| !line.ends_with("] 40"));
    let raised: Vec<_> = raised.map(|line| line.split(']').next()).collect();
    assert_eq!(raised, [Some("[0")], "{ended:?}");
}

#[test]
fn logs_are_counted_too() {
    let folder = Folder::new();
    let logs = folder.join("logs");
    let logs = logs.to_str().unwrap();
    let ended = in_shell(&format!(
        "ulimit -Sn 40; exec \"$0\" -n 20 --log-dir {logs} -- true"
    ));
    assert_eq!(ended.code(), 0, "{ended:?}");
}

#[test]
fn too_few_descriptors_are_125_with_the_number_needed() {
    for limit in [6, 40, 100, 200] {
        let ended = in_shell(&format!("ulimit -n {limit}; exec \"$0\" -n 100 -- true"));
        assert_eq!(ended.code(), 125, "{limit}: {ended:?}");
        let said = &ended.stderr[..];
        let [line] = said else {
            panic!("one line: {ended:?}");
        };
        let needed: usize = line
            .split_once("100 ranks need ")
            .and_then(|(_, rest)| rest.split(' ').next())
            .unwrap()
            .parse()
            .unwrap();
        assert!(
            line.contains(&format!("the limit here is {limit};")),
            "{line}"
        );
        // The limit that the message asks for is enough.
        let ended = in_shell(&format!("ulimit -n {needed}; exec \"$0\" -n 100 -- true"));
        assert_eq!(ended.code(), 0, "{needed}: {ended:?}");
    }
}

#[test]
fn a_start_that_fails_midway_leaves_nothing() {
    // The program removes itself when the first ranks start.
    let folder = Folder::new();
    let program = folder.join("program");
    std::fs::write(&program, "#!/bin/sh\nrm -f \"$0\"\nexec sleep 1000\n").unwrap();
    let program = program.to_str().unwrap();
    let ended = in_shell(&format!(
        "chmod +x {program}; exec \"$0\" -n 500 -- {program}"
    ));
    assert_eq!(ended.code(), 127, "{ended:?}");
    assert!(ended.says(&format!("cannot start {program}")), "{ended:?}");
}

#[test]
fn ctrl_c_while_three_hundred_ranks_start_is_heard_between_two_of_them() {
    // The first ranks send the signal themselves, so the test cannot send it too late.
    for (signal, code) in [("INT", 130), ("TERM", 143)] {
        let script = format!("trap '' INT TERM; kill -s {signal} $PPID; exec sleep 1000");
        let ended = Starter::shell(300, &script).end();
        assert_eq!(ended.code(), code, "{ended:?}");
        let started = ended.stderr.iter().find_map(|line| {
            let (head, _) = line.split_once(" of 300 ranks had started")?;
            head.rsplit(' ').next()?.parse::<usize>().ok()
        });
        assert!(started.is_some_and(|started| started < 300), "{ended:?}");
    }
}
