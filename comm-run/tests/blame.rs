//! Which rank is the cause, on a busy machine: the first rank to exit often is not.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a helper of tests may fail like a test")]

mod common;
#[path = "../../comm-factory/tests/hello/mod.rs"]
mod hello;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, Weak};

use common::{Ended, Key, Starter, comm_run, fresh_mark, node};

fn mishap() -> &'static str {
    static MISHAP: OnceLock<String> = OnceLock::new();
    hello::once(&MISHAP, || hello::example("mishap", "shm,tcp"))
}

/// Returns how often each mishap happens: more often on request, for a reliable result.
fn runs() -> usize {
    common::asked_for(common::MORE_BLAME).map_or(4, |runs| runs as usize)
}

/// Runs a job in which one of four ranks has a mishap, with backtraces.
fn run(backend: &str, way: &str, culprit: usize) -> Ended {
    let mark = fresh_mark();
    let culprit = culprit.to_string();
    let args = [
        "-n",
        "4",
        "--backend",
        backend,
        "--",
        mishap(),
        way,
        &culprit,
    ];
    let mut command = comm_run(&args, &mark);
    command.env("RUST_BACKTRACE", "full");
    // Not for the other mishaps: on a busy machine a backtrace may take longer than the timeout.
    if way == "hang" {
        for variable in ["COBRE_SHM_TIMEOUT_SECS", "COBRE_TCP_TIMEOUT_SECS"] {
            command.env(variable, "2");
        }
    }
    Starter::of(command, mark).end()
}

/// Keeps every processor busy until the last test that wants it drops it.
fn load() -> Arc<Load> {
    static SHARED: Mutex<Weak<Load>> = Mutex::new(Weak::new());
    let mut shared = SHARED.lock().unwrap();
    let load = shared.upgrade().unwrap_or_else(|| Arc::new(Load::new()));
    *shared = Arc::downgrade(&load);
    load
}

struct Load(&'static AtomicBool, Vec<std::thread::JoinHandle<()>>);

impl Load {
    fn new() -> Self {
        let goes_on: &'static AtomicBool = Box::leak(Box::new(AtomicBool::new(true)));
        let processors = std::thread::available_parallelism().unwrap().get();
        let spin = move || while goes_on.load(Ordering::Relaxed) {};
        Self(
            goes_on,
            (0..processors).map(|_| std::thread::spawn(spin)).collect(),
        )
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Relaxed);
        for thread in self.1.drain(..) {
            thread.join().unwrap();
        }
    }
}

#[track_caller]
fn always(way: &str, culprits: &[usize], code: i32, how: &str) {
    mishap();
    // A test that waits for a timeout is disturbed by the load of the others, and need not add its own.
    let _load = (way != "hang").then(load);
    for number in 0..runs() {
        let backend = ["shm", "tcp"][number % 2];
        let culprit = culprits[number / 2 % culprits.len()];
        let ended = run(backend, way, culprit);
        assert_eq!(ended.code(), code, "run {number}, {backend}: {ended:?}");
        let headline = format!("comm-run: rank {culprit} {how}");
        let blamed = ended
            .stderr
            .iter()
            .find(|line| line.starts_with("comm-run: "));
        assert!(
            blamed.is_some_and(|line| line.starts_with(&headline)),
            "run {number}, {backend}: {ended:?}"
        );
    }
}

#[test]
fn a_rank_that_told_the_others_in_a_collective() {
    always("tell", &[0], 1, "exited with code 1");
}

#[test]
fn a_rank_that_refused_its_own_arguments() {
    always("refuse", &[3, 1], 1, "exited with code 1");
    // A rank without a processor for half a second is ended before it can report.
    let ended = run("tcp", "refuse", 2);
    assert!(ended.says(" reported it: refused"), "{ended:?}");
}

/// A refusal that the program survived does not explain its end.
#[test]
fn a_refusal_after_which_all_went_on_is_not_the_cause() {
    mishap();
    for backend in ["shm", "tcp"] {
        let ended = run(backend, "recover", 3);
        assert_eq!(ended.code(), 1, "{backend}: {ended:?}");
        assert!(!ended.says("reported it"), "{backend}: {ended:?}");
    }
}

#[test]
fn a_rank_that_panics() {
    always("panic", &[3, 0, 1], 101, "exited with code 101");
}

#[test]
fn a_rank_that_panics_and_the_others_about_it() {
    always("unwrap", &[2, 3], 101, "exited with code 101");
}

#[test]
fn a_rank_that_exits_or_is_killed() {
    always("exit", &[3, 1], 7, "exited with code 7");
    always("kill", &[3, 1], 134, "was killed by SIGABRT");
    always("abort", &[3, 1], 9, "exited with code 9");
}

#[test]
fn a_rank_that_leaves_or_hangs_is_named_and_the_code_is_that_of_the_others() {
    always(
        "leave",
        &[3, 1],
        4,
        "exited with code 0 before the others were done,",
    );
    always("hang", &[3, 1], 4, "hung and was terminated (SIGTERM)");
}

#[test]
fn all_codes_and_the_last_lines_of_the_cause_are_shown() {
    let ended = run("shm", "panic", 2);
    assert!(ended.says("the last lines of rank 2:"), "{ended:?}");
    assert!(
        ended.says("ranks 0, 1, 3 reported it: peer lost"),
        "{ended:?}"
    );
    let at = "ranks 0, 1, 3 were at comm-factory/examples/mishap.rs:";
    assert!(ended.says(at), "{ended:?}");
    let codes = "ranks 0, 1, 3 exited with code 4; rank 2 exited with code 101";
    assert!(ended.says(codes), "{ended:?}");
}

#[test]
fn the_message_of_a_panic_is_shown_although_its_backtrace_is_long() {
    let ended = run("shm", "panic", 2);
    assert!(ended.says("comm-run: the panic of rank 2:"), "{ended:?}");
    let shown: Vec<_> = ended
        .stderr
        .iter()
        .filter_map(|line| line.strip_prefix("comm-run:   [2] "))
        .collect();
    assert!(shown[0].contains(" panicked at "), "{shown:?}");
    assert_eq!(shown[1], "this panic is what was asked for", "{shown:?}");
}

/// All ranks return the same error: it does not matter which rank exits first.
#[test]
fn ranks_that_fail_alike_are_not_told_apart() {
    let folder = common::Folder::new();
    let pipe = folder.fifo("go");
    // All ranks end together: when the last one has opened the pipe.
    let script = format!("echo why >&2; read end <{}; exit 3", pipe.display());
    let starter = Starter::shell(3, &script);
    let go = std::fs::File::options().write(true).open(&pipe).unwrap();
    common::eventually("all read", || readers(&pipe) == 3);
    drop(go);
    let ended = starter.end();
    assert_eq!(ended.code(), 3, "{ended:?}");
    let said = |line: &&String| line.starts_with("comm-run: ");
    let said: Vec<_> = ended.stderr.iter().filter(said).collect();
    let headline = "comm-run: ranks 0-2 failed alike: each exited with code 3 after ";
    assert!(said[0].starts_with(headline), "{ended:?}");
    assert_eq!(
        said[1..],
        ["comm-run: the last lines of rank 0:", "comm-run:   [0] why"]
    );
}

/// Returns the number of shells whose standard input is this file.
fn readers(path: &std::path::Path) -> usize {
    let processes = std::fs::read_dir("/proc").unwrap().filter_map(Result::ok);
    let reads = |process: &std::fs::DirEntry| {
        let found = std::fs::read_link(process.path().join("fd/0"));
        found.is_ok_and(|found| found == path)
    };
    processes.filter(reads).count()
}

/// For example a shell, or a Python program without the package.
#[test]
fn any_program_can_report() {
    let script = "[ $RANK = 2 ] && exec sleep 1000; pipe=/proc/$$/fd/${COBRE_COMM_REPORT_FD%%:*}; \
                  echo nonsense >$pipe; echo cobre-report $RANK late 2 >$pipe; exit 3";
    let ended = Starter::shell(4, script).end();
    assert_eq!(ended.code(), 3, "{ended:?}");
    let headline = "comm-run: rank 2 hung and was terminated (SIGTERM)";
    assert!(ended.stderr[0].starts_with(headline), "{ended:?}");
    assert!(
        ended.says("ranks 0, 1, 3 reported it: timed out"),
        "{ended:?}"
    );
}

/// A job without a ring is no failure, and the message appears once.
#[test]
fn a_job_without_a_ring_is_told_of_and_goes_on() {
    let script = "[ $RANK = 0 ] && echo cobre-report 0 no-ring - \
                  >/proc/$$/fd/${COBRE_COMM_REPORT_FD%%:*}; exit 0";
    let ended = Starter::shell(3, script).end();
    assert_eq!(ended.code(), 0, "{ended:?}");
    assert_eq!(ended.stderr.len(), 1, "{ended:?}");
    let parts = [
        "comm-run: some ranks cannot reach each other",
        "COBRE_TCP_WORKER_PORTS",
    ];
    assert!(parts.iter().all(|part| ended.says(part)), "{ended:?}");
}

/// One of two machines; the rank that refused is on the other.
#[test]
fn a_refusal_on_another_machine_is_told() {
    let script = "pipe=/proc/$$/fd/${COBRE_COMM_REPORT_FD%%:*}; \
                  echo cobre-report $RANK refused 3 >$pipe; exit 1";
    let key = Key::new("secret of a test", 0o600);
    let mut args = node("0", "127.0.0.1:1", key.path());
    args.extend(["--", "sh", "-c", script]);
    let ended = Starter::new(&args).end();
    assert_eq!(ended.code(), 1, "{ended:?}");
    let named = "rank 0 names rank 3, on another machine, as the cause: refused;";
    assert!(ended.says(named), "{ended:?}");
}

#[test]
fn a_lost_rank_has_time_for_its_last_words() {
    let script = "pipe=/proc/$$/fd/${COBRE_COMM_REPORT_FD%%:*}; \
                  [ $RANK = 2 ] && sleep 1.5 && echo last words && exit 101; \
                  echo cobre-report $RANK lost 2 >$pipe; exit 4";
    let ended = Starter::shell(3, script).end();
    assert_eq!(ended.code(), 101, "{ended:?}");
    assert!(ended.says("comm-run:   [2] last words"), "{ended:?}");
}

#[test]
fn what_a_rank_started_may_hold_the_pipe_of_the_reports() {
    // The process leaves the group of its rank and lives on, and the job does not wait for it. The rank continues when the process
    // has left, because that closes the other end of the substitution's pipe.
    let script = format!(
        "up=$(setsid sh -c 'exec sleep 1000 >/dev/null 2>&1' &); exec {} exit 1",
        mishap()
    );
    let mark = fresh_mark();
    let command = comm_run(&["-n", "3", "--", "sh", "-c", &script], &mark);
    let mut starter = Starter::of(command, mark.clone());
    let code = starter.wait().code();
    let lives_on = common::kill_marked(&mark);
    assert_eq!((code, lives_on), (Some(7), 3));
    starter.gone();
}
