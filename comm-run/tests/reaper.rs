//! A host program that reaps all its children, as some supervisors and interpreters do. The only test in its file, because it
//! would reap the children of other tests.
#![cfg(target_os = "linux")]

mod common;

use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use comm_run::{Ending, Exit, Job, Line, Outcome, RankOutcome};
use common::{PATIENCE, fresh_mark, gone};
use rustix::process::{WaitOptions, wait};

const TRIES: usize = 100;

#[test]
fn a_rank_that_somebody_else_reaped_has_ended_with_an_unknown_code() {
    let mark = fresh_mark();
    thread::spawn(|| {
        loop {
            // Fails at once if there is no child.
            if wait(WaitOptions::empty()).is_err() {
                thread::sleep(Duration::from_millis(1));
            }
        }
    });
    // The supervisor may see an exit before this loop takes it, so not every job loses one.
    let lost = (0..TRIES).find_map(|_| {
        let outcome = run(&mark);
        let unknown = |rank: &RankOutcome| rank.exit == Some(Exit::Unknown);
        for rank in &outcome.ranks {
            assert!(
                unknown(rank) || rank.exit == Some(Exit::Code(0)),
                "{rank:?}"
            );
            // No other rank is ended because of it.
            assert_eq!(rank.ended_by, None);
        }
        let first = outcome.ranks.iter().position(unknown);
        let expected = first.map_or(Ending::Completed, Ending::Unknown);
        assert_eq!(outcome.ending, expected);
        first.map(|_| outcome)
    });
    let outcome = lost.expect("one of many jobs loses the exit code of a rank");
    assert_eq!(outcome.exit_code(), 125);
    assert!(!outcome.success());
    assert!(Exit::Unknown.to_string().contains("unknown"));
    gone(&mark);
}

/// Runs a job whose ranks succeed, for a bounded time.
fn run(mark: &str) -> Outcome {
    let (sender, ended) = channel();
    let job = Job::new("true", 3)
        .sink(|_: Line<'_>| Ok(()))
        .env("COMM_RUN_TEST_MARK", mark);
    thread::spawn(move || sender.send(job.run().expect("the job starts")));
    ended.recv_timeout(PATIENCE).expect("the job ends")
}
