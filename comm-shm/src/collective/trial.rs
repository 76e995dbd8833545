//! Measures the calls whose ranks choose between two routes.

use std::time::{Duration, Instant};

use comm_api::CommError;

use crate::protocol::route::{LargeCall, Route};
use crate::protocol::step::Turn;

/// Measures one call, without the time in which this rank waits for the others. Measures nothing if there is
/// no choice.
pub(super) struct Trial(Option<Measured>);

struct Measured {
    call: LargeCall,
    len: usize,
    route: Route,
    since: Instant,
    took: Duration,
    has_met: bool,
}

impl Trial {
    /// Begins with the call.
    pub(super) fn begin(turn: &Turn<'_>, call: LargeCall, len: usize, route: Route) -> Self {
        Self(has_choice(turn, call, len).then(|| Measured {
            call,
            len,
            route,
            since: Instant::now(),
            took: Duration::ZERO,
            has_met: false,
        }))
    }

    /// Publishes a step that goes through the slots. In the first one, this rank reports the duration of the
    /// last such call.
    pub(super) fn publish(&self, turn: &mut Turn<'_>) {
        if self.0.is_some() {
            let last = turn.routes().to_tell();
            turn.own_line().put_words([0, last]);
        }
        turn.publish();
    }

    /// Meets in a step of the call. After the first one, all ranks know the duration of the last such call.
    pub(super) fn meet(&mut self, turn: &mut Turn<'_>, more: bool) -> Result<(), CommError> {
        let first = self.0.as_mut().filter(|measured| !measured.has_met);
        let Some(measured) = first else {
            return turn.meet_before(more);
        };
        measured.took += measured.since.elapsed();
        turn.meet_before(more)?;
        measured.since = Instant::now();
        measured.has_met = true;
        let told = [0, 1].map(|rank| turn.line(rank).words::<2>()[1]);
        turn.routes().learn(measured.call, measured.len, told);
        Ok(())
    }

    /// Ends with the last copy; the duration is sent with the next such call.
    pub(super) fn end(&mut self, turn: &mut Turn<'_>) {
        if let Some(measured) = self.0.take() {
            let took = measured.took + measured.since.elapsed();
            turn.routes()
                .note(measured.call, measured.len, measured.route, took);
        }
    }
}

/// Returns whether a call may take either route; all ranks agree.
pub(super) fn has_choice(turn: &Turn<'_>, call: LargeCall, len: usize) -> bool {
    turn.size() == 2 && turn.copies_once() && len >= call.choice_from()
}
