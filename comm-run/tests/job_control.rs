//! Ctrl-Z and `fg`, and a launcher that is the first process of a container.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a helper of tests may fail like a test")]

mod common;

use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};
use std::time::Duration;

use common::trial::{unshare, works};
use common::{Starter, comm_run, eventually, fresh_mark};
use rustix::process::Signal;

/// Starts `comm-run` in its own group, as a shell with job control does: this process can continue it.
fn start(args: &[&str]) -> Starter {
    let mark = fresh_mark();
    let mut command = comm_run(args, &mark);
    command.process_group(0);
    Starter::of(command, mark)
}

fn state(pid: u32) -> char {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat
        .rsplit_once(") ")
        .and_then(|(_, rest)| rest.chars().next());
    state.unwrap_or('X')
}

/// Returns whether a rank is stopped, or waits for a stopped process that it is just starting.
fn stands_still(pid: u32) -> bool {
    matches!(state(pid), 'T' | 'D')
}

fn pids(starter: &Starter, ranks: usize) -> Vec<u32> {
    let mut pids = Vec::new();
    while pids.len() < ranks {
        let line = starter.line();
        pids.extend(
            line.split(' ')
                .nth(1)
                .and_then(|word| word.parse::<u32>().ok()),
        );
    }
    pids
}

/// Presses Ctrl-Z, waits until everything is stopped, and then for this long.
fn suspend(starter: &Starter, ranks: &[u32], pause: Duration) {
    starter.signal(Signal::TSTP);
    eventually("comm-run is stopped", || state(starter.child.id()) == 'T');
    for &rank in ranks {
        // The signal is sent by now; a busy system delivers it a moment later.
        eventually("a rank is stopped", || stands_still(rank));
    }
    std::thread::sleep(pause);
    for &rank in ranks {
        assert!(stands_still(rank), "a rank goes on too soon");
    }
}

#[test]
fn ctrl_z_stops_the_whole_job_and_fg_continues_it() {
    let folder = common::Folder::new();
    let end = folder.join("end");
    // Until the file exists: the ranks may run any number of iterations before.
    let script = "echo $$; while [ ! -e \"$0\" ]; do sleep 0.01; done; echo done";
    let args = ["-n", "3", "--", "sh", "-c", script, end.to_str().unwrap()];
    let starter = start(&args);
    let ranks = pids(&starter, 3);
    for _ in 0..10 {
        suspend(&starter, &ranks, Duration::from_millis(50));
        starter.signal(Signal::CONT);
        eventually("all go on", || {
            let mut all = ranks.iter().copied().chain([starter.child.id()]);
            all.all(|pid| state(pid) != 'T')
        });
    }
    std::fs::write(&end, "").unwrap();
    let ended = starter.end();
    assert_eq!(ended.code(), 0, "{ended:?}");
    assert_eq!(ended.stdout.len(), 3, "{ended:?}");
}

#[test]
fn time_that_a_job_stands_still_does_not_count() {
    let folder = common::Folder::new();
    let end = folder.join("end");
    let script = "echo $$; while [ ! -e \"$0\" ]; do sleep 0.01; done";
    let program = ["--", "sh", "-c", script, end.to_str().unwrap()];
    let starter = start(&[&["-n", "1", "--timeout", "6"], &program[..]].concat());
    let ranks = pids(&starter, 1);
    suspend(&starter, &ranks, Duration::from_millis(6500));
    std::fs::write(&end, "").unwrap();
    starter.signal(Signal::CONT);
    let ended = starter.end();
    assert_eq!(ended.code(), 0, "{ended:?}");
}

#[test]
fn time_that_a_job_stood_still_does_not_count_after_a_restart() {
    let folder = common::Folder::new();
    let fail = folder.join("fail");
    let script = "echo start $$; [ $COBRE_RESTART = 1 ] && exec sleep 1; \
                  while [ ! -e \"$0\" ]; do sleep 0.01; done; exit 7";
    let program = ["--", "sh", "-c", script, fail.to_str().unwrap()];
    let options = ["-n", "1", "--timeout", "8", "--max-restarts", "1"];
    let starter = start(&[&options[..], &program].concat());
    let line = starter.line();
    let rank = line.strip_prefix("[0] start ").unwrap().parse().unwrap();
    suspend(&starter, &[rank], Duration::from_millis(8500));
    std::fs::write(&fail, "").unwrap();
    starter.signal(Signal::CONT);
    let ended = starter.end();
    assert!(ended.says("starting again, 1 of 1"), "{ended:?}");
    assert_eq!(ended.code(), 0, "{ended:?}");
}

/// A reader that was stopped with the job still has the full time afterwards.
#[test]
fn time_that_a_job_stands_still_does_not_count_for_its_readers() {
    let folder = common::Folder::new();
    let rank = folder.join("rank");
    let (mut reader, writer) = std::io::pipe().unwrap();
    common::fill(writer.try_clone().unwrap());
    // More than a pipe takes at once.
    let script = "yes line | head -n 100000; echo $$ > \"$0\"; exit 7";
    let args = ["-n", "1", "--", "sh", "-c", script, rank.to_str().unwrap()];
    let mark = fresh_mark();
    let mut command = comm_run(&args, &mark);
    command
        .process_group(0)
        .stdout(writer)
        .stderr(Stdio::piped());
    let starter = Starter::of(command, mark);
    eventually("the rank is reaped", || {
        let pid = std::fs::read_to_string(&rank).unwrap_or_default();
        let pid = pid.trim().parse::<u32>();
        pid.is_ok_and(|pid| !std::path::Path::new(&format!("/proc/{pid}")).exists())
    });
    suspend(&starter, &[], Duration::from_secs(6));
    starter.signal(Signal::CONT);
    let mut written = Vec::new();
    std::io::Read::read_to_end(&mut reader, &mut written).unwrap();
    let ended = starter.end();
    let lines = written.windows(4).filter(|word| word == b"line").count();
    assert_eq!((ended.code(), lines), (7, 100_000), "{ended:?}");
}

#[test]
fn a_job_within_a_job_is_stopped_too() {
    stop_a_job_within_a_job(&[]);
}

/// The shell stops at once, but the launcher that it waits for does not.
#[test]
fn a_job_that_a_script_starts_within_a_job_is_stopped_too() {
    stop_a_job_within_a_job(&["sh", "-c", "\"$0\" \"$@\"; true"]);
}

#[track_caller]
fn stop_a_job_within_a_job(script: &[&str]) {
    let comm_run = env!("CARGO_BIN_EXE_comm-run");
    let inner = "echo $$; while [ ! -e \"$0\" ]; do sleep 0.01; done";
    let folder = common::Folder::new();
    let end = folder.join("end");
    let outer = [&["-n", "1", "--"], script].concat();
    let args = [
        comm_run,
        "-n",
        "2",
        "--",
        "sh",
        "-c",
        inner,
        end.to_str().unwrap(),
    ];
    let starter = start(&[&outer[..], &args[..]].concat());
    let ranks: Vec<u32> = starter
        .lines(2)
        .iter()
        .map(|line| line.rsplit(' ').next().unwrap().parse().unwrap())
        .collect();
    suspend(&starter, &ranks, Duration::from_millis(50));
    std::fs::write(&end, "").unwrap();
    starter.signal(Signal::CONT);
    let ended = starter.end();
    assert_eq!(ended.code(), 0, "{ended:?}");
}

#[test]
fn a_launcher_that_is_stopped_while_it_stops_its_ranks_goes_on_when_it_is_told_to() {
    let folder = common::Folder::new();
    let (asked, end) = (folder.join("asked"), folder.join("end"));
    // The shell has a handler and continues, so that the launcher waits for it. A `sleep` would stop, and the shell would wait for it.
    let script = "trap ': > \"$1\"' TSTP; echo $$; while [ ! -e \"$0\" ]; do :; done";
    let program = ["-n", "1", "--", "sh", "-c", script];
    let files = [end.to_str().unwrap(), asked.to_str().unwrap()];
    let starter = start(&[&program[..], &files[..]].concat());
    pids(&starter, 1);
    starter.signal(Signal::TSTP);
    eventually("the rank is asked to stop", || asked.exists());
    // As an outer launcher does after it has waited long enough.
    starter.signal(Signal::STOP);
    eventually("comm-run is stopped", || state(starter.child.id()) == 'T');
    starter.signal(Signal::CONT);
    std::fs::write(&end, "").unwrap();
    let ended = starter.end();
    assert_eq!(ended.code(), 0, "{ended:?}");
}

#[test]
fn a_stopped_job_can_be_ended() {
    let starter = start(&["-n", "2", "--", "sh", "-c", "echo $$; exec sleep 1000"]);
    let ranks = pids(&starter, 2);
    suspend(&starter, &ranks, Duration::ZERO);
    // As `kill %1` of a shell does.
    starter.signal(Signal::TERM);
    starter.signal(Signal::CONT);
    let ended = starter.end();
    assert_eq!(ended.code(), 143, "{ended:?}");
}

#[test]
fn a_stopped_job_that_is_killed_leaves_nothing() {
    let mut starter = start(&["-n", "2", "--", "sh", "-c", "echo $$; sleep 1000 & wait"]);
    let ranks = pids(&starter, 2);
    suspend(&starter, &ranks, Duration::ZERO);
    starter.signal(Signal::KILL);
    starter.wait();
    starter.gone();
}

#[test]
fn where_nobody_could_continue_it_ctrl_z_is_ignored() {
    let mark = fresh_mark();
    let mut command = Command::new("setsid");
    command
        .args(["--wait", env!("CARGO_BIN_EXE_comm-run"), "-n", "1", "--"])
        .args(["sh", "-c", "kill -TSTP $PPID; sleep 0.3; echo done"])
        .env("COMM_RUN_TEST_MARK", &mark)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let ended = Starter::of(command, mark).end();
    assert_eq!(ended.code(), 0, "{ended:?}");
    assert_eq!(ended.stdout, ["[0] done"]);
}

#[test]
fn a_rank_that_the_terminal_stops_is_mentioned_once() {
    for (script, why) in [
        ("cat </dev/tty", "it reads the terminal (SIGTTIN)"),
        ("stty -echo </dev/tty", "it uses the terminal (SIGTTOU)"),
    ] {
        let (_screen, program) = common::terminal();
        let mark = fresh_mark();
        let script = format!("[ $RANK = 1 ] && {script}; exec sleep 1000");
        let mut command = Command::new("env");
        command
            .args(["--default-signal", "setsid", "--ctty"])
            .args([env!("CARGO_BIN_EXE_comm-run"), "-n", "3", "--", "sh", "-c"])
            .arg(script)
            .env("COMM_RUN_TEST_MARK", &mark)
            .stdin(program)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let starter = Starter::of(command, mark);
        let line = starter.complaint();
        assert!(line.starts_with("comm-run: rank 1 is stopped: "), "{line}");
        assert!(line.contains(why), "{line}");
        // Long enough for several checks of the ranks.
        std::thread::sleep(Duration::from_secs(1));
        starter.signal(Signal::TERM);
        let ended = starter.end();
        assert_eq!(ended.code(), 143, "{ended:?}");
        assert!(!ended.says("is stopped"), "{ended:?}");
    }
}

/// Starts `comm-run` as the first process of a container, if this system allows one.
fn container(args: &[&str]) -> Option<Starter> {
    inside(&[&[env!("CARGO_BIN_EXE_comm-run")], args].concat())
}

/// Starts the first process of a container, if this system allows one.
fn inside(program: &[&str]) -> Option<Starter> {
    // Signals reach `comm-run` through its process id outside, not through `unshare`.
    let options = ["--pid", "--fork", "--mount-proc", "--kill-child"];
    if !works(&mut unshare(&options, &["true"])) {
        return None;
    }
    let mark = fresh_mark();
    // The process that runs these tests may ignore signals, as one that a shell starts with `&` does.
    let heedful = ["env", "--default-signal"];
    let mut command = unshare(&options, &[&heedful[..], program].concat());
    command.env("COMM_RUN_TEST_MARK", &mark);
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    Some(Starter::of(command, mark))
}

#[test]
fn in_a_session_that_began_outside_of_the_container_ctrl_z_works_too() {
    // The leaders of the shell's session and group are not visible inside; with `set -m` a job gets its own group.
    let script = |monitor: &str| {
        let stop = "kill -TSTP $PPID; sleep 0.3; echo done";
        let comm_run = env!("CARGO_BIN_EXE_comm-run");
        format!(
            "set {monitor}m; {comm_run} -n 1 -- sh -c '{stop}' & \
             while read -r _ _ state _ < /proc/$!/stat; do \
               case $state in T) echo stopped; kill -CONT $!; break;; Z) break;; esac; \
             done 2>/dev/null; wait -f $!"
        )
    };
    for (monitor, expected) in [("-", &["stopped", "[0] done"][..]), ("+", &["[0] done"])] {
        let Some(starter) = inside(&["bash", "-c", &script(monitor)]) else {
            return;
        };
        let ended = starter.end();
        assert_eq!(ended.code(), 0, "{monitor}m: {ended:?}");
        assert_eq!(ended.stdout, expected, "{monitor}m: {ended:?}");
    }
}

#[test]
fn the_first_process_of_a_container_reaps_what_is_left_to_it() {
    // A hundred orphans that leave the group of their rank; the first process then adopts them.
    let script = "for n in $(seq 1 100); do (setsid true >/dev/null 2>&1 &); done; \
                  tries=0; while [ $tries -lt 500 ]; do \
                    zombies=$(cat /proc/[0-9]*/stat 2>/dev/null | grep -c ') Z 1 '); \
                    [ $zombies = 0 ] && echo clean && exit 0; sleep 0.01; tries=$((tries + 1)); \
                  done; echo $zombies zombies; exit 1";
    let Some(starter) = container(&["-n", "1", "--", "sh", "-c", script]) else {
        return;
    };
    let ended = starter.end();
    assert_eq!(ended.code(), 0, "{ended:?}");
}

#[test]
fn the_first_process_of_a_container_passes_signals_on() {
    for (signal, code) in [(Signal::TERM, 9), (Signal::USR1, 6), (Signal::QUIT, 8)] {
        let script = "trap 'exit 9' TERM; trap 'exit 6' USR1; trap 'exit 8' QUIT; echo up; \
                      while :; do sleep 0.01; done";
        let Some(starter) = container(&["-n", "1", "--", "sh", "-c", script]) else {
            return;
        };
        starter.line();
        let outside = starter.child.id();
        let children = format!("/proc/{outside}/task/{outside}/children");
        let first = std::fs::read_to_string(children).unwrap();
        let first = rustix::process::Pid::from_raw(first.trim().parse().unwrap()).unwrap();
        rustix::process::kill_process(first, signal).unwrap();
        let ended = starter.end();
        assert_eq!(ended.code(), code, "{ended:?}");
    }
}
