use super::*;

const fn ms(time: u64) -> Duration {
    Duration::from_millis(time)
}

fn witness(kind: &str, rank: usize, told: u64) -> Witness {
    Witness {
        kind: kind.to_owned(),
        rank: Some(rank),
        entered: ms(90),
        told: ms(told),
        slack: ms(1),
        before: None,
        message: String::new(),
    }
}

fn finished() -> Account {
    Account {
        finished: true,
        ..Account::default()
    }
}

/// Returns a plan in which rank 1 of three, or more, is killed.
fn plan(ranks: &[usize]) -> Plan {
    use super::super::plan::{Action, Injection, Point};
    Plan {
        fault: Fault::KillSeveral,
        steps: None,
        late: Vec::new(),
        timeout: None,
        injections: vec![Injection {
            who: 0,
            point: Point::Step(1),
            delay: ms(0),
            what: Action::Kill(ranks.to_vec()),
        }],
    }
}

fn killed(rank: usize, at: u64) -> Injected {
    Injected {
        rank,
        kind: InjectedKind::Killed,
        from: ms(at),
        to: ms(at),
    }
}

/// Returns a job of three in which rank 1 was killed at 100 ms and the others got their errors at 110 ms.
fn right(plan: &Plan) -> Evidence<'_> {
    Evidence {
        plan,
        within: ms(100),
        ruling: Ruling::Anyone,
        slack: ms(1),
        timed_out: false,
        exits: vec![
            Some(Exit::Code(0)),
            Some(Exit::Signal(9)),
            Some(Exit::Code(0)),
        ],
        ended: vec![ms(120); 3],
        shows: Shows::AtOnce,
        accounts: vec![Some(finished()), None, Some(finished())],
        witnesses: vec![
            Some(witness("PeerLost", 1, 110)),
            None,
            Some(witness("PeerLost", 1, 110)),
        ],
        gone: vec![None; 3],
        injected: vec![killed(1, 100)],
    }
}

/// Checks that exactly one thing is wrong, with this message.
#[track_caller]
fn finds(evidence: &Evidence<'_>, words: &str) {
    let (problems, _) = judge(evidence);
    assert_eq!(problems.len(), 1, "{problems:#?}");
    assert!(problems[0].contains(words), "{problems:?}");
}

#[test]
fn a_death_that_is_told_as_it_should_is_fine() {
    let plan = plan(&[1]);
    assert_eq!(judge(&right(&plan)), (Vec::new(), Some(ms(10))));
}

#[test]
fn a_rank_that_is_blamed_and_lives_is_found() {
    let plan = plan(&[1]);
    let mut evidence = right(&plan);
    for at in [0, 2] {
        evidence.witnesses[at] = Some(witness("PeerLost", 2, 110));
    }
    let (problems, _) = judge(&evidence);
    assert_eq!(problems.len(), 2, "{problems:#?}");
    assert!(problems[0].contains("blames Some(2), who did not die"));
}

#[test]
fn survivors_that_blame_different_dead_are_found() {
    let plan = plan(&[1, 2]);
    let mut evidence = right(&plan);
    evidence.exits.push(Some(Exit::Code(0)));
    evidence.ended.push(ms(120));
    evidence.exits[2] = Some(Exit::Signal(9));
    evidence.accounts.push(Some(finished()));
    evidence.witnesses.push(Some(witness("PeerLost", 2, 110)));
    evidence.gone.push(None);
    evidence.injected.push(killed(2, 101));
    finds(
        &evidence,
        "rank 3 blames Some(2), but rank 0 blames Some(1)",
    );
}

#[test]
fn the_wrong_kind_is_found() {
    let plan = plan(&[1]);
    let mut evidence = right(&plan);
    evidence.witnesses[2] = Some(witness("TimedOut", 1, 110));
    finds(&evidence, "was told TimedOut, not PeerLost");
}

/// It had got its error, and had dropped its region, before the other's fence failed.
#[test]
fn a_fence_may_blame_a_survivor_that_has_let_go() {
    let plan = plan(&[1]);
    let mut evidence = right(&plan);
    evidence.witnesses[2] = Some(Witness {
        before: Some(("PeerLost".to_owned(), Some(0))),
        entered: ms(111),
        ..witness("PeerLost", 1, 112)
    });
    assert_eq!(judge(&evidence).0, Vec::<String>::new());
}

#[test]
fn a_fence_that_blames_a_survivor_is_found() {
    let plan = plan(&[1]);
    let mut evidence = right(&plan);
    if let Some(witness) = &mut evidence.witnesses[2] {
        witness.before = Some(("PeerLost".to_owned(), Some(0)));
    }
    finds(&evidence, "blames Some(0), who did not die");
}

#[test]
fn who_is_told_late_or_never_or_too_early_is_found() {
    let plan = plan(&[1]);
    let mut evidence = right(&plan);
    evidence.witnesses[2] = Some(witness("PeerLost", 1, 202));
    finds(&evidence, "was told 102ms after rank 1 went");
    evidence.witnesses[2] = Some(witness("PeerLost", 1, 99));
    finds(&evidence, "1ms before it died");
    evidence.witnesses[2] = None;
    finds(&evidence, "rank 2 was never told");
}

#[test]
fn who_was_stopped_is_given_that_time() {
    let plan = plan(&[1]);
    let mut evidence = right(&plan);
    evidence.witnesses[2] = Some(witness("PeerLost", 1, 900));
    evidence.injected.push(Injected {
        rank: 2,
        kind: InjectedKind::Stopped,
        from: ms(95),
        to: ms(890),
    });
    assert_eq!(judge(&evidence), (Vec::new(), Some(ms(10))));
    // A stop of another rank is no excuse, unless that rank decides.
    evidence.injected[1].rank = 0;
    evidence.witnesses[0] = Some(witness("PeerLost", 1, 900));
    finds(&evidence, "was told 800ms after rank 1 went");
    evidence.ruling = Ruling::RankZero;
    assert_eq!(judge(&evidence), (Vec::new(), Some(ms(10))));
}

#[test]
fn who_blames_the_later_of_two_dead_is_found() {
    let plan = plan(&[1, 0]);
    let mut evidence = right(&plan);
    evidence.exits[0] = Some(Exit::Signal(9));
    evidence.witnesses[2] = Some(witness("PeerLost", 0, 710));
    evidence.injected.push(killed(0, 700));
    finds(&evidence, "blames rank 0, but rank 1 died 600ms before");
}

#[test]
fn a_rank_that_ends_in_another_way_is_found() {
    let plan = plan(&[1]);
    let mut evidence = right(&plan);
    evidence.exits[2] = Some(Exit::Signal(11));
    finds(&evidence, "rank 2 ended: was killed by");
    evidence.exits[2] = Some(Exit::Code(0));
    evidence.accounts[2] = Some(Account::default());
    finds(&evidence, "rank 2 never finished");
}

#[test]
fn a_plan_that_was_not_carried_out_is_found() {
    let plan = plan(&[1]);
    let mut evidence = right(&plan);
    evidence.exits[1] = Some(Exit::Code(0));
    evidence.accounts[1] = Some(finished());
    finds(&evidence, "nobody died");
}

#[test]
fn who_is_lost_without_a_death_is_found() {
    let harmless = Plan::draw(Fault::Stop, 1, 3);
    let mut evidence = right(&harmless);
    evidence.exits[1] = Some(Exit::Code(0));
    evidence.accounts[1] = Some(finished());
    evidence.witnesses = vec![Some(witness("TimedOut", 1, 110)), None, None];
    evidence.injected.clear();
    finds(&evidence, "lost somebody where nobody died");
}

/// Returns a plan in which rank 1 of three dumps core.
fn dump() -> Plan {
    use super::super::plan::{Action, Injection, Point};
    Plan {
        fault: Fault::DumpCore,
        injections: vec![Injection {
            who: 1,
            point: Point::Step(1),
            delay: ms(0),
            what: Action::Leave(LeaveBy::Dump(240)),
        }],
        ..plan(&[])
    }
}

#[test]
fn who_is_told_only_after_the_dump_is_found_unless_links_must_close_first() {
    let plan = dump();
    let mut evidence = right(&plan);
    evidence.injected.clear();
    evidence.exits[1] = Some(Exit::Signal(6));
    evidence.accounts[1] = Some(Account {
        leaving: Some(Leaving::Signal(6)),
        ..Account::default()
    });
    evidence.gone[1] = Some(ms(100));
    assert_eq!(judge(&evidence), (Vec::new(), Some(ms(10))));
    evidence.ended[1] = ms(900);
    evidence.witnesses[2] = Some(witness("PeerLost", 1, 910));
    finds(&evidence, "was told 810ms after rank 1 went");
    evidence.shows = Shows::WhenLinksClose;
    assert_eq!(judge(&evidence), (Vec::new(), Some(ms(10))));
    evidence.witnesses[2] = Some(witness("PeerLost", 1, 1010));
    finds(&evidence, "was told 110ms after rank 1 went");
    // A rank that waits for the dump until its timeout blames a rank as late, which it is not.
    evidence.witnesses[2] = Some(witness("TimedOut", 1, 910));
    finds(&evidence, "was told TimedOut, not PeerLost");
}

/// It may learn of the death from a rank that has descriptors, and no later than that.
#[test]
fn who_has_no_descriptors_is_given_the_time_of_those_who_have() {
    use super::super::plan::{Action, Injection, Point};
    let mut plan = plan(&[1]);
    plan.injections.push(Injection {
        who: 2,
        point: Point::Step(1),
        delay: ms(0),
        what: Action::Starve(vec![1, 2]),
    });
    let mut evidence = right(&plan);
    // Rank 0 was busy, entered late, and got its error at once; rank 2 learned of the death then.
    evidence.witnesses[0] = Some(Witness {
        entered: ms(400),
        ..witness("PeerLost", 1, 410)
    });
    evidence.witnesses[2] = Some(witness("PeerLost", 1, 420));
    assert_eq!(judge(&evidence), (Vec::new(), Some(ms(10))));
    evidence.witnesses[2] = Some(witness("PeerLost", 1, 520));
    finds(&evidence, "rank 2 was told 110ms after rank 1 went");
    evidence.witnesses[2] = Some(witness("PeerLost", 0, 420));
    let (problems, _) = judge(&evidence);
    assert!(problems[0].contains("blames Some(0), who did not die"));
}

#[test]
fn a_suspended_rank_that_times_out_is_found() {
    let plan = Plan::draw(Fault::Suspend, 1, 3);
    let mut evidence = right(&plan);
    evidence.exits[1] = Some(Exit::Code(0));
    evidence.accounts[1] = Some(finished());
    evidence.witnesses = vec![None, None, Some(witness("TimedOut", 0, 3000))];
    evidence.injected = [0, 1, 2]
        .map(|rank| Injected {
            rank,
            kind: InjectedKind::Stopped,
            from: ms(100),
            to: ms(2900),
        })
        .to_vec();
    finds(&evidence, "rank 2 lost somebody where nobody died");
    evidence.witnesses[2] = None;
    assert_eq!(judge(&evidence), (Vec::new(), None));
}
