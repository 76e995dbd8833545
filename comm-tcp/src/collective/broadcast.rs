//! Broadcast: the bytes of the root to all others.

use comm_kit::Call;

use super::Failure;
use super::way::{Algorithm, Contributions, Load, PairTransfer, ring};
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
            Algorithm::SmallStar => self.broadcast_by_star(call, buf, root),
            Algorithm::Pieces => self.in_pieces(load, 1, |engine, piece| {
                engine.broadcast_by_star(call, &mut buf[piece], root)
            }),
            Algorithm::SmallPair if is_root => self.enter(call, buf, &mut ()),
            Algorithm::SmallPair => self.enter(call, &[], buf),
            Algorithm::Ring => {
                let (at, position) = ((self.sequence, call), (self.rank, self.size));
                self.run(call, ring::Broadcast::new(at, position, root, buf))
            }
            Algorithm::LargePair if is_root => {
                self.run(call, PairTransfer::new(buf, &mut (), self.peer()))
            }
            Algorithm::LargePair => self.run(call, PairTransfer::new(&[], buf, self.peer())),
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
