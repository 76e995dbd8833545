//! Allreduce: what all ranks contribute, folded in rank order.

use comm_api::{ReduceOp, ScalarKind};
use comm_kit::{Call, fold_into};

use super::Failure;
use super::way::{Contributions, Exchange, Folding, Load, Way, relay, ring};
use crate::engine::Engine;

impl Engine {
    pub(crate) fn allreduce(
        &mut self,
        send: &[u8],
        recv: &mut [u8],
        scalar: ScalarKind,
        op: ReduceOp,
    ) -> Result<(), Failure> {
        let call = Call::allreduce(send.len(), scalar, op);
        match self.begin(call, Load::Folded(send.len()))? {
            Way::SmallPair => {
                let mut sink = Folding::new(recv, send, (op, scalar));
                self.enter(call, send, &mut sink)
            }
            Way::SmallStar if self.rank > 0 => self.enter(call, send, recv),
            Way::SmallStar => self.with_scratch((self.size - 1) * send.len(), |engine, slots| {
                let contributions = Contributions::Slots(send.len(), slots);
                let refused = engine.collect(call, contributions)?;
                recv.copy_from_slice(send);
                // Without elements there is no slot either.
                for slot in slots.chunks_exact(send.len().max(1)) {
                    fold_into(recv, slot, scalar, op).map_err(Failure::Own)?;
                }
                engine.answer(call, &refused, |_| recv)
            }),
            Way::LargePair => {
                let mut sink = Folding::new(recv, send, (op, scalar));
                self.run(call, Exchange::new(send, &mut sink, self.peer()))
            }
            Way::Ring => {
                let (at, position) = ((self.sequence, call), (self.rank, self.size));
                let task = ring::Allreduce::new(at, position, send, recv, (op, scalar));
                self.run(call, task)
            }
            Way::Relay if self.rank > 0 => self.run(call, Exchange::new(send, recv, self.peer())),
            Way::Relay => self.with_scratch((self.size - 1) * relay::SLOT, |engine, slots| {
                let task = relay::Allreduce::new(send, recv, (op, scalar), slots);
                engine.run(call, task)
            }),
        }
    }
}
