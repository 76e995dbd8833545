//! Two hundred jobs, each ended by force at a different moment; none may leave a process behind.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a helper of tests may fail like a test")]

mod common;

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use common::Starter;
use rustix::process::{Pid, Signal, kill_process};

const RUNS: usize = 200;
/// How many jobs run at once: they should disturb each other, and most of a run is waiting.
const AT_ONCE: usize = 6;

/// Each rank has a child, a grandchild, and one process that ignores Ctrl-C and SIGTERM.
const FAMILY: &str = "sleep 1000 & sh -c 'sleep 1000 & wait' & sh -c 'trap \"\" INT TERM; sleep 1000' & \
                      echo $$; [ $RANK = $CULPRIT ] && exit 7; wait";

#[derive(Debug, Clone, Copy, PartialEq)]
enum Way {
    StarterKilled,
    StarterTerminated,
    CtrlC,
    RankExits,
    RankKilled,
    /// At any point of the start.
    StarterKilledEarly,
    StarterTerminatedEarly,
}

const WAYS: [Way; 7] = [
    Way::StarterKilled,
    Way::StarterTerminated,
    Way::CtrlC,
    Way::RankExits,
    Way::RankKilled,
    Way::StarterKilledEarly,
    Way::StarterTerminatedEarly,
];

/// Starts a job, ends it, and returns how long its last process lived after `comm-run` itself.
fn run(number: usize) -> (Way, Duration) {
    let way = WAYS[number % WAYS.len()];
    let mark = common::fresh_mark();
    let mut command = common::comm_run(&["-n", "3", "--", "sh", "-c", FAMILY], &mark);
    command.env("CULPRIT", if way == Way::RankExits { "1" } else { "none" });
    let mut starter = Starter::of(command, mark);
    let expected = match way {
        Way::StarterKilledEarly | Way::StarterTerminatedEarly => {
            // Chance, not synchronisation: anywhere in the first few milliseconds, the same for a
            // given number.
            std::thread::sleep(Duration::from_micros((number as u64 * 7919) % 12_000));
            let killed = way == Way::StarterKilledEarly;
            starter.signal(if killed { Signal::KILL } else { Signal::TERM });
            // Before `comm-run` has its handler, SIGTERM simply ends it.
            if killed { &[1009][..] } else { &[143, 1015] }
        }
        Way::RankExits => &[7],
        Way::StarterKilled | Way::StarterTerminated | Way::CtrlC | Way::RankKilled => {
            let lines = starter.lines(3);
            match way {
                Way::StarterKilled => starter.signal(Signal::KILL),
                Way::StarterTerminated => starter.signal(Signal::TERM),
                Way::CtrlC => starter.signal(Signal::INT),
                _ => {
                    let pid = lines[number % 3]
                        .split_once("] ")
                        .unwrap()
                        .1
                        .parse()
                        .unwrap();
                    kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL).unwrap();
                }
            }
            match way {
                Way::StarterKilled => &[1009],
                Way::StarterTerminated => &[143],
                Way::CtrlC => &[130],
                _ => &[137],
            }
        }
    };
    starter.wait();
    let lingered = starter.gone();
    let ended = starter.end();
    assert!(
        expected.contains(&ended.code()),
        "run {number}, {way:?}: {ended:?}"
    );
    (way, lingered)
}

#[test]
fn two_hundred_jobs_ended_by_force_leave_nothing() {
    let since = Instant::now();
    let next = AtomicUsize::new(0);
    let results = Mutex::new(Vec::new());
    let worker = || {
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= RUNS {
                break;
            }
            let result = run(number);
            results.lock().unwrap().push(result);
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(worker);
        }
    });
    let results = results.into_inner().unwrap();
    assert_eq!(results.len(), RUNS);
    println!(
        "{RUNS} runs in {:.1} s; the last process lived on after comm-run for at most:",
        since.elapsed().as_secs_f64()
    );
    for way in WAYS {
        let of = results.iter().filter(|result| result.0 == way);
        let (count, longest) = of.fold((0, Duration::ZERO), |(n, most), result| {
            (n + 1, most.max(result.1))
        });
        println!(
            "  {way:?}: {:.1} ms ({count} runs)",
            longest.as_secs_f64() * 1e3
        );
    }
}
