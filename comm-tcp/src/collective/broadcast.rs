//! Broadcast: the bytes of the root to all others.

use comm_kit::Call;

use super::Failure;
use super::way::{Contributions, Exchange, Load, Way, relay, ring};
use crate::engine::Engine;

impl Engine {
    pub(crate) fn broadcast(
        &mut self,
        buf: &mut [u8],
        elem_size: usize,
        root: usize,
    ) -> Result<(), Failure> {
        let call = Call::broadcast(buf.len(), elem_size, root);
        let is_root = self.rank == root;
        match self.begin(call, Load::Copied(buf.len()))? {
            Way::SmallStar if self.rank == 0 => {
                let refused = self.collect(call, Contributions::From(root, buf))?;
                let body = |rank: usize| if rank == root { &[] } else { &*buf };
                self.answer(call, &refused, body)
            }
            Way::SmallPair | Way::SmallStar if is_root => self.enter(call, buf, &mut ()),
            Way::SmallPair | Way::SmallStar => self.enter(call, &[], buf),
            Way::Ring => {
                let (at, position) = ((self.sequence, call), (self.rank, self.size));
                self.run(call, ring::Broadcast::new(at, position, root, buf))
            }
            Way::Relay if self.rank == 0 => {
                self.run(call, relay::Forward::buffer(buf, root, self.size))
            }
            Way::LargePair | Way::Relay if is_root => {
                self.run(call, Exchange::new(buf, &mut (), self.peer()))
            }
            Way::LargePair | Way::Relay => self.run(call, Exchange::new(&[], buf, self.peer())),
        }
    }
}
