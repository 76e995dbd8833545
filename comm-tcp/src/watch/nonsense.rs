//! What a rank that knows the secret may say, and nobody believes.

use std::sync::Arc;
use std::time::{Duration, Instant};

use comm_api::FailureKind;

use super::{Hub, Signals, next, tell};
use crate::link::{Link, Wire};
use crate::notice::{Cause, Flow, Notice};
use crate::socket::Patience;

/// Lets rank 1 of three say something; returns what rank 2 hears.
fn told(notice: &Notice) -> Cause {
    let (mut ours, mut its) = (Vec::new(), Vec::new());
    for rank in 0..3 {
        let (link, other) = Link::pair(rank);
        ours.push(link);
        its.push((Wire::from(other), format!("host {rank}")));
    }
    let hub = Hub::new(its, Arc::new(Signals::default()), Patience::of(None));
    let hub = hub.start().unwrap();
    tell(&mut ours[1], notice);
    let began = Instant::now();
    let cause = loop {
        match next(&mut ours[2]).unwrap() {
            Some(Notice::Cause { cause, .. }) => break cause,
            _ => assert!(began.elapsed() < Duration::from_secs(20), "no notice comes"),
        }
        std::thread::yield_now();
    };
    // Without rank 0 the hub ends.
    drop(ours);
    hub.join().unwrap();
    cause
}

#[test]
fn no_error_names_a_rank_that_there_is_not() {
    let nonsense = [
        Notice::Stalled {
            sequence: 0,
            peer: 4_294_967_294,
            last: true,
            timeout: Duration::from_millis(100),
            flow: Flow::default(),
        },
        Notice::Broken {
            sequence: 0,
            peer: 3,
            reason: "it broke".to_owned(),
        },
        Notice::GaveUp(Cause::new(FailureKind::PeerLost, Some(7), "it ended")),
    ];
    for notice in nonsense {
        let cause = told(&notice);
        assert_eq!(cause.rank, Some(1), "{cause:?}");
        assert!(!cause.message.contains("4294967294"), "{cause:?}");
    }
}
