//! Rank 0's end of its link to the deputy.

use std::time::{Duration, Instant};

use rustix::event::PollFd;

use super::{DEPUTY, next, tell};
use crate::link::Link;
use crate::notice::Notice;

/// How long rank 0 waits for the word of a deputy that has asked whether it is there.
const WORD: Duration = Duration::from_millis(100);

/// The link, if there is a deputy.
#[derive(Debug, Default)]
pub(super) struct DeputyLink {
    link: Option<Link>,
    /// Until when the word of the deputy is waited for: it has asked, and may have decided before it heard
    /// that rank 0 is there.
    doubt: Option<Instant>,
}

impl DeputyLink {
    pub(super) fn new(link: Option<Link>) -> Self {
        Self { link, doubt: None }
    }

    /// Answers what the deputy asks; returns what was found, and by which rank.
    pub(super) fn read(&mut self, now: Instant) -> Option<(usize, Notice)> {
        while let Some(link) = &mut self.link {
            match next(link) {
                Ok(None) => return None,
                Ok(Some(Notice::Ping)) => {
                    tell(link, &Notice::Pong);
                    self.doubt = Some(now + WORD);
                }
                Ok(Some(Notice::Pong)) => self.doubt = None,
                Ok(Some(notice @ (Notice::Cause { .. } | Notice::Altered { .. }))) => {
                    self.doubt = None;
                    return Some((DEPUTY, notice));
                }
                Ok(Some(_)) => {}
                Err(broken) => {
                    let is_altered = link.is_altered();
                    *self = Self::default();
                    let (peer, reason) = (DEPUTY, broken.reason);
                    return is_altered.then_some((0, Notice::Altered { peer, reason }));
                }
            }
        }
        None
    }

    pub(super) fn tell(&mut self, notice: &Notice) {
        self.link.iter_mut().for_each(|link| tell(link, notice));
    }

    /// Returns for how long nothing may be decided, unless the deputy says something before.
    pub(super) fn doubts(&mut self, now: Instant) -> Option<Duration> {
        self.doubt = self.doubt.filter(|&until| now < until);
        self.doubt.map(|until| until - now)
    }

    pub(super) fn link(&self) -> Option<&Link> {
        self.link.as_ref()
    }

    /// Returns what to poll.
    pub(super) fn interest(&self) -> Option<PollFd<'_>> {
        let link = self.link.as_ref()?;
        link.interest(true, link.kept() > 0)
    }
}

#[cfg(test)]
mod tests {

    use comm_api::FailureKind::PeerLost;

    use super::*;
    use crate::link::Wire;
    use crate::notice::Cause;

    fn link() -> (DeputyLink, Link, Instant) {
        let (link, other) = Link::pair(DEPUTY);
        let deputy = Link::new(Wire::from(other), 0);
        let link = DeputyLink::new(Some(link));
        (link, deputy, Instant::now())
    }

    /// Rank 0 may have been away: it neither decides nor answers a call before it has the word of the deputy.
    #[test]
    fn a_question_is_answered_and_leaves_a_doubt_until_the_deputy_has_heard_it() {
        let (mut link, mut deputy, now) = link();
        assert_eq!(link.doubts(now), None);
        for _ in 0..2 {
            tell(&mut deputy, &Notice::Ping);
            assert_eq!(link.read(now), None);
            assert_eq!(link.doubts(now), Some(Duration::from_millis(100)));
            assert_eq!(next(&mut deputy), Ok(Some(Notice::Pong)));
            tell(&mut deputy, &Notice::Pong);
            assert_eq!(link.read(now), None);
            assert_eq!(link.doubts(now), None);
        }
    }

    #[test]
    fn a_doubt_ends_with_a_cause_with_the_link_and_with_the_time() {
        let (mut link, mut deputy, now) = link();
        let cause = Cause::new(PeerLost, Some(2), "gone");
        let cause = Notice::Cause { cause, answered: 0 };
        tell(&mut deputy, &Notice::Ping);
        tell(&mut deputy, &cause);
        assert_eq!(link.read(now), Some((DEPUTY, cause)));
        assert_eq!(link.doubts(now), None);
        tell(&mut deputy, &Notice::Ping);
        assert_eq!(link.read(now), None);
        assert_eq!(link.doubts(now + Duration::from_millis(100)), None);
        tell(&mut deputy, &Notice::Ping);
        drop(deputy);
        assert_eq!(link.read(now), None);
        assert_eq!(link.doubts(now), None);
        assert!(link.interest().is_none());
    }
}
