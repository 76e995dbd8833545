//! Allreduce: what all ranks contribute, folded in rank order.

use comm_api::{ReduceOp, ScalarKind};
use comm_kit::Call;

use super::Failure;
use super::way::{
    Algorithm, Contributions, Folding, InPlace, Load, PairTransfer, fold, in_place, ring,
};
use crate::engine::Engine;
use crate::link::INBOX;

impl Engine {
    pub(crate) fn allreduce(
        &mut self,
        send: &[u8],
        recv: &mut [u8],
        scalar: ScalarKind,
        op: ReduceOp,
    ) -> Result<(), Failure> {
        let call = Call::allreduce(send.len(), scalar, op);
        let load = Load::Folded(send.len());
        match self.begin(call, load)? {
            Algorithm::SmallPair => {
                let mut sink = Folding::new(recv, send, (op, scalar));
                self.enter(call, send, &mut sink)
            }
            Algorithm::SmallStar => self.allreduce_by_star(call, send, recv, (op, scalar)),
            Algorithm::Pieces => self.in_pieces(load, scalar.size(), |engine, piece| {
                let (send, recv) = (&send[piece.clone()], &mut recv[piece]);
                engine.allreduce_by_star(call, send, recv, (op, scalar))
            }),
            Algorithm::LargePair => {
                let mut sink = Folding::new(recv, send, (op, scalar));
                self.run(call, PairTransfer::new(send, &mut sink, self.peer()))
            }
            Algorithm::Ring => {
                let (at, position) = ((self.sequence, call), (self.rank, self.size));
                let own = ring::Own::Apart(send);
                let task = ring::Allreduce::new(at, position, own, recv, (op, scalar));
                self.run(call, task)
            }
        }
    }

    /// Reduces a buffer that the result replaces. What is small is sent from a copy of it, in room that is kept from call to
    /// call; what is large has room for a portion of what comes in.
    pub(crate) fn allreduce_in_place(
        &mut self,
        buf: &mut [u8],
        scalar: ScalarKind,
        op: ReduceOp,
    ) -> Result<(), Failure> {
        let call = Call::allreduce(buf.len(), scalar, op);
        let (reduction, load) = ((op, scalar), Load::Folded(buf.len()));
        match self.begin(call, load)? {
            Algorithm::SmallPair => self.with_scratch(0, |engine, own| {
                own.extend_from_slice(buf);
                engine.enter(call, own, &mut Folding::new(buf, own, reduction))
            }),
            Algorithm::SmallStar => self.allreduce_in_place_by_star(call, buf, reduction),
            Algorithm::Pieces => self.in_pieces(load, scalar.size(), |engine, piece| {
                engine.allreduce_in_place_by_star(call, &mut buf[piece], reduction)
            }),
            Algorithm::LargePair => self.with_scratch(in_place::ROOM, |engine, room| {
                let task = InPlace::folded(buf, room, reduction, engine.peer());
                engine.run(call, task)
            }),
            Algorithm::Ring => self.with_scratch(in_place::ROOM, |engine, room| {
                let (at, position) = ((engine.sequence, call), (engine.rank, engine.size));
                let own = ring::Own::InPlace(room);
                let task = ring::Allreduce::new(at, position, own, buf, reduction);
                engine.run(call, task)
            }),
        }
    }

    /// Reduces with an entry round through rank 0.
    fn allreduce_by_star(
        &mut self,
        call: Call,
        send: &[u8],
        recv: &mut [u8],
        reduction: (ReduceOp, ScalarKind),
    ) -> Result<(), Failure> {
        if self.rank > 0 {
            return self.enter(call, send, recv);
        }
        recv.copy_from_slice(send);
        self.fold_at_rank_0(call, recv, reduction)
    }

    /// The same where the result replaces what this rank contributes.
    fn allreduce_in_place_by_star(
        &mut self,
        call: Call,
        buf: &mut [u8],
        reduction: (ReduceOp, ScalarKind),
    ) -> Result<(), Failure> {
        if self.rank == 0 {
            return self.fold_at_rank_0(call, buf, reduction);
        }
        self.with_scratch(0, |engine, own| {
            own.extend_from_slice(buf);
            engine.enter(call, own, buf)
        })
    }

    /// Folds what all workers send into what rank 0 has, on rank 0, and sends them the result.
    fn fold_at_rank_0(
        &mut self,
        call: Call,
        buf: &mut [u8],
        reduction: (ReduceOp, ScalarKind),
    ) -> Result<(), Failure> {
        if buf.len() <= INBOX {
            let refused = self.collect(call, Contributions::Held(buf.len()))?;
            let folded = self.links.data.iter_mut().try_for_each(|link| {
                let peer = link.peer();
                fold(buf, link.release(), reduction, peer)
            });
            folded.map_err(|broken| self.explain(broken))?;
            return self.answer(call, &refused, |_| buf);
        }
        self.with_scratch((self.size - 1) * buf.len(), |engine, slots| {
            let contributions = Contributions::Slots(buf.len(), slots);
            let refused = engine.collect(call, contributions)?;
            let mut slots = slots.chunks_exact(buf.len()).zip(1..);
            let folded = slots.try_for_each(|(slot, peer)| fold(buf, slot, reduction, peer));
            folded.map_err(|broken| engine.explain(broken))?;
            engine.answer(call, &refused, |_| buf)
        })
    }
}
