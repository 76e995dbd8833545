//! What the ranks of one sequence share: lines, bells, standings, notes and one control block.
//!
//! Everything here is made of atomics, so a reference to it stays valid whatever another process
//! writes, and no value found in it is believed before it was checked.

use crate::cause::Cause;
#[cfg(loom)]
use crate::rule::{Rule, kept};
use crate::sync::{AtomicU32, AtomicU64};

/// The bytes a line carries beside its header.
pub(crate) const INLINE: usize = 8 * INLINE_WORDS;

/// The words a line carries beside its header.
pub(crate) const INLINE_WORDS: usize = 5;

/// How many refusals in a row keep their reason, and who was first.
pub(crate) const NOTES: usize = if cfg!(loom) { 2 } else { 16 };

const NOTE_WORDS: usize = if cfg!(loom) { 1 } else { 31 };

/// The bytes of the reason of a refusal that are kept.
pub(crate) const NOTE: usize = 8 * NOTE_WORDS;

/// What one rank puts into one step; a cache line, so a small call costs one transfer per rank.
///
/// A rank has two, by step parity, and nobody else writes them.
#[repr(C, align(64))]
#[derive(Debug, Default)]
pub(crate) struct Line {
    /// The step this line belongs to; stored last, with release.
    pub(crate) step: AtomicU64,
    /// What was called, see [`Call`](crate::call::Call).
    pub(crate) call: [AtomicU64; 2],
    /// A payload of up to [`INLINE`] bytes.
    pub(crate) inline: [AtomicU64; INLINE_WORDS],
}

/// Where a rank sleeps: 0 awake, `p + 1` asleep until rank `p` publishes.
#[repr(C, align(64))]
#[derive(Debug, Default)]
pub(crate) struct Bell {
    pub(crate) word: AtomicU32,
    #[cfg(loom)]
    pub(crate) bed: (loom::sync::Mutex<()>, loom::sync::Condvar),
}

/// What a rank did outside of its lines.
#[repr(C, align(64))]
#[derive(Debug, Default)]
pub(crate) struct Standing {
    /// The last step this rank refused.
    pub(crate) refused: AtomicU64,
    /// Why this rank left, see [`Reason`](crate::cause::Reason); 0 as long as it has not.
    pub(crate) left: AtomicU64,
}

/// Why a rank refused a step, in words.
#[repr(C, align(64))]
#[derive(Debug, Default)]
pub(crate) struct Note {
    /// The step the text belongs to; 0 while it is written.
    pub(crate) step: AtomicU64,
    /// UTF-8, padded with zeros.
    pub(crate) text: [AtomicU64; NOTE_WORDS],
}

/// What all ranks of a sequence write, rarely.
#[repr(C, align(128))]
#[derive(Debug, Default)]
pub(crate) struct Control {
    /// Why the sequence failed: 0, or the first [`Cause`].
    pub(crate) cause: AtomicU64,
    /// Counts refusals, departures and causes: as long as it stands still, so does all of that.
    pub(crate) events: AtomicU32,
    /// How many ranks sleep or are about to.
    pub(crate) sleepers: AtomicU32,
    /// How many ranks have given up a region's memory.
    pub(crate) released: AtomicU32,
    /// Who refused a step first, see [`blame`](crate::note::blame).
    pub(crate) refusals: [AtomicU64; NOTES],
}

/// Gives access to what the ranks of one sequence share.
pub(crate) trait Board: Send + Sync {
    /// The number of ranks.
    fn size(&self) -> usize;

    /// The control block.
    fn control(&self) -> &Control;

    /// The line of `rank` for steps of the parity of `step`.
    fn line(&self, rank: usize, step: u64) -> &Line;

    /// The bell of `rank`.
    fn bell(&self, rank: usize) -> &Bell;

    /// The standing of `rank`.
    fn standing(&self, rank: usize) -> &Standing;

    /// The note of `rank` for `step`.
    fn note(&self, rank: usize, step: u64) -> &Note;

    /// Tells whether the process of `rank` has ended; may open files, so for slow paths only.
    fn dead(&self, rank: usize) -> bool;

    /// Tells who ended the whole job, if somebody did.
    fn aborted(&self) -> Option<Cause>;
}

/// A board on the heap, for models.
#[cfg(loom)]
#[derive(Debug)]
pub(crate) struct HeapBoard {
    control: Control,
    lines: Vec<[Line; 2]>,
    bells: Vec<Bell>,
    standings: Vec<Standing>,
    notes: Vec<Note>,
}

#[cfg(loom)]
impl HeapBoard {
    pub(crate) fn new(size: usize) -> Self {
        fn many<T: Default>(n: usize) -> Vec<T> {
            (0..n).map(|_| T::default()).collect()
        }
        Self {
            control: Control::default(),
            lines: many(size),
            bells: many(size),
            standings: many(size),
            notes: many(size * NOTES),
        }
    }
}

#[cfg(loom)]
impl Board for std::sync::Arc<HeapBoard> {
    fn size(&self) -> usize {
        self.lines.len()
    }

    fn control(&self) -> &Control {
        &self.control
    }

    fn line(&self, rank: usize, step: u64) -> &Line {
        let parity = step % 2 == 1 && kept(Rule::TwoLines);
        &self.lines[rank][usize::from(parity)]
    }

    fn bell(&self, rank: usize) -> &Bell {
        &self.bells[rank]
    }

    fn standing(&self, rank: usize) -> &Standing {
        &self.standings[rank]
    }

    fn note(&self, rank: usize, step: u64) -> &Note {
        &self.notes[rank * NOTES + slot_of(step)]
    }

    fn dead(&self, _: usize) -> bool {
        false
    }

    fn aborted(&self) -> Option<Cause> {
        None
    }
}

/// Gives which of a rank's notes belongs to `step`.
pub(crate) fn slot_of(step: u64) -> usize {
    usize::try_from(step % NOTES as u64).unwrap_or(0)
}
