//! A refusal: this rank takes no part in a call, and announces that.

use comm_kit::Call;
use rustix::event::PollFd;

use crate::engine::{Engine, Links, Progress, Task};
use crate::frame::FrameKind;
use crate::link::Broken;
use crate::notice::{frame, pack};
use crate::watch::CommitWord;

/// How many bytes a rank that refuses far ahead of the others keeps for one of them before it waits.
const MOST_KEPT: usize = 1 << 20;

impl Engine {
    /// Announces that this rank refused its arguments, and goes on to the next call.
    pub(crate) fn refuse(&mut self, reason: &str) {
        // The refusal of rank 0 is its answer, for which it may be too late.
        if self.rank > 0 || self.signals.answer(self.sequence) {
            let body = pack(self.rank, reason);
            let bytes = frame(FrameKind::Refused, self.sequence, &body);
            for link in &mut self.links.data {
                link.keep(&bytes);
                // A link that is broken shows in the next call.
                let _ = link.write(&[]);
            }
        }
        self.pass();
        if self.links.data.iter().any(|link| link.kept() > MOST_KEPT) {
            let mut flush = Flush {
                sequence: self.sequence,
                open: Vec::new(),
            };
            self.failed = self.drive(Call::barrier(), &mut flush).err();
        }
    }
}

/// Sends what was kept to the ranks that read, and reads what the others send meanwhile: they may be as
/// far ahead of this rank.
#[derive(Debug)]
struct Flush {
    sequence: u64,
    /// The links on which something is left to send, and the ranks there.
    open: Vec<(usize, usize)>,
}

impl Task for Flush {
    fn advance(&mut self, links: &mut Links) -> Result<Progress, Broken> {
        let mut moved = false;
        self.open.clear();
        for (place, link) in links.data.iter_mut().enumerate() {
            let before = link.kept();
            link.write(&[])?;
            moved |= link.kept() < before;
            moved |= link.discard_before(self.sequence)?;
            if link.kept() > 0 {
                self.open.push((place, link.peer()));
            }
        }
        Ok(Progress::of(self.open.is_empty(), moved))
    }

    fn interest<'l>(&self, links: &'l Links, fds: &mut Vec<PollFd<'l>>) {
        let open = self.open.iter();
        fds.extend(open.filter_map(|&(place, _)| links.data[place].interest(true, true)));
    }

    fn waits_for(&self) -> usize {
        self.open.first().map_or(0, |&(_, peer)| peer)
    }
}
