//! The watch of rank 0.

use std::os::unix::net::UnixStream;

use super::*;

/// What a test is given before it is wrong.
const WATCHDOG: Duration = Duration::from_secs(20);

/// Creates a link and its other end, for a test that must not hang.
fn pair(peer: usize) -> (Link, UnixStream) {
    comm_testing::watchdog();
    Link::pair(peer)
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
