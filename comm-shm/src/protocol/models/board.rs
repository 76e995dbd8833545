//! A board on the heap, for models.

use std::sync::Arc;

use crate::protocol::cause::Cause;
use crate::protocol::control::{Bell, Control, Standing};
use crate::protocol::line::Line;
use crate::protocol::note::{NOTES, Note, note_index};
use crate::protocol::sync::{Rule, broken};

/// The shared state of the ranks of one model.
#[derive(Debug, Clone)]
pub(crate) struct Board(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    control: Control,
    lines: [Vec<Line>; 2],
    bells: Vec<Bell>,
    standings: Vec<Standing>,
    notes: Vec<Note>,
}

impl Board {
    pub(crate) fn new(size: usize) -> Self {
        fn many<T: Default>(n: usize) -> Vec<T> {
            (0..n).map(|_| T::default()).collect()
        }
        Self(Arc::new(Shared {
            control: Control::default(),
            lines: [many(size), many(size)],
            bells: many(size),
            standings: many(size),
            notes: many(size * NOTES),
        }))
    }

    pub(crate) fn size(&self) -> usize {
        self.0.bells.len()
    }

    pub(crate) fn control(&self) -> &Control {
        &self.0.control
    }

    pub(crate) fn line(&self, rank: usize, step: u64) -> &Line {
        &self.lines(step)[rank]
    }

    pub(crate) fn lines(&self, step: u64) -> &[Line] {
        let odd = step % 2 == 1 && !broken(Rule::TwoLines);
        &self.0.lines[usize::from(odd)]
    }

    pub(crate) fn bell(&self, rank: usize) -> &Bell {
        &self.0.bells[rank]
    }

    pub(crate) fn standing(&self, rank: usize) -> &Standing {
        &self.0.standings[rank]
    }

    pub(crate) fn note(&self, rank: usize, step: u64) -> &Note {
        &self.0.notes[rank * NOTES + note_index(step)]
    }

    pub(crate) fn to_look_at(&self) -> impl Iterator<Item = usize> + use<> {
        0..self.size()
    }

    pub(crate) fn is_dead(&self, _: usize) -> bool {
        false
    }

    pub(crate) fn copies_once(&self) -> bool {
        true
    }

    pub(crate) fn cause(&self) -> Option<Cause> {
        Cause::load(&self.control().cause, self.size())
    }
}
