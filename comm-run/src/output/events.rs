//! The events of a job as JSON lines, so that scripts and logs need not parse sentences.
//!
//! One object per line, with a stable name in `event`:
//!
//! | `event` | when |
//! |---|---|
//! | `started` | every rank runs its program |
//! | `not_started` | the job could not start |
//! | `cause` | all ranks have ended, and the job did not complete: the first cause |
//! | `ended` | the ranks have ended, right after `cause` if there is one |
//!
//! Names never change; members may be added.

mod json;

use std::io::Write;
use std::time::{Duration, SystemTime};

use json::{Object, list};
use signal_hook::low_level::signal_name;

use crate::output::lane::{Lost, Text};
use crate::start::error::StartError;
use crate::start::job::Job;
use crate::supervise::signals::Signal;
use crate::verdict::outcome::{Ending, Exit, Outcome, RankOutcome};

/// How long the end of a job waits for the reader of the events.
const LAST_WAIT: Duration = Duration::from_secs(2);

/// The writer of the events, if they are written at all.
#[derive(Debug, Default)]
pub(crate) struct Events {
    out: Option<Text>,
    /// The id of this start of the job, if the launcher knows it.
    job: Option<String>,
    restart: usize,
}

impl Events {
    pub(crate) fn to(mut out: impl Write + Send + 'static) -> Self {
        // One write per line, so that jobs that share a file do not mix their lines.
        let write = move |line: &[u8]| out.write_all(line).and_then(|()| out.flush());
        Self {
            out: Some(Text::new("comm-run-events", write)),
            ..Self::default()
        }
    }

    /// Waits a limited time until all events are written, and returns the lost ones.
    pub(crate) fn finish(self) -> Lost {
        let finish = |out: Text| out.finish(LAST_WAIT);
        self.out.map(finish).unwrap_or_default()
    }

    /// Writes that every rank runs.
    pub(crate) fn started(&mut self, job: &Job, id: Option<&str>, restart: usize, pids: &[u32]) {
        self.job = id.map(str::to_owned);
        self.restart = restart;
        self.write("started", |line| {
            let nodes = job.node.as_ref().map_or(1, |node| node.nodes);
            line.text("backend", job.backend.as_str())
                .text("program", &job.program.to_string_lossy())
                .plain("size", nodes * job.size)
                .plain("first_rank", job.first_rank())
                .plain("pids", list(pids))
        });
    }

    /// Writes why the job did not start.
    pub(crate) fn not_started(&self, error: &StartError) {
        self.write("not_started", |line| {
            line.text("error", error.as_str())
                .plain("exit_code", error.exit_code())
                .text("message", &error.to_string())
        });
    }

    /// Writes the end of the job, after the cause if the job did not complete.
    pub(crate) fn ended(&self, outcome: &Outcome, starts_again: bool) {
        if !outcome.success() {
            self.write("cause", |line| cause(line, outcome));
        }
        self.write("ended", |line| {
            let ranks = (outcome.first_rank..).zip(&outcome.ranks);
            line.text("ending", outcome.ending.as_str())
                .plain("exit_code", outcome.exit_code())
                .plain("seconds", seconds(outcome.elapsed))
                .plain("starts_again", starts_again)
                .plain("ranks", list(ranks.map(|(rank, end)| of_rank(rank, end))))
        });
    }

    fn write(&self, event: &str, fill: impl FnOnce(Object) -> Object) {
        let Some(out) = &self.out else {
            return;
        };
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let line = Object::new()
            .text("event", event)
            .plain("time", seconds(now.unwrap_or_default()))
            .maybe_text("job", self.job.as_deref())
            .plain("restart", self.restart);
        out.write((fill(line).end() + "\n").into_bytes());
    }
}

fn cause(line: Object, outcome: &Outcome) -> Object {
    let line = line.text("ending", outcome.ending.as_str());
    match outcome.ending {
        Ending::RankFailed(place) | Ending::Unknown(place) => {
            let rank = &outcome.ranks[place];
            let named_by = outcome.named_by.iter();
            let reported = outcome.named_by.first();
            let reported = reported.and_then(|&by| outcome.ranks[by].report.as_ref());
            exit(line.plain("rank", outcome.first_rank + place), rank)
                .plain("alike", outcome.alike)
                .plain("named_by", list(named_by.map(|by| outcome.first_rank + by)))
                .maybe_text("reported", reported.map(|report| report.kind))
        }
        Ending::Stopped(signal) => line.text("signal", &signal.to_string()),
        Ending::OutputLost => {
            let error = outcome.output_error.as_ref().map(ToString::to_string);
            line.maybe_text("message", error.as_deref())
        }
        Ending::Completed | Ending::TimedOut => line,
    }
}

fn of_rank(number: usize, rank: &RankOutcome) -> String {
    let line = Object::new().plain("rank", number).plain("pid", rank.pid);
    let report = rank.report.as_ref();
    exit(line, rank)
        .maybe_text("reported", report.map(|report| report.kind))
        .maybe("named", report.and_then(|report| report.named))
        .maybe_text("at", report.and_then(|report| report.at.as_deref()))
        .plain("seconds", seconds(rank.elapsed))
        .end()
}

/// Adds how a rank ended: `exit` is `null` if it did not.
fn exit(line: Object, rank: &RankOutcome) -> Object {
    let (code, signal) = match rank.exit {
        Some(Exit::Code(code)) => (Some(code), None),
        Some(Exit::Signal(number)) => (None, Some(signal_text(number))),
        Some(Exit::Unknown) | None => (None, None),
    };
    let ended_by = rank.ended_by.map(|signal: Signal| signal.to_string());
    line.maybe_text("exit", rank.exit.map(Exit::as_str))
        .maybe("code", code)
        .maybe_text("signal", signal.as_deref())
        .maybe_text("ended_by", ended_by.as_deref())
}

/// Returns the name of a signal, or `signal 34` for one that has none.
fn signal_text(number: i32) -> String {
    signal_name(number).map_or_else(|| format!("signal {number}"), str::to_owned)
}

fn seconds(time: Duration) -> String {
    format!("{:.3}", time.as_secs_f64())
}
