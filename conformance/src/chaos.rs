//! Chaos: random programs in real processes, with faults injected from outside, in rounds.
//!
//! A round consists of a seed and a world. The driver draws a [`Plan`](plan::Plan) from them, starts the
//! ranks, injects the faults, and judges by the contract. No rank gets wrong data. Every survivor of a death
//! is notified in time, with the right kind of error, and all survivors blame the same rank, which really
//! died (C12, C13). If no rank was to die, none is reported lost. Then a job with the same name and without
//! faults must run at once, and nothing may be left behind (C14).
//!
//! The ranks draw the same plan from the same seed: they report when they reach the points that the driver
//! waits for, and leave by themselves where the plan requires it.

mod blocked_log;
mod fault;
mod hoard;
mod inject;
mod judge;
mod log;
mod options;
mod plan;
mod player;
mod rank;
mod round;
mod slow_link;
mod step;
mod stranger;
mod witness;

use std::io::{self, Write};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Parser;

use crate::clause::Clause;
use crate::driver;
use crate::model::{Model, Need};
use crate::subject::Subject;
pub(crate) use fault::Fault;
use log::Log;
use options::Options;
pub(crate) use rank::cases;
pub(crate) use round::Round;

/// Returns how long the ranks of a world wait for each other if one is killed at the start: long enough for
/// all of them to be started before.
fn start_patience(world: usize) -> Duration {
    Duration::from_millis(1000 + 50 * world as u64)
}

/// How long a rank may take for one program, before its watchdog ends it.
const LIMIT: Duration = Duration::from_secs(40);

/// The argument that selects chaos instead of the suite.
const FLAG: &str = "--chaos";

/// Returns the name of the case that ranks run under this fault.
fn case_name(fault: Fault) -> String {
    format!("chaos::{}", fault.name())
}

/// Returns whether the arguments of this process select chaos.
pub(crate) fn is_asked_for() -> bool {
    std::env::args_os().any(|argument| argument == FLAG)
}

/// Runs rounds until there are enough of them, or one fails.
pub(crate) fn main<S: Subject>() -> ExitCode {
    let options = Options::parse();
    if let Some(reason) = unfit(&S::MODEL) {
        return driver::usage(&format!("no chaos for '{}': {reason}", S::NAME));
    }
    match run::<S>(&options, &mut io::stdout().lock()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(reason) => driver::usage(&format!("cannot print what happens: {reason}")),
    }
}

/// Returns why no faults can be injected into ranks of this model.
fn unfit(model: &Model) -> Option<&'static str> {
    let without_deaths = model.leaves_out(Clause::C12);
    without_deaths.or_else(|| model.lacks(Need::Processes))
}

/// Runs the rounds and prints each; returns whether all of them passed.
fn run<S: Subject>(options: &Options, out: &mut impl Write) -> io::Result<bool> {
    let start = Instant::now();
    let mut log = Log::default();
    writeln!(out, "chaos on {}\n\n{}", S::NAME, Log::HEADER)?;
    for (index, seed) in (options.seed..=u64::MAX).enumerate() {
        if options.enough(index, start.elapsed()) {
            break;
        }
        let world = options.world(index);
        let fault = options.fault.unwrap_or_else(|| Fault::draw(seed));
        let round = Round::new::<S>(fault, seed, world);
        let begin = Instant::now();
        let result = round.run();
        log.round(out, &round, begin.elapsed(), &result)?;
        if let Err(problems) = result {
            let only = options
                .fault
                .map(|fault| format!(" --fault {}", fault.name()));
            writeln!(
                out,
                "\n{problems}\nthe plan: {}\nto repeat this round: cargo xtask chaos --backend {} --world {world} --seed {seed} --rounds 1{}\n",
                round.plan(),
                S::NAME,
                only.unwrap_or_default(),
            )?;
            if !options.keep_going {
                break;
            }
        }
    }
    log.summary(out, start.elapsed())
}
