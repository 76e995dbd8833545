//! Every line of the table, and which takes precedence.

use std::time::Duration;

use comm_kit::report::{Report, What};

use super::{Evidence, Verdict, named_by, weigh};
use crate::verdict::outcome::Exit;

/// Parses the word as it arrives through the pipe.
fn what(word: &str) -> What {
    let line = format!("cobre-report 0 {word} -");
    Report::parse(line.as_bytes()).unwrap().what
}

fn ended(exit: Exit, ms: u64) -> Evidence {
    Evidence {
        exit: Some(exit),
        was_ended: false,
        at: Duration::from_millis(ms),
        report: None,
    }
}

fn code(code: i32, ms: u64) -> Evidence {
    ended(Exit::Code(code), ms)
}

impl Evidence {
    fn reports(mut self, word: &str, named: Option<usize>) -> Self {
        self.report = Some(Report {
            rank: 0,
            what: what(word),
            named,
            at: None,
        });
        self
    }

    fn names(self, rank: usize) -> Self {
        self.reports("lost", Some(rank))
    }

    fn by_the_launcher(mut self) -> Self {
        self.was_ended = true;
        self
    }
}

#[track_caller]
fn blamed(ranks: &[Evidence], cause: usize, failed: usize) {
    let alike = false;
    let expected = Verdict {
        cause,
        failed,
        alike,
    };
    assert_eq!(weigh(0, ranks), Some(expected));
}

#[test]
fn no_rank_failed() {
    assert_eq!(weigh(0, &[code(0, 1), code(0, 2)]), None);
    let ended = code(1, 1).by_the_launcher();
    assert_eq!(weigh(0, &[code(0, 1), ended]), None);
}

#[test]
fn of_those_that_ended_together_the_lowest() {
    blamed(&[code(1, 240), code(4, 0), code(4, 100)], 0, 0);
    blamed(&[code(4, 260), code(4, 5), code(1, 0)], 1, 1);
    blamed(&[code(4, 400), code(0, 0), code(1, 0)], 2, 2);
}

#[test]
fn all_are_alike_only_if_nothing_tells_one_from_the_others() {
    let alike = |ranks: &[Evidence]| weigh(0, ranks).unwrap().alike;
    assert!(alike(&[code(3, 0), code(3, 250), code(3, 9)]));
    // A panic inside a call names the rank itself.
    let panic = |rank| code(101, 0).reports("panicked", Some(rank));
    assert!(alike(&[panic(0), panic(1)]));
    let signal = ended(Exit::Signal(11), 0);
    for different in [
        &[code(3, 0)][..],
        &[code(3, 0), code(3, 251)],
        &[code(3, 0), code(4, 0)],
        &[code(3, 0), code(0, 0)],
        &[code(3, 0), code(3, 0).by_the_launcher()],
        &[code(3, 0), code(3, 0).names(0)],
        &[code(3, 0), code(3, 0).reports("refused", Some(1))],
        &[code(3, 0), code(3, 0).reports("lost", None)],
        &[signal, signal],
    ] {
        assert!(!alike(different), "{different:?}");
    }
}

/// A rank that ends by the launcher's signal did not crash.
#[test]
fn a_rank_that_the_launcher_ended_is_not_broken() {
    for exit in [Exit::Signal(15), Exit::Signal(9), Exit::Code(101)] {
        let hung = ended(exit, 900).by_the_launcher();
        // Both are named: the rank that crashed takes precedence, although its number is higher.
        blamed(
            &[
                hung,
                code(4, 0).names(0),
                code(4, 0).names(3),
                code(101, 910),
            ],
            3,
            3,
        );
    }
}

#[test]
fn a_named_rank_comes_before_all_others() {
    // The cause still writes its backtrace when the others have ended.
    blamed(
        &[code(4, 0).names(2), code(4, 1).names(2), code(101, 900)],
        2,
        2,
    );
    blamed(
        &[ended(Exit::Signal(11), 0), code(4, 1).names(2), code(1, 2)],
        2,
        2,
    );
}

#[test]
fn a_rank_that_names_another_is_not_the_cause_although_named() {
    let chain = [code(4, 0).names(1), code(4, 0).names(2), code(7, 300)];
    blamed(&chain, 2, 2);
    // Two ranks name each other: the lowest of those that ended first is the cause.
    blamed(&[code(4, 0).names(1), code(4, 0).names(0)], 0, 0);
}

#[test]
fn of_two_named_the_one_that_a_signal_killed() {
    let ranks = [
        code(4, 0).names(2),
        code(4, 0).names(3),
        code(1, 0),
        ended(Exit::Signal(9), 100),
    ];
    blamed(&ranks, 3, 3);
}

#[test]
fn a_signal_or_a_panic_comes_before_an_exit() {
    blamed(&[code(1, 0), ended(Exit::Signal(9), 400)], 1, 1);
    blamed(&[code(1, 0), code(101, 400)], 1, 1);
    // A panic because a collective failed is only a report.
    blamed(&[code(101, 0).names(1), code(3, 400)], 1, 1);
}

#[test]
fn what_fails_long_after_has_a_cause_of_its_own() {
    blamed(&[code(3, 0), ended(Exit::Signal(11), 2000)], 0, 0);
    blamed(&[code(3, 0), code(101, 2000)], 0, 0);
}

#[test]
fn those_that_only_report_come_last() {
    blamed(&[code(4, 0).names(9), code(1, 480)], 1, 1);
    blamed(&[code(4, 0).reports("start", None), code(1, 480)], 1, 1);
    // The rank to blame is on another machine.
    blamed(&[code(4, 10).names(9), code(4, 0).names(9)], 0, 0);
}

#[test]
fn a_named_rank_need_not_have_failed() {
    // The cause exited early, with success.
    blamed(
        &[code(0, 0), code(4, 5).names(0), code(4, 6).names(0)],
        0,
        1,
    );
    // The cause hung until it was ended.
    let hung = ended(Exit::Signal(15), 900).by_the_launcher();
    blamed(&[code(4, 5).reports("late", Some(1)), hung], 1, 0);
    let stuck = Evidence { exit: None, ..hung };
    blamed(&[code(4, 5).names(1), stuck], 1, 0);
}

#[test]
fn a_rank_that_names_itself_reports_no_other() {
    blamed(&[code(4, 0).names(1), code(5, 9).names(1)], 1, 1);
    let panicked = code(1, 9).reports("panicked", Some(1));
    blamed(&[code(4, 0).reports("io", None), panicked], 1, 1);
    assert_eq!(
        panicked.report.map(|report| report.what),
        Some(What::Panicked)
    );
}

#[test]
fn a_rank_that_refused_its_arguments_comes_before_those_that_were_told() {
    let refused = |rank: Evidence| rank.reports("refused", Some(2));
    let job = |own: Evidence| [refused(code(1, 0)), refused(code(1, 1)), own, code(1, 0)];
    blamed(&job(refused(code(1, 400))), 2, 2);
    // Ranks that panic because of the refusal have also reported it.
    let panics = [refused(code(101, 0)), code(1, 2), refused(code(1, 1))];
    blamed(&panics, 2, 2);
    // The rank that refused could not report.
    blamed(&job(code(1, 400)), 2, 2);
    assert_eq!(named_by(0, &job(code(1, 400)), 2), [0, 1]);
}

#[test]
fn whatever_is_known_for_sure_comes_before_a_refusal() {
    let refused = code(1, 0).reports("refused", Some(0));
    blamed(&[refused, code(4, 0).names(2), code(7, 0)], 2, 2);
    blamed(&[refused, ended(Exit::Signal(9), 400)], 1, 1);
    // The rank saw a refusal and then exited: the others fail because of its exit.
    let left = code(1, 400).reports("refused", Some(0));
    let ranks = [code(4, 0).names(2), code(4, 0).names(2), left];
    blamed(&ranks, 2, 2);
    // The rank that lost it, not the rank whose call it refused.
    let ranks = [
        code(4, 0).reports("refused", Some(2)),
        code(4, 0).names(2),
        code(1, 0),
    ];
    assert_eq!(named_by(0, &ranks, 2), [1]);
}

#[test]
fn a_refusal_that_a_rank_survived_says_nothing() {
    let survived = code(0, 0).reports("refused", Some(1)).settled();
    assert_eq!(survived.report, None);
    let stopped = code(1, 0).reports("refused", Some(1)).by_the_launcher();
    assert_eq!(stopped.settled().report, None);
    assert!(code(4, 0).names(1).settled().report.is_some());
    blamed(&[survived, code(0, 0), code(3, 900)], 2, 2);
    // The rank that refused has succeeded, so the rank that failed has another cause.
    let told = code(1, 0).reports("refused", Some(1)).settled();
    blamed(&[told, code(0, 0)], 0, 0);
}

#[test]
fn ranks_are_numbered_in_the_whole_job() {
    let ranks = [code(4, 0).names(5), code(9, 400)];
    assert_eq!(weigh(4, &ranks).unwrap().cause, 1);
    // Rank 1 is on another machine.
    let ranks = [code(4, 0).names(1), code(9, 400).names(1)];
    assert_eq!(weigh(4, &ranks).unwrap().cause, 0);
}
