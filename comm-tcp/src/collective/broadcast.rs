//! Broadcast: the bytes of the root to all others.

use comm_kit::Call;

use super::Failure;
use super::way::{Contributions, Exchange, Load, Way, ring};
use crate::engine::Engine;

impl Engine {
    pub(crate) fn broadcast(
        &mut self,
        buf: &mut [u8],
        elem_size: usize,
        root: usize,
    ) -> Result<(), Failure> {
        let call = Call::broadcast(buf.len(), elem_size, root);
        let load = Load::Copied(buf.len());
        let is_root = self.rank == root;
        match self.begin(call, load)? {
            Way::SmallStar => self.broadcast_by_star(call, buf, root),
            Way::Pieces => self.in_pieces(load, 1, |engine, piece| {
                engine.broadcast_by_star(call, &mut buf[piece], root)
            }),
            Way::SmallPair if is_root => self.enter(call, buf, &mut ()),
            Way::SmallPair => self.enter(call, &[], buf),
            Way::Ring => {
                let (at, position) = ((self.sequence, call), (self.rank, self.size));
                self.run(call, ring::Broadcast::new(at, position, root, buf))
            }
            Way::LargePair if is_root => self.run(call, Exchange::new(buf, &mut (), self.peer())),
            Way::LargePair => self.run(call, Exchange::new(&[], buf, self.peer())),
        }
    }

    /// Sends the bytes of the root to rank 0 with its entry, and to the others with their answers.
    fn broadcast_by_star(
        &mut self,
        call: Call,
        buf: &mut [u8],
        root: usize,
    ) -> Result<(), Failure> {
        if self.rank == root && root > 0 {
            return self.enter(call, buf, &mut ());
        }
        if self.rank > 0 {
            return self.enter(call, &[], buf);
        }
        let refused = self.collect(call, Contributions::From(root, buf))?;
        let body = |rank: usize| if rank == root { &[] } else { &*buf };
        self.answer(call, &refused, body)
    }
}
