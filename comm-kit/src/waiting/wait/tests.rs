use std::thread::sleep;

use super::*;

/// A wait that has already lasted for this long when it asks how to wait.
fn after(policy: Policy, waited: Duration) -> (Backoff, Pause) {
    let mut backoff = Backoff::new(policy);
    backoff.pause();
    backoff.since = backoff.since.and_then(|since| since.checked_sub(waited));
    let pause = backoff.pause();
    (backoff, pause)
}

fn micros(micros: u64) -> Duration {
    Duration::from_micros(micros)
}

#[test]
fn a_rank_with_a_processor_spins_then_yields_then_sleeps() {
    let policy = Policy::new(2, 2);
    assert_eq!(policy.eager_looks, 64);
    // Within the 20 us that spinning takes, if the machine lets this thread run.
    let spun = (0..1000).any(|_| after(policy, micros(1)).1 == Pause::Spin);
    assert!(spun);
    let yielded = (0..1000).any(|_| after(policy, micros(25)).1 == Pause::Yield);
    assert!(yielded);
    assert_eq!(after(policy, micros(1020)).1, Pause::Sleep);
}

#[test]
fn ranks_that_share_processors_yield_at_once() {
    for (ranks, processors, roomy) in [(2, 2, true), (1, 2, true), (3, 2, false), (64, 2, false)] {
        let policy = Policy::new(ranks, processors);
        assert_eq!(policy.is_roomy(), roomy);
        let first = Backoff::new(policy).pause();
        assert_eq!(first == Pause::Yield, !roomy);
    }
    assert_eq!(Backoff::new(Policy::CROWDED).pause(), Pause::Yield);
    assert_eq!(after(Policy::CROWDED, micros(1000)).1, Pause::Sleep);
    assert_eq!(Backoff::new(Policy::ASLEEP).pause(), Pause::Sleep);
}

#[test]
fn ranks_that_share_processors_give_theirs_away_twice_before_they_look_at_the_clock() {
    let mut backoff = Backoff::new(Policy::new(3, 2));
    for _ in 0..2 {
        assert!(backoff.gives_way());
        // The next rank that enters during a yield does not prolong the time without a reading of the clock.
        backoff.moved();
        assert!(backoff.gives_way());
        assert!(!backoff.gives_way());
        backoff.moved();
        assert!(!backoff.gives_way());
        assert_eq!(backoff.pause(), Pause::Yield);
        assert!(!backoff.gives_way());
        backoff.moved();
    }
    assert!(!Backoff::new(Policy::new(2, 2)).gives_way());
}

#[test]
fn yields_that_are_taken_up_for_some_microseconds_are_a_sign_of_sharing() {
    assert!(!shares(micros(1), 1));
    assert!(!shares(micros(30), 25));
    assert!(shares(micros(5), 1));
    assert!(shares(micros(30), 3));
    // An unrelated busy program.
    assert!(!shares(micros(3000), 1));
}

/// Returns how many waits do not spin after one that ends now, if its yields began this long ago.
fn learnt(policy: Policy, ago: Duration, yields: u32) -> u16 {
    let mut backoff = Backoff::new(policy);
    backoff.pause();
    let first = backoff.since.and_then(|since| since.checked_sub(ago));
    backoff.yielded = first.map(|first| (first, yields));
    backoff.finish().sharing
}

#[test]
fn a_wait_that_ends_while_yielding_says_whether_to_spin_in_the_next_ones() {
    let policy = Policy::new(2, 2);
    let mut sharing = policy;
    sharing.sharing = 77;
    assert!((0..1000).any(|_| learnt(policy, micros(10), 2) == 200));
    assert!((0..1000).any(|_| learnt(sharing, micros(10), 2) == 200));
    assert_eq!(learnt(policy, micros(3000), 1), 0);
    assert_eq!(learnt(sharing, micros(3000), 1), 0);
    // As if a thousand yields had returned at once.
    assert_eq!(learnt(sharing, micros(10), 1_000_000), 0);
}

#[test]
fn a_rank_that_shared_a_processor_tries_again_after_200_waits() {
    let mut policy = Policy::new(2, 2);
    policy.sharing = 200;
    for _ in 0..199 {
        let mut backoff = Backoff::new(policy);
        assert_eq!(backoff.pause(), Pause::Yield);
        // The wait taught nothing.
        backoff.yielded = None;
        policy = backoff.finish();
    }
    assert_eq!(Backoff::new(policy).pause(), Pause::Spin);
}

#[test]
fn spinning_looks_64_times_and_stops_when_it_finds_what_it_looks_for() {
    for (found, expected) in [(1, 1), (5, 5), (100, 64)] {
        let mut looks = 0;
        spin(|| {
            looks += 1;
            looks == found
        });
        assert_eq!(looks, expected);
    }
}

#[test]
fn naps_and_intervals_follow_the_time_waited() {
    let policy = Policy::CROWDED;
    let (backoff, _) = after(policy, Duration::from_millis(8));
    let nap = backoff.nap(Duration::from_millis(2));
    assert!(
        nap >= micros(500) && nap <= Duration::from_millis(2),
        "{nap:?}"
    );
    let (backoff, _) = after(policy, Duration::from_secs(9));
    assert_eq!(
        backoff.nap(Duration::from_millis(2)),
        Duration::from_millis(2)
    );

    let mut every = Every::new(micros(20));
    assert!(!every.is_due(micros(19)));
    assert_eq!(every.left(micros(19)), micros(1));
    assert!(every.is_due(micros(25)));
    assert!(!every.is_due(micros(44)));
    assert!(every.is_due(micros(45)));
    assert_eq!(every.left(micros(90)), Duration::ZERO);
}

#[test]
fn the_time_counts_from_the_first_look_or_the_last_move() {
    let timeout = Some(Duration::from_millis(2));
    let mut backoff = Backoff::new(Policy::ASLEEP);
    assert_eq!(backoff.waited(), Duration::ZERO);
    assert!(!backoff.expired(timeout));
    backoff.pause();
    let nap = Duration::from_millis(3);
    sleep(nap);
    backoff.slept(nap);
    assert!(backoff.waited() >= nap);
    assert!(backoff.expired(timeout) && !backoff.expired(None));
    backoff.moved();
    assert_eq!(backoff.waited(), Duration::ZERO);
}
