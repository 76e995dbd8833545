use comm_api::FailureKind::PeerLost;

use super::*;

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn held() -> (Held, Instant) {
    let now = Instant::now();
    (Held::new(Cause::new(PeerLost, Some(2), "gone"), now), now)
}

#[test]
fn a_rank_0_that_does_not_answer_is_stood_in_for() {
    let (mut held, now) = held();
    assert_eq!(held.next_due(), now + ms(250));
    assert_eq!(held.step(now + ms(50)), Step::Wait);
    assert_eq!(held.step(now + ms(250)), Step::Tell);
    // It has answered, and is asked again.
    let then = now + ms(50);
    (held.heard, held.asked) = (then, false);
    assert_eq!(held.step(then), Step::Wait);
    assert_eq!(held.next_due(), then + ms(50));
    assert_eq!(held.step(then + ms(50)), Step::Ask);
    held.asked = true;
    assert_eq!(held.step(then + ms(50)), Step::Wait);
    assert_eq!(held.next_due(), then + ms(250));
    assert_eq!(held.step(then + ms(250)), Step::Tell);
}

#[test]
fn a_rank_0_that_answers_decides_and_may_decide_otherwise() {
    let (mut held, now) = held();
    let then = now + ms(1000);
    (held.heard, held.asked) = (then, false);
    assert_eq!(held.step(then), Step::Wait);
    let then = now + ms(2000);
    held.heard = then;
    assert_eq!(held.step(then), Step::Forget);
    // Silent at last.
    assert_eq!(held.step(then + ms(250)), Step::Tell);
}

/// What a test is given before it is wrong.
const WATCHDOG: Duration = Duration::from_secs(20);

/// Starts a deputy of five ranks, of which rank 3 has no link to it; returns the other ends.
fn deputy() -> (Vec<Option<Link>>, JoinHandle<()>) {
    comm_testing::watchdog();
    let (mut ours, mut its) = (Vec::new(), Vec::new());
    for rank in 0..5 {
        let (link, other) = Link::pair(rank);
        let there = rank != 3;
        ours.push(there.then_some(link));
        its.push((there.then(|| Wire::from(other)), format!("host {rank}")));
    }
    (ours, Deputy::new(its).start().unwrap())
}

/// Waits for the next notice.
fn hear(link: Option<&mut Link>) -> Notice {
    let (began, link) = (Instant::now(), link.unwrap());
    loop {
        if let Some(notice) = next(link).unwrap() {
            return notice;
        }
        assert!(began.elapsed() < WATCHDOG, "nothing is told");
        std::thread::yield_now();
    }
}

/// Returns the rank that a cause blames.
fn blamed(notice: Notice) -> Option<usize> {
    match notice {
        Notice::Cause { cause, .. } => cause.rank,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_death_is_told_after_the_silence_of_rank_0_also_if_one_rank_cannot_be_told() {
    let (mut ours, deputy) = deputy();
    let began = Instant::now();
    ours[2] = None;
    assert_eq!(blamed(hear(ours[4].as_mut())), Some(2));
    assert!(began.elapsed() >= ms(250));
    assert_eq!(blamed(hear(ours[1].as_mut())), Some(2));
    assert_eq!(hear(ours[0].as_mut()), Notice::Ping);
    assert_eq!(blamed(hear(ours[0].as_mut())), Some(2));
    drop(ours);
    deputy.join().unwrap();
}

#[test]
fn a_rank_0_that_answers_is_left_to_decide_and_its_cause_is_passed_on() {
    let (mut ours, deputy) = deputy();
    let began = Instant::now();
    ours[2] = None;
    while began.elapsed() < ms(1000) {
        assert_eq!(hear(ours[0].as_mut()), Notice::Ping);
        tell(ours[0].as_mut().unwrap(), &Notice::Pong);
        assert_eq!(hear(ours[0].as_mut()), Notice::Pong, "heard so");
    }
    assert_eq!(next(ours[4].as_mut().unwrap()), Ok(None), "told at once");
    let cause = Cause::new(PeerLost, Some(3), "gone");
    let notice = Notice::Cause { cause, answered: 7 };
    tell(ours[0].as_mut().unwrap(), &notice);
    assert_eq!(hear(ours[4].as_mut()), notice);
    assert_eq!(hear(ours[1].as_mut()), notice);
    drop(ours);
    deputy.join().unwrap();
}

#[test]
fn what_rank_0_does_not_share_is_forgotten() {
    let (mut ours, deputy) = deputy();
    ours[2] = None;
    // Rank 0 answers until it is asked no more.
    let mut heard = Instant::now();
    while heard.elapsed() < ms(50) * 10 {
        match next(ours[0].as_mut().unwrap()).unwrap() {
            Some(Notice::Ping) => {
                heard = Instant::now();
                tell(ours[0].as_mut().unwrap(), &Notice::Pong);
            }
            Some(other) => assert_eq!(other, Notice::Pong),
            None => std::thread::yield_now(),
        }
    }
    assert_eq!(next(ours[4].as_mut().unwrap()), Ok(None));
    // Another one is not.
    tell(ours[4].as_mut().unwrap(), &Notice::Abort { code: 3 });
    assert_eq!(blamed(hear(ours[1].as_mut())), Some(4));
    drop(ours);
    deputy.join().unwrap();
}

#[test]
fn without_rank_0_there_is_nobody_to_stand_in_for() {
    let (mut ours, deputy) = deputy();
    (ours[0], ours[2]) = (None, None);
    std::thread::sleep(ms(250) * 2);
    assert_eq!(next(ours[4].as_mut().unwrap()), Ok(None));
    drop(ours);
    deputy.join().unwrap();
}
