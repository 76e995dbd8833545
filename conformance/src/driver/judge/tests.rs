//! What passes, and the many ways to fail.

use super::*;

const NAME: &str = "job";

fn good(rank: usize, world: usize) -> Account {
    Account {
        greeting: format!("rank {rank} of {world} in {NAME}"),
        opened: vec![(rank, world)],
        finished: true,
        ..Account::default()
    }
}

fn evidence(accounts: Vec<Option<Account>>, exits: &[Exit]) -> Evidence<'static> {
    Evidence {
        world: accounts.len(),
        placement: Placement::Processes,
        name: NAME,
        accounts,
        launched: false,
        exits: exits.iter().copied().map(Some).collect(),
        timed_out: false,
    }
}

fn problems(accounts: [Account; 2], exits: [Exit; 2]) -> String {
    judge(&evidence(accounts.map(Some).to_vec(), &exits)).join("\n")
}

const FINE: Exit = Exit::Code(0);

#[test]
fn all_finished_with_zero_is_a_pass() {
    assert_eq!(problems([good(0, 2), good(1, 2)], [FINE, FINE]), "");
}

#[test]
fn singletons_that_exit_with_zero_fail() {
    let alone = Account {
        opened: vec![(0, 1)],
        ..good(1, 2)
    };
    let text = problems([good(0, 2), alone], [FINE, FINE]);
    assert!(text.contains("rank 1 opened as rank 0 of 1"), "{text}");
}

#[test]
fn silence_fails() {
    let text = judge(&evidence(vec![Some(good(0, 2)), None], &[FINE, FINE])).join("\n");
    assert_eq!(text, "rank 1 never reported");
}

#[test]
fn an_exit_with_zero_before_the_end_fails() {
    let quitter = Account {
        finished: false,
        ..good(1, 2)
    };
    let text = problems([good(0, 2), quitter], [FINE, FINE]);
    assert_eq!(text, "rank 1 never finished");
}

#[test]
fn a_case_that_opens_nothing_fails() {
    let idle = Account {
        opened: vec![],
        ..good(1, 2)
    };
    let text = problems([good(0, 2), idle], [FINE, FINE]);
    assert_eq!(text, "rank 1 never opened a communicator");
}

#[test]
fn a_report_for_another_job_fails() {
    let stranger = Account {
        greeting: "rank 1 of 2 in another".to_owned(),
        ..good(1, 2)
    };
    assert_ne!(problems([good(0, 2), stranger], [FINE, FINE]), "");
}

#[test]
fn an_announced_death_must_happen_as_announced() {
    let victim = Account {
        leaving: Some(Leaving::Signal(9)),
        finished: false,
        ..good(1, 2)
    };
    let end = |exit| problems([good(0, 2), victim.clone()], [FINE, exit]);
    assert_eq!(end(Exit::Signal(9)), "");
    assert_ne!(end(Exit::Signal(6)), "");
    assert_ne!(end(FINE), "");
    let survivor = Account {
        finished: true,
        ..victim.clone()
    };
    assert_ne!(problems([good(0, 2), survivor], [FINE, FINE]), "");
}

#[test]
fn a_failing_exit_fails_whatever_was_reported() {
    let text = problems([good(0, 2), good(1, 2)], [FINE, Exit::Code(3)]);
    assert!(text.contains("process 1 ended with"), "{text}");
}

#[test]
fn a_job_that_had_to_be_ended_fails() {
    let mut evidence = evidence(vec![Some(good(0, 1))], &[FINE]);
    evidence.timed_out = true;
    assert_eq!(judge(&evidence).len(), 1);
}

#[test]
fn threads_share_one_exit() {
    let mut evidence = evidence(vec![Some(good(0, 2)), Some(good(1, 2))], &[FINE]);
    evidence.placement = Placement::Threads;
    assert_eq!(judge(&evidence), Vec::<String>::new());
}

#[test]
fn a_launcher_ends_for_all_ranks() {
    let accounts = vec![Some(good(0, 2)), Some(good(1, 2))];
    let launched = |exit| Evidence {
        launched: true,
        ..evidence(accounts.clone(), &[exit])
    };
    assert_eq!(judge(&launched(FINE)), [""; 0]);
    let problems = judge(&launched(Exit::Code(1)));
    assert_eq!(problems.len(), 1, "{problems:?}");
    let aborted = |rank| Account {
        finished: false,
        leaving: Some(Leaving::Code(7)),
        ..good(rank, 2)
    };
    let accounts = vec![Some(aborted(0)), Some(aborted(1))];
    let launched = |exit| Evidence {
        launched: true,
        ..evidence(accounts.clone(), &[exit])
    };
    assert_eq!(judge(&launched(Exit::Code(9))), [""; 0]);
    assert_eq!(judge(&launched(FINE)).len(), 1);
}
