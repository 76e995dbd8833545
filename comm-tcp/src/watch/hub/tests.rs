//! The watch of rank 0.

use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;

use super::*;
use crate::notice::Notice;

/// What a test is given before it is wrong.
const WATCHDOG: Duration = Duration::from_secs(20);

/// Creates a link and its other end, for a test that must not hang.
fn pair(peer: usize) -> (Link, UnixStream) {
    comm_testing::watchdog();
    Link::pair(peer)
}

/// Creates the watch of three ranks; returns the other ends of their links.
fn watch() -> (Vec<Link>, Hub) {
    let (ours, its): (Vec<Link>, Vec<UnixStream>) = (0..3).map(pair).unzip();
    let its = its
        .into_iter()
        .map(|it| (Wire::from(it), "here".to_owned()));
    let hub = Hub::new(
        its.collect(),
        Arc::new(Signals::default()),
        Patience::of(None),
    );
    (ours, hub)
}

/// Waits for the next notice.
fn hear(link: &mut Link) -> Notice {
    let began = Instant::now();
    loop {
        if let Some(notice) = next(link).unwrap() {
            return notice;
        }
        assert!(began.elapsed() < WATCHDOG, "no notice comes");
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
        let hub = Hub::new(its.collect(), signals, Patience::of(None))
            .start()
            .unwrap();
        tell(&mut ours[1], &Notice::Abort { code: 1 });
        assert_eq!(blamed(hear(&mut ours[0])), Some(1));
        let others = ours.iter_mut().skip(1);
        let told = others.filter_map(|link| next(link).unwrap()).count();
        assert_eq!(told, RANKS - 1);
        drop(ours);
        hub.join().unwrap();
    }
}

/// Asks again and again, until it is dropped.
fn ask_without_end(link: &Link) -> std::sync::mpsc::Sender<()> {
    let (go_on, stopped) = std::sync::mpsc::channel::<()>();
    let mut stream = UnixStream::from(link.as_fd().try_clone_to_owned().unwrap());
    let pings = Notice::Ping.encode().repeat(400);
    std::thread::spawn(move || {
        use std::io::Write;
        let mut at = 0;
        while stopped.try_recv() != Err(std::sync::mpsc::TryRecvError::Disconnected) {
            match stream.write(&pings[at..]) {
                Ok(count) => at = (at + count) % pings.len(),
                Err(_) => std::thread::yield_now(),
            }
        }
    });
    go_on
}

#[test]
fn the_others_are_heard_while_a_rank_asks_without_end() {
    let (mut ours, hub) = watch();
    let flood = ask_without_end(&ours[1]);
    let hub = hub.start().unwrap();
    // Until the watch is in the middle of it.
    let began = Instant::now();
    while next(&mut ours[1]).unwrap().is_none() {
        assert!(began.elapsed() < WATCHDOG, "nothing is answered");
    }
    tell(&mut ours[2], &Notice::Abort { code: 1 });
    assert_eq!(blamed(hear(&mut ours[0])), Some(2));
    drop(flood);
    drop(ours);
    hub.join().unwrap();
}

/// What a rank does not read is kept for it up to a limit; it gets the cause all the same.
#[test]
fn little_is_kept_for_a_rank_that_asks_without_end_and_reads_nothing() {
    let (mut ours, mut hub) = watch();
    let now = Instant::now();
    for _ in 0..20_000 {
        tell(&mut ours[1], &Notice::Ping);
        hub.read(1, now);
    }
    let kept = hub.links[1].as_ref().unwrap().kept();
    assert!(kept < 100_000, "{kept} bytes are kept");
    tell(&mut ours[2], &Notice::Abort { code: 1 });
    let hub = hub.start().unwrap();
    let began = Instant::now();
    loop {
        match hear(&mut ours[1]) {
            Notice::Pong => assert!(began.elapsed() < WATCHDOG),
            told => break assert_eq!(blamed(told), Some(2)),
        }
    }
    drop(ours);
    hub.join().unwrap();
}

/// More than is read at a time, and then nothing that would wake the watch: the rest is read all the same.
#[test]
fn what_a_rank_said_last_is_read_however_much_it_said_before() {
    let (mut ours, hub) = watch();
    for _ in 0..200 {
        tell(&mut ours[1], &Notice::Ping);
    }
    tell(&mut ours[1], &Notice::Abort { code: 1 });
    let hub = hub.start().unwrap();
    assert_eq!(blamed(hear(&mut ours[2])), Some(1));
    drop(ours);
    hub.join().unwrap();
}
