//! The watch of rank 0 and its deputy, which the test plays.

use std::os::unix::net::UnixStream;

use super::*;

/// What a test is given before it is wrong.
const WATCHDOG: Duration = Duration::from_secs(20);

/// Creates a link and its other end, for a test that must not hang.
fn pair(peer: usize) -> (Link, UnixStream) {
    comm_testing::watchdog();
    Link::pair(peer)
}

/// Creates the watch of three ranks; returns the other ends of their links, and that of the deputy's.
fn watch() -> (Vec<Link>, Link, Arc<Signals>, Hub) {
    let signals = Arc::new(Signals::default());
    let (ours, its): (Vec<Link>, Vec<UnixStream>) = (0..3).map(pair).unzip();
    let its = its
        .into_iter()
        .map(|it| (Wire::from(it), "here".to_owned()));
    let (deputy, end) = pair(0);
    let hub = Hub::new(its.collect(), Arc::clone(&signals));
    let hub = hub.with_deputy(Some(Link::new(Wire::from(end), 1)));
    (ours, deputy, signals, hub)
}

/// Waits for the next notice.
fn hear(link: &mut Link) -> Notice {
    let began = Instant::now();
    loop {
        if let Some(notice) = next(link).unwrap() {
            return notice;
        }
        assert!(began.elapsed() < WATCHDOG, "nothing is told");
        std::thread::yield_now();
    }
}

fn blamed(notice: Notice) -> Option<usize> {
    match notice {
        Notice::Cause { cause, .. } => cause.rank,
        other => panic!("{other:?}"),
    }
}

fn lost(rank: usize) -> Notice {
    let cause = Cause::new(FailureKind::PeerLost, Some(rank), "gone");
    Notice::Cause { cause, answered: 0 }
}

#[test]
fn what_the_deputy_decided_is_the_cause_for_all_and_no_call_is_answered_any_more() {
    let (mut ours, mut deputy, signals, hub) = watch();
    let hub = hub.start().unwrap();
    tell(&mut deputy, &lost(2));
    assert_eq!(blamed(hear(&mut ours[0])), Some(2));
    assert_eq!(blamed(hear(&mut ours[1])), Some(2));
    assert!(!signals.answer(0));
    drop(ours);
    hub.join().unwrap();
}

/// Rank 0 was stopped, and finds both when it goes on.
#[test]
fn the_deputy_is_heard_before_anybody_else() {
    let (mut ours, mut deputy, _, hub) = watch();
    tell(&mut ours[1], &Notice::Abort { code: 1 });
    tell(&mut deputy, &lost(2));
    let hub = hub.start().unwrap();
    assert_eq!(blamed(hear(&mut ours[0])), Some(2));
    drop(ours);
    hub.join().unwrap();
}

#[test]
fn rank_0_decides_once_the_deputy_has_heard_it_or_says_nothing_and_tells_it_first() {
    for confirms in [true, false] {
        let (mut ours, mut deputy, _, hub) = watch();
        let hub = hub.start().unwrap();
        tell(&mut deputy, &Notice::Ping);
        assert_eq!(hear(&mut deputy), Notice::Pong);
        tell(&mut ours[1], &Notice::Abort { code: 1 });
        if confirms {
            tell(&mut deputy, &Notice::Pong);
        }
        assert_eq!(blamed(hear(&mut ours[2])), Some(1));
        assert_eq!(next(&mut deputy).unwrap().and_then(blamed), Some(1));
        drop(ours);
        hub.join().unwrap();
    }
}

/// No drop waits for a peer.
#[test]
fn rank_0_leaves_although_its_deputy_has_asked_and_says_nothing() {
    // On a busy machine one of several suffices.
    let took = (0..10).map(|_| {
        let (mut ours, mut deputy, signals, hub) = watch();
        let hub = hub.start().unwrap();
        tell(&mut deputy, &Notice::Ping);
        assert_eq!(hear(&mut deputy), Notice::Pong);
        signals.leaving.store(true, Ordering::Release);
        tell(&mut ours[0], &Notice::Goodbye { sequence: 0 });
        hang_up(&ours[0]);
        let began = Instant::now();
        hub.join().unwrap();
        assert_eq!(hear(&mut ours[1]), Notice::Goodbye { sequence: 0 });
        began.elapsed()
    });
    let took = took.min().unwrap();
    assert!(took < Duration::from_millis(50), "it took {took:?}");
}

#[test]
fn a_deputy_that_is_gone_keeps_nobody() {
    let (mut ours, mut deputy, _, hub) = watch();
    let hub = hub.start().unwrap();
    tell(&mut deputy, &Notice::Ping);
    assert_eq!(hear(&mut deputy), Notice::Pong);
    drop(deputy);
    tell(&mut ours[1], &Notice::Abort { code: 1 });
    assert_eq!(blamed(hear(&mut ours[2])), Some(1));
    drop(ours);
    hub.join().unwrap();
}

/// Once rank 0 knows the cause it may end its process, and the watch with it: by then all others have been told.
#[test]
fn when_rank_0_is_told_everybody_else_has_been() {
    const RANKS: usize = 200;
    for _ in 0..5 {
        let signals = Arc::new(Signals::default());
        let (mut ours, its): (Vec<Link>, Vec<UnixStream>) = (0..RANKS).map(pair).unzip();
        let its = its
            .into_iter()
            .map(|it| (Wire::from(it), "here".to_owned()));
        let hub = Hub::new(its.collect(), signals).start().unwrap();
        tell(&mut ours[1], &Notice::Abort { code: 1 });
        assert_eq!(blamed(hear(&mut ours[0])), Some(1));
        let others = ours.iter_mut().skip(1);
        let told = others.filter_map(|link| next(link).unwrap()).count();
        assert_eq!(told, RANKS - 1);
        drop(ours);
        hub.join().unwrap();
    }
}
