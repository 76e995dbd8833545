//! The rank role: one process that runs a case as one rank, or as all ranks in threads.

use std::any::Any;
use std::cell::RefCell;
use std::io::Write;
use std::panic::{self, AssertUnwindSafe};
use std::process::ExitCode;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use crate::case::{Case, Verdict};
use crate::orders::Orders;
use crate::report::Leaving;
use crate::run::{Position, Run};

thread_local! {
    /// Where the last panic of this thread came from: the payload alone does not contain that.
    static LAST_PANIC: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Runs the case that the driver ordered.
pub(crate) fn main(cases: &[Case], orders: &Orders) -> ExitCode {
    let Some(case) = cases.iter().find(|case| case.name == orders.case) else {
        say(&format!("there is no case '{}'", orders.case));
        return ExitCode::FAILURE;
    };
    panic::set_hook(Box::new(|info| {
        let text = format!("{info}");
        // A backend may end the process of a rank that unwinds, and lose its report.
        say(&text);
        LAST_PANIC.with(|last| last.replace(text));
    }));
    let ranks = match orders.rank {
        Some(rank) => vec![rank],
        None => (0..orders.size).collect(),
    };
    let mut runs = Vec::new();
    for rank in ranks {
        match Run::new(orders.clone(), rank) {
            Ok(run) => runs.push(run),
            Err(reason) => {
                say(&format!("rank {rank} cannot report: {reason}"));
                return ExitCode::FAILURE;
            }
        }
    }
    let positions = runs.iter().map(|run| (run.rank, run.position())).collect();
    watch(orders.limit, positions);

    let failures: usize = thread::scope(|scope| {
        // One rank per process runs on the main thread, as a program does.
        if let [run] = runs.as_slice() {
            return perform(case, run);
        }
        let threads: Vec<_> = runs
            .iter()
            .map(|run| scope.spawn(|| perform(case, run)))
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap_or(1))
            .sum()
    });
    match runs.as_slice() {
        [run] if run.processes() && run.announced() == Some(Leaving::Panic) => ExitCode::from(101),
        _ if failures == 0 => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    }
}

/// Runs the case on one rank and reports; returns the number of failures, 0 or 1.
fn perform(case: &Case, run: &Run) -> usize {
    let outcome = panic::catch_unwind(AssertUnwindSafe(|| case.run(run)));
    match (outcome, run.announced()) {
        (Err(_), Some(Leaving::Panic)) => run.report.panicked(),
        (Ok(Ok(())), None) => run.report.finished(),
        (Ok(Ok(())), Some(how)) => return fail(run, &format!("is still here after {how:?}")),
        (outcome, _) => return fail(run, &explain(outcome)),
    }
    0
}

fn explain(outcome: Result<Verdict, Box<dyn Any + Send>>) -> String {
    match outcome {
        Ok(Ok(())) => String::new(),
        Ok(Err(failure)) => failure.to_string(),
        Err(_) => LAST_PANIC.with(RefCell::take),
    }
}

fn fail(run: &Run, message: &str) -> usize {
    let message = format!("{message} [at: {}]", run.position().get());
    run.report.failed(&message);
    say(&format!("rank {} failed: {message}", run.rank));
    1
}

/// Ends the process when the case takes too long, after printing where each rank is.
///
/// Uses `abort`, because a hanging rank may hold any lock that an orderly exit needs.
fn watch(limit: Duration, positions: Vec<(usize, Arc<Position>)>) {
    thread::spawn(move || {
        thread::sleep(limit);
        for (rank, position) in positions {
            let place = position.get();
            say(&format!(
                "rank {rank} hangs: after {limit:?} still at: {place}"
            ));
        }
        std::process::abort();
    });
}

/// Writes to the standard error stream, which the driver shows when a job fails.
fn say(message: &str) {
    // The report file is what counts; a closed stream changes nothing.
    let _ = writeln!(std::io::stderr(), "{message}");
}
