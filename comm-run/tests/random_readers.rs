//! Random readers, which block, are slow, leave or never open one of the outputs of a job. A job that failed or was
//! stopped still ends in time and with its code; a job that succeeds has delivered every line.
//!
//! A job is determined by its number and a seed, both printed when it fails. `COMM_RUN_TEST_JOBS=500` runs that many jobs.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a helper of tests may fail like a test")]

mod common;

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{JoinHandle, sleep, spawn};
use std::time::Duration;

use common::dice::{Dice, in_turn};
use common::{Folder, Starter, comm_run, eventually, fill, fresh_mark, terminal};
use rustix::fs::{OFlags, fcntl_setfl};
use rustix::process::Signal;

/// A job that failed or was stopped has ended by then. It takes 25 s at most if a processor is free: two starts, each with the time
/// for its output, then the events and the report.
const HELD_UP: Duration = Duration::from_mins(1);
/// What happens to one output.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Way {
    File,
    Reads,
    /// In a job that succeeds, reads when all ranks have written everything; otherwise never.
    Late,
    /// As slow as a job that succeeds can afford; otherwise a byte each second.
    Slow,
    /// Has the pipe open, but does not read.
    Still,
    /// A terminal that was stopped with Ctrl-S.
    Stopped,
    /// A named pipe that no reader opens.
    Absent,
    Leaves,
    Full,
}

use Way::{Absent, Full, Late, Leaves, Reads, Slow, Still, Stopped};

#[derive(Debug, Clone, Copy, PartialEq)]
enum End {
    Well,
    Fails,
    TimesOut,
    Stops(Signal, bool),
}

#[derive(Debug)]
struct Plan {
    ranks: usize,
    end: End,
    stdout: Way,
    stderr: Way,
    log: Option<Way>,
    events: Option<Way>,
    /// Ranks that have to be killed.
    deaf: bool,
    restarts: bool,
    /// Ranks that write until the output blocks.
    flood: bool,
}

impl Plan {
    fn new(dice: &mut Dice) -> Self {
        let end = match dice.below(8) {
            0..3 => End::Well,
            3 | 4 => End::Fails,
            5 => End::TimesOut,
            _ => End::Stops(dice.pick(&[Signal::TERM, Signal::INT]), dice.one_in(2)),
        };
        let well = [Way::File, Reads, Late, Slow, Leaves, Full];
        let ill = [Way::File, Reads, Slow, Still, Stopped, Leaves, Full];
        let mut stream = || dice.pick(if end == End::Well { &well } else { &ill });
        let (stdout, stderr) = (stream(), stream());
        let log = Some(stream()).filter(|&way| way != Stopped);
        let log = log.map(|way| {
            if way == Still && dice.one_in(2) {
                Absent
            } else {
                way
            }
        });
        let events = [Way::File, Reads, Slow, Still, Absent, Leaves, Full];
        let mut plan = Self {
            ranks: if dice.one_in(40) {
                300
            } else {
                1 + dice.below(5)
            },
            end,
            stdout,
            stderr,
            log: log.filter(|_| dice.one_in(2)),
            events: dice.one_in(2).then(|| dice.pick(&events)),
            deaf: dice.one_in(3),
            restarts: end == End::Fails && dice.one_in(4),
            flood: dice.one_in(2),
        };
        // These ranks would take the processors from everything else.
        plan.flood &= plan.ranks <= 5;
        plan
    }

    /// Returns what every rank does; `$0` is the folder of the job.
    fn script(&self) -> String {
        let mut script = "echo err $RANK >&2; ".to_owned();
        if self.end == End::Well {
            let lines = self.lines();
            return script + &format!("seq -f \"$RANK line %.0f\" 1 {lines}; : >$0/done$RANK");
        }
        if self.end == End::Fails {
            let pause = if self.restarts { "sleep 1.1; " } else { "" };
            let _ = write!(script, "[ $RANK = 0 ] && echo out && {pause}exit 7; ");
        }
        if self.deaf {
            script += "trap '' TERM INT; ";
        }
        script += ": >$0/ready$RANK; echo out; ";
        if self.flood {
            script += "yes flood | head -c 4000000; ";
        }
        script + "sleep 1000 & wait; wait"
    }

    /// Returns how many lines each rank of a job that succeeds writes.
    fn lines(&self) -> usize {
        if self.ranks > 5 { 50 } else { 2000 }
    }

    fn code(&self) -> i32 {
        match self.end {
            End::Well => 0,
            End::Fails => 7,
            End::TimesOut => 124,
            End::Stops(signal, _) => 128 + signal.as_raw(),
        }
    }

    fn outputs(&self) -> impl Iterator<Item = Way> {
        [self.stdout, self.stderr].into_iter().chain(self.log)
    }

    /// Returns whether a write to an output may fail.
    fn breaks(&self) -> bool {
        self.outputs().any(|way| matches!(way, Leaves | Full))
    }
}

/// One output of a job, and its reader.
struct Reader {
    reads: Option<JoinHandle<Vec<u8>>>,
    file: Option<PathBuf>,
    /// Stays open as long as the job may run.
    _held: Vec<OwnedFd>,
}

/// What the readers of a job know about it.
#[derive(Clone, Default)]
struct News {
    written: Arc<AtomicBool>,
    ended: Arc<AtomicBool>,
}

impl Reader {
    /// Reads a pipe as this kind of reader does.
    fn of(way: Way, is_well: bool, pipe: OwnedFd, news: &News) -> Self {
        if matches!(way, Still | Stopped) || way == Late && !is_well {
            return Self::holding(pipe);
        }
        fcntl_setfl(&pipe, OFlags::NONBLOCK).unwrap();
        let (mut pipe, news) = (File::from(pipe), news.clone());
        let (piece, pause) = match way {
            Slow if is_well => (512, Duration::from_millis(1)),
            Slow => (1, Duration::from_secs(1)),
            _ => (1 << 16, Duration::ZERO),
        };
        let reads = spawn(move || {
            let (mut text, mut bytes) = (Vec::new(), vec![0; piece]);
            while way == Late && !news.written.load(Ordering::SeqCst) {
                sleep(Duration::from_millis(1));
            }
            loop {
                let ended = news.ended.load(Ordering::SeqCst);
                match pipe.read(&mut bytes) {
                    Ok(size @ 1..) => text.extend_from_slice(&bytes[..size]),
                    _ if ended => return text,
                    _ => sleep(Duration::from_millis(1)),
                }
                if way == Leaves && !text.is_empty() || piece == 1 && ended {
                    return text;
                }
                sleep(pause);
            }
        });
        Self {
            reads: Some(reads),
            file: None,
            _held: Vec::new(),
        }
    }

    fn holding(held: impl Into<OwnedFd>) -> Self {
        Self {
            reads: None,
            file: None,
            _held: vec![held.into()],
        }
    }

    fn of_file(file: PathBuf) -> Self {
        Self {
            reads: None,
            file: Some(file),
            _held: Vec::new(),
        }
    }

    /// Creates a stream for the launcher.
    fn stream(way: Way, is_well: bool, file: PathBuf, news: &News) -> (Stdio, Self) {
        match way {
            Way::File => (File::create(&file).unwrap().into(), Self::of_file(file)),
            Full => {
                let full = File::options().write(true).open("/dev/full").unwrap();
                (full.into(), Self::of_file("/dev/null".into()))
            }
            Stopped => {
                let (mut screen, program) = terminal();
                screen.write_all(b"\x13").unwrap();
                (program.into(), Self::holding(screen))
            }
            _ => {
                let (reader, writer) = std::io::pipe().unwrap();
                if matches!(way, Late | Still | Slow) {
                    fill(writer.try_clone().unwrap());
                }
                (writer.into(), Self::of(way, is_well, reader.into(), news))
            }
        }
    }

    /// Creates a file for the launcher to open.
    fn path(way: Way, is_well: bool, path: PathBuf, folder: &Folder, news: &News) -> Self {
        match way {
            Way::File => return Self::of_file(path),
            Full => symlink("/dev/full", &path).unwrap(),
            _ => drop(
                folder.fifo(
                    path.strip_prefix(folder.join(""))
                        .unwrap()
                        .to_str()
                        .unwrap(),
                ),
            ),
        }
        if matches!(way, Full | Absent) {
            return Self::of_file("/dev/null".into());
        }
        let pipe = File::options().read(true).write(true).open(&path).unwrap();
        if matches!(way, Late | Still | Slow) {
            fill(pipe.try_clone().unwrap());
        }
        Self::of(way, is_well, pipe.into(), news)
    }

    /// Returns the lines that arrived.
    fn lines(self) -> Vec<String> {
        let text = match (self.reads, self.file) {
            (Some(reads), _) => reads.join().unwrap(),
            (None, Some(file)) => fs::read(file).unwrap(),
            (None, None) => Vec::new(),
        };
        let text = String::from_utf8_lossy(&text);
        let lines = text.lines().filter(|line| !line.is_empty());
        lines.map(str::to_owned).collect()
    }
}

fn run(number: usize, seed: u64) {
    let plan = Plan::new(&mut Dice::new(number, seed));
    let context = format!("job {number} of seed {seed}: {plan:?}");
    let (folder, news, mark) = (Folder::new(), News::default(), fresh_mark());
    let is_well = plan.end == End::Well;
    let (stdout, out) = Reader::stream(plan.stdout, is_well, folder.join("out"), &news);
    let (stderr, err) = Reader::stream(plan.stderr, is_well, folder.join("err"), &news);
    let (logs, events) = (folder.join("logs"), folder.join("events"));
    fs::create_dir(&logs).unwrap();
    let file = |way: Option<Way>, path: PathBuf| {
        way.map(|way| Reader::path(way, is_well, path, &folder, &news))
    };
    let log = file(plan.log, logs.join("rank-0.out"));
    let told = file(plan.events, events.clone());
    let ranks = plan.ranks.to_string();
    let (script, at) = (plan.script(), folder.join(""));
    let mut args = vec!["-n", &ranks, "--grace", "1"];
    if plan.log.is_some() {
        args.extend(["--log-dir", logs.to_str().unwrap()]);
    }
    if plan.events.is_some() {
        args.extend(["--events", events.to_str().unwrap()]);
    }
    if plan.restarts {
        args.extend(["--max-restarts", "1"]);
    }
    if plan.end == End::TimesOut {
        args.extend(["--timeout", "1"]);
    }
    args.extend(["--", "sh", "-c", &script, at.to_str().unwrap()]);
    let mut command = comm_run(&args, &mark);
    command.stdout(stdout).stderr(stderr);
    let mut starter = Starter::of(command, mark);
    let all_have = |starter: &mut Starter, name: &str| {
        // If the output of a job breaks, the job may already be over.
        let is_there = |rank| folder.join(&format!("{name}{rank}")).exists();
        let mut ended = || starter.child.try_wait().unwrap().is_some();
        eventually(&format!("{name}, {context}"), || {
            (0..plan.ranks).all(is_there) || ended()
        });
    };
    match plan.end {
        End::Well => {
            all_have(&mut starter, "done");
            news.written.store(true, Ordering::SeqCst);
        }
        End::Stops(signal, twice) => {
            all_have(&mut starter, "ready");
            for _ in 0..=usize::from(twice) {
                if starter.child.try_wait().unwrap().is_none() {
                    starter.signal(signal);
                }
            }
        }
        End::Fails | End::TimesOut => {}
    }
    let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        starter.wait_within(HELD_UP);
        starter.end().code()
    }));
    news.ended.store(true, Ordering::SeqCst);
    let code = ended.unwrap_or_else(|_| panic!("it does not end, or leaves something: {context}"));
    let (out, err) = (out.lines(), err.lines());
    let is_right = code == plan.code() || plan.breaks() && code == 141;
    assert!(is_right, "code {code}, {context}: {err:?}");
    if is_well && !plan.breaks() {
        for rank in 0..plan.ranks {
            let prefix = format!("[{rank}] {rank} line ");
            let numbers = out.iter().filter_map(|line| line.strip_prefix(&prefix));
            let expected = (1..=plan.lines()).map(|number| number.to_string());
            assert!(numbers.eq(expected), "rank {rank}, {context}: {out:?}");
            assert!(
                err.contains(&format!("[{rank}] err {rank}")),
                "{context}: {err:?}"
            );
        }
        let log = log.map_or(plan.lines(), |log| log.lines().len());
        assert_eq!(log, plan.lines(), "{context}");
    }
    if let Some(told) = told
        && matches!(plan.events, Some(Way::File | Reads))
    {
        let told = told.lines();
        let last = told.last().unwrap();
        assert!(last.contains("\"event\":\"ended\""), "{context}: {told:?}");
    }
}

#[test]
fn whatever_the_readers_do_jobs_end_as_they_should() {
    in_turn(30, 8, run);
}
