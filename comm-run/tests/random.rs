//! Random jobs: whatever happens in them, the exit code and the rank to blame are right, and nothing is left behind.
//!
//! A job is determined by its number and a seed, both printed when it fails. `COMM_RUN_TEST_JOBS=500` runs that many jobs.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a helper of tests may fail like a test")]

mod common;
#[path = "../../comm-factory/tests/hello/mod.rs"]
mod hello;

use std::fmt::Write as _;
use std::time::Duration;

use comm_run::{Backend, Ending, Job, Line};
use common::dice::{Dice, in_turn};
use common::{Folder, Starter, comm_run, eventually, fresh_mark, gone};
use rustix::process::Signal;

/// How many jobs run at once: they should disturb each other, and most of a job is waiting.
const AT_ONCE: usize = 3;

/// What happens to a job.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Event {
    /// Nothing: all ranks succeed.
    None,
    /// A rank exits with this code, and the others hang.
    Exits(i32),
    /// A signal kills a rank; the others notice and exit with 4, and the launcher may see their exits first.
    Killed(&'static str, i32),
    /// A rank prints a long backtrace and exits with 101; the others notice and exit with 4, and the launcher may see their exits
    /// first.
    Panics,
    /// A rank of a real program has this mishap, and the job ends with this code.
    Mishap(&'static str, i32),
    /// The job is stopped, and the ranks end with this code.
    Stopped(Signal, i32),
    /// The job times out.
    TimesOut,
}

#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a circumstance that goes with all others"
)]
#[derive(Debug)]
struct Plan {
    ranks: usize,
    culprit: usize,
    event: Event,
    /// Whether the library runs the job in this process; otherwise the program `comm-run` runs it.
    in_process: bool,
    tcp: bool,
    flood: bool,
    family: bool,
    late: bool,
    deaf: bool,
    logs: bool,
    /// The first start fails after a second, and the event happens in the second start.
    restarts: bool,
    /// The others report which rank they lost, as backends do, already when it begins to fail. Otherwise they report nothing, like a
    /// program without a backend, and notice a connection that closes with its end.
    reports: bool,
}

impl Plan {
    fn new(dice: &mut Dice) -> Self {
        let ranks = 1 + dice.below(6);
        let event = match dice.below(8) {
            0 => Event::None,
            1 => Event::Exits(dice.pick(&[1, 3, 5, 42, 255])),
            2 => dice.pick(&[
                Event::Killed("KILL", 137),
                Event::Killed("SEGV", 139),
                Event::Killed("TERM", 143),
            ]),
            3 => Event::Panics,
            4 | 5 => dice.pick(&[
                Event::Mishap("panic", 101),
                Event::Mishap("unwrap", 101),
                Event::Mishap("exit", 7),
                Event::Mishap("kill", 134),
                Event::Mishap("abort", 9),
            ]),
            6 => dice.pick(&[
                Event::Stopped(Signal::TERM, 5),
                Event::Stopped(Signal::INT, 5),
                Event::Stopped(Signal::TERM, 143),
                Event::Stopped(Signal::INT, 130),
            ]),
            _ => Event::TimesOut,
        };
        let stopped = matches!(event, Event::Stopped(..));
        Self {
            ranks,
            culprit: dice.below(ranks),
            event,
            in_process: !stopped && dice.one_in(3),
            tcp: dice.one_in(3),
            flood: dice.one_in(3),
            family: dice.one_in(3),
            late: dice.one_in(3),
            deaf: dice.one_in(5),
            logs: dice.one_in(4),
            restarts: !matches!(event, Event::TimesOut) && dice.one_in(4),
            reports: dice.one_in(2),
        }
    }

    /// Returns what every rank does, as a script; `$0` is the folder of the job.
    fn script(&self, mishap: &str) -> String {
        let mut script = "echo name $COBRE_SHM_NAME; ".to_owned();
        if self.late {
            script += "[ $((RANK % 2)) = 1 ] && sleep 0.1; ";
        }
        if self.flood {
            script += "seq -f 'flood %.0f' 1 20000; ";
        }
        if self.family {
            script += "sleep 1000 & sh -c 'trap \"\" INT TERM HUP; sleep 1000 & wait' & ";
        }
        if self.restarts {
            let culprit = self.culprit;
            let _ = write!(
                script,
                "if [ $COBRE_RESTART = 0 ]; then [ $RANK = {culprit} ] && sleep 1.1 && exit 77; sleep 1000 & wait; fi; "
            );
        }
        if self.deaf && !matches!(self.event, Event::Stopped(..) | Event::Mishap(..)) {
            script += "trap '' TERM; ";
        }
        let culprit = format!("[ $RANK = {} ]", self.culprit);
        // The culprit announces its failure in a file, or holds one end of a pipe to each of the others, so that no rank notices too
        // early.
        let (begin, noticed) = if self.reports {
            let line = format!("cobre-report $RANK lost {}", self.culprit);
            let pipe = "/proc/$$/fd/${COBRE_COMM_REPORT_FD%%:*}";
            let noticed = format!(
                "while [ ! -e $0/begun ]; do sleep 0.01; done; echo {line} >{pipe}; exit 4"
            );
            (": >$0/begun".to_owned(), noticed)
        } else {
            let others = (0..self.ranks).filter(|&rank| rank != self.culprit);
            let pipes = others
                .zip(3..)
                .map(|(rank, number)| format!(" {number}>$0/pipe{rank}"));
            let noticed = "read end <$0/pipe$RANK; exit 4".to_owned();
            (format!("exec{}", pipes.collect::<String>()), noticed)
        };
        let rest = match self.event {
            Event::None => "exit 0".to_owned(),
            Event::Exits(code) => format!("{culprit} && exit {code}; sleep 1000 & wait"),
            // The shell itself may ignore the signal that should kill it.
            Event::Killed(name, _) => {
                format!("{culprit} && trap - TERM && {begin} && kill -s {name} $$; {noticed}")
            }
            Event::Panics => format!(
                "{culprit} && {begin} && for frame in $(seq 1 5); do echo frame $frame >&2; sleep 0.01; done && \
                 exit 101; {noticed}"
            ),
            Event::Mishap(way, _) => format!("exec {mishap} {way} {}", self.culprit),
            Event::Stopped(_, 5) => "trap 'asked=1' TERM INT; : >$0/ready$RANK; \
                                     while [ -z \"$asked\" ]; do sleep 0.01; done; sleep 0.7; exit 5"
                .to_owned(),
            Event::Stopped(..) => ": >$0/ready$RANK; exec sleep 1000".to_owned(),
            Event::TimesOut => "sleep 1000 & wait".to_owned(),
        };
        script + &rest
    }

    fn code(&self) -> i32 {
        match self.event {
            Event::None => 0,
            Event::Exits(code)
            | Event::Killed(_, code)
            | Event::Mishap(_, code)
            | Event::Stopped(_, code) => code,
            Event::Panics => 101,
            Event::TimesOut => 124,
        }
    }

    /// Returns whether a rank is to blame.
    fn blames(&self) -> bool {
        !matches!(
            self.event,
            Event::None | Event::Stopped(..) | Event::TimesOut
        )
    }

    fn timeout(&self) -> Duration {
        match self.event {
            Event::TimesOut => Duration::from_millis(600),
            _ => Duration::from_mins(1),
        }
    }
}

/// Runs one job and checks everything.
fn run(number: usize, seed: u64, mishap: &str) {
    let mut dice = Dice::new(number, seed);
    let plan = Plan::new(&mut dice);
    let folder = Folder::new();
    for rank in 0..plan.ranks {
        folder.fifo(&format!("pipe{rank}"));
    }
    let (code, blamed, stdout) = if plan.in_process {
        in_process(&plan, mishap, &folder)
    } else {
        as_program(&plan, mishap, &folder)
    };
    let context = format!("job {number} of seed {seed}: {plan:#?}");
    assert_eq!(code, plan.code(), "{context}\n{:?}", blamed.said);
    let expected = plan.blames().then_some(plan.culprit);
    assert_eq!(blamed.rank, expected, "{context}\n{:?}", blamed.said);
    let starts = if plan.restarts { 2 } else { 1 };
    let names: Vec<_> = stdout
        .iter()
        .filter_map(|line| line.split_once("name "))
        .collect();
    // A rank may be killed before it has printed anything.
    assert!(names.len() <= starts * plan.ranks, "{context}");
    for (_, name) in names {
        assert_eq!(in_shared_memory(name), [""; 0], "{context}");
    }
    if plan.flood && plan.event == Event::None && !plan.restarts {
        let flood = stdout.iter().filter(|line| line.contains("flood")).count();
        assert_eq!(flood, 20_000 * plan.ranks, "{context}");
    }
    if plan.logs && !plan.in_process {
        let logs = std::fs::read_dir(folder.join("logs")).unwrap().count();
        assert_eq!(logs, 2 * plan.ranks, "{context}");
    }
}

/// The blamed rank, and the messages about it.
struct Blamed {
    rank: Option<usize>,
    said: Vec<String>,
}

fn as_program(plan: &Plan, mishap: &str, folder: &Folder) -> (i32, Blamed, Vec<String>) {
    let mark = fresh_mark();
    let (ranks, timeout) = (
        plan.ranks.to_string(),
        plan.timeout().as_secs_f64().to_string(),
    );
    let (script, logs) = (plan.script(mishap), folder.join("logs"));
    let at = folder.join("");
    let mut args = vec!["-n", &ranks, "--timeout", &timeout];
    if plan.tcp {
        args.extend(["--backend", "tcp"]);
    }
    if plan.logs {
        args.extend(["--log-dir", logs.to_str().unwrap()]);
    }
    if plan.restarts {
        args.extend(["--max-restarts", "1"]);
    }
    args.extend(["--", "sh", "-c", &script, at.to_str().unwrap()]);
    let mut command = comm_run(&args, &mark);
    command.env("RUST_BACKTRACE", "1");
    let starter = Starter::of(command, mark);
    if let Event::Stopped(signal, _) = plan.event {
        for rank in 0..plan.ranks {
            let ready = folder.join(&format!("ready{rank}"));
            eventually("the ranks are ready", || ready.exists());
        }
        starter.signal(signal);
    }
    let ended = starter.end();
    // The last report belongs to the last start.
    let headline = |line: &String| {
        let rest = line.strip_prefix("comm-run: rank ")?;
        let (rank, how) = rest.split_once(' ')?;
        let is_headline = how.contains(" after ") && how.ends_with(" s");
        rank.parse().ok().filter(|_| is_headline)
    };
    let again = |line: &String| line.contains("starting again");
    let last = ended.stderr.iter().rposition(again).map_or(0, |at| at + 1);
    let rank = ended.stderr[last..].iter().find_map(headline);
    let said = ended
        .stderr
        .iter()
        .filter(|line| line.starts_with("comm-run: "));
    let said = said.cloned().collect();
    (ended.code(), Blamed { rank, said }, ended.stdout)
}

fn in_process(plan: &Plan, mishap: &str, folder: &Folder) -> (i32, Blamed, Vec<String>) {
    let mark = fresh_mark();
    let (sender, lines) = std::sync::mpsc::channel();
    let job = Job::new("sh", plan.ranks)
        .args(["-c", &plan.script(mishap)])
        .args([folder.join("")])
        .env("COMM_RUN_TEST_MARK", &mark)
        .env("RUST_BACKTRACE", "1")
        .backend(if plan.tcp { Backend::Tcp } else { Backend::Shm })
        .timeout(plan.timeout())
        .max_restarts(usize::from(plan.restarts))
        .sink(move |line: Line<'_>| {
            let text = String::from_utf8_lossy(line.bytes).into_owned();
            sender.send(text).map_err(std::io::Error::other)
        });
    let outcome = job.run().unwrap();
    gone(&mark);
    let rank = match outcome.ending {
        Ending::RankFailed(rank) => Some(rank),
        _ => None,
    };
    let said = vec![format!("{:?}", outcome.ranks)];
    (
        outcome.exit_code(),
        Blamed { rank, said },
        lines.iter().collect(),
    )
}

fn in_shared_memory(name: &str) -> Vec<String> {
    let entries = std::fs::read_dir("/dev/shm")
        .unwrap()
        .filter_map(Result::ok);
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    names
        .filter(|found| !name.is_empty() && found.starts_with(name))
        .collect()
}

#[test]
fn random_jobs_end_as_they_should_and_leave_nothing() {
    let mishap = hello::example("mishap", "shm,tcp");
    let open = || std::fs::read_dir("/proc/self/fd").unwrap().count();
    // One job first, so that the descriptors that tokio keeps for the process are open.
    Job::new("true", 1).run().unwrap();
    let before = open();
    in_turn(20, AT_ONCE, |number, seed| run(number, seed, &mishap));
    eventually("no descriptor is left", || open() <= before);
}
