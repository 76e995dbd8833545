//! Measures the calls whose ranks choose between two ways.

use std::time::{Duration, Instant};

use comm_api::CommError;

use crate::step::Turn;
use crate::step::ways::{CHOICE, Way};

/// Measures one call, without the time in which this rank waits for the others to come; not at all if there is no choice.
pub(super) struct Trial(Option<Measured>);

struct Measured {
    longest: usize,
    way: Way,
    since: Instant,
    took: Duration,
}

impl Trial {
    /// Begins with the call.
    pub(super) fn begin(turn: &Turn<'_>, longest: usize, way: Way) -> Self {
        let has_choice = turn.size() == 2 && turn.copies_once() && CHOICE.contains(&longest);
        Self(has_choice.then(|| Measured {
            longest,
            way,
            since: Instant::now(),
            took: Duration::ZERO,
        }))
    }

    /// Meets in the first step of the call; then all ranks know what the last such call took.
    pub(super) fn meet(&mut self, turn: &mut Turn<'_>, more: bool) -> Result<(), CommError> {
        let Self(Some(measured)) = self else {
            return turn.meet_before(more);
        };
        measured.took += measured.since.elapsed();
        turn.meet_before(more)?;
        measured.since = Instant::now();
        let told = [turn.told(0)[1], turn.told(1)[1]];
        turn.ways().learn(measured.longest, told);
        Ok(())
    }

    /// Ends with the last copy; what it took is told with the next such call.
    pub(super) fn end(&mut self, turn: &mut Turn<'_>) {
        if let Some(measured) = self.0.take() {
            let took = measured.took + measured.since.elapsed();
            turn.ways().note(measured.longest, measured.way, took);
        }
    }
}

impl Turn<'_> {
    /// Writes two words into this rank's line of the step.
    pub(super) fn tell(&mut self, words: [u64; 2]) {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&words[0].to_ne_bytes());
        bytes[8..].copy_from_slice(&words[1].to_ne_bytes());
        self.own_line().put(&bytes);
    }

    /// Reads the words that `rank` has [told](Self::tell).
    pub(super) fn told(&self, rank: usize) -> [u64; 2] {
        let mut bytes = [0; 16];
        self.line(rank).take(&mut bytes);
        let word = |at: usize| std::array::from_fn(|byte| bytes[at + byte]);
        [0, 8].map(|at| u64::from_ne_bytes(word(at)))
    }
}
