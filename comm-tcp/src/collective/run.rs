//! Each call from its entry to its end, for every number of ranks.

use comm_api::{CommError, FailureKind, ReduceOp, ScalarKind};
use comm_kit::fold_into;

use super::blocks::{Blocks, Scatter};
use super::chain::Chain;
use super::eager::limit;
use super::entry::{Entry, Land, pack};
use super::fold::Fold;
use super::gather::Gather;
use super::pair::Swap;
use super::relay::{Exchange, Relay, RelayFold, SLOT, Stretch};
use super::star::{Answers, Ask, Collect, Flush, Landing, ending};
use crate::call::Call;
use crate::engine::Engine;
use crate::frame::{Header, Kind};
use crate::notice::{Cause, frame};
use crate::watch::disagreement;

/// How many bytes a rank that refuses far ahead of the others keeps for one of them before it waits.
const MOST_KEPT: usize = 1 << 20;

/// Why a call did not succeed.
#[derive(Debug)]
pub(crate) enum Failure {
    /// For good.
    Fatal(Cause),
    /// A rank refused its arguments; the next call may succeed.
    Refused { rank: usize, reason: String },
    /// This rank could not do its part, and has told the others.
    Own(CommError),
}

impl From<Cause> for Failure {
    fn from(cause: Cause) -> Self {
        Self::Fatal(cause)
    }
}

impl Engine {
    pub(crate) fn barrier(&mut self) -> Result<(), Failure> {
        self.agree(Call::BARRIER)
    }

    pub(crate) fn allgatherv(
        &mut self,
        send: &[u8],
        recv: &mut [u8],
        blocks: Blocks<'_>,
    ) -> Result<(), Failure> {
        let call = Call::allgatherv(blocks.counts, blocks.elem_size);
        let at = (self.sequence, call);
        let own = blocks.range(self.rank);
        if !self.is_small(&call) {
            self.agree(call)?;
            if self.size == 2 {
                return self.swap_blocks(call, send, recv, blocks);
            }
            if self.links.ring.is_none() {
                return self.relay_blocks(call, send, recv, blocks);
            }
            let mut task = Gather::new(at, self.rank, send, recv, blocks);
            return Ok(self.drive(call, &mut task)?);
        }
        recv[own].copy_from_slice(send);
        if self.size == 2 {
            let theirs = blocks.range(1 - self.rank);
            return self.ask(call, send, &mut recv[theirs]);
        }
        if self.rank > 0 {
            return self.ask(call, send, &mut Scatter::new(blocks, recv));
        }
        let collect = self.collect(call, Landing::Blocks(blocks, recv))?;
        if let Some(whole) = blocks.together() {
            return self.answer(call, &collect, |_| &recv[whole.clone()]);
        }
        let mut gathered = std::mem::take(&mut self.scratch);
        gathered.clear();
        for rank in 0..self.size {
            gathered.extend_from_slice(&recv[blocks.range(rank)]);
        }
        let result = self.answer(call, &collect, |_| &gathered);
        self.scratch = gathered;
        result
    }

    pub(crate) fn allreduce(
        &mut self,
        send: &[u8],
        recv: &mut [u8],
        scalar: ScalarKind,
        op: ReduceOp,
    ) -> Result<(), Failure> {
        let call = Call::allreduce(send.len(), scalar, op);
        let at = (self.sequence, call);
        if !self.is_small(&call) {
            self.agree(call)?;
            if self.size == 2 {
                let mut task = Swap::new(send, recv, 1 - self.rank);
                task.reduction = Some((op, scalar));
                return Ok(self.drive(call, &mut task)?);
            }
            if self.links.ring.is_none() {
                return self.relay_fold(call, send, recv, (op, scalar));
            }
            let place = (self.rank, self.size);
            let mut task = Fold::new(at, place, send, recv, (op, scalar));
            return Ok(self.drive(call, &mut task)?);
        }
        if self.size == 2 {
            self.ask(call, send, recv)?;
            // The same bits either way round, see `Swap`.
            return fold_into(recv, send, scalar, op).map_err(Failure::Own);
        }
        if self.rank > 0 {
            return self.ask(call, send, recv);
        }
        let mut slots = std::mem::take(&mut self.scratch);
        slots.resize((self.size - 1) * send.len(), 0);
        let collect = self.collect(call, Landing::Slots(send.len(), &mut slots));
        let result = collect.and_then(|collect| {
            recv.copy_from_slice(send);
            for slot in slots.chunks_exact(send.len()) {
                fold_into(recv, slot, scalar, op).map_err(Failure::Own)?;
            }
            self.answer(call, &collect, |_| recv)
        });
        self.scratch = slots;
        result
    }

    pub(crate) fn broadcast(
        &mut self,
        buf: &mut [u8],
        elem_size: usize,
        root: usize,
    ) -> Result<(), Failure> {
        let call = Call::broadcast(buf.len(), elem_size, root);
        let at = (self.sequence, call);
        let is_root = self.rank == root;
        if !self.is_small(&call) {
            self.agree(call)?;
            if self.size == 2 {
                let mut task = if is_root {
                    Swap::new(buf, &mut [], 1 - self.rank)
                } else {
                    Swap::new(&[], buf, 1 - self.rank)
                };
                return Ok(self.drive(call, &mut task)?);
            }
            if self.links.ring.is_none() {
                return self.relay_buffer(call, buf, root);
            }
            let mut task = Chain::new(at, (self.rank, self.size), root, buf);
            return Ok(self.drive(call, &mut task)?);
        }
        if self.size == 2 || self.rank > 0 {
            let nothing: &mut [u8] = &mut [];
            return if is_root {
                self.ask(call, buf, nothing)
            } else {
                self.ask(call, &[], buf)
            };
        }
        let collect = self.collect(call, Landing::From(root, buf))?;
        let body = |rank: usize| if rank == root { &[] } else { &*buf };
        self.answer(call, &collect, body)
    }

    /// Tells the others that this rank refused its arguments, and goes on to the next call.
    pub(crate) fn refuse(&mut self, error: &CommError) {
        let body = pack(self.rank, &error.to_string());
        let bytes = frame(Kind::Refused, self.sequence, &body);
        for link in &mut self.links.data {
            link.keep(&bytes);
            // A link that is broken shows in the next call.
            let _ = link.write(&[]);
        }
        if self.rank == 0 {
            Self::answered(&self.signals, self.sequence);
        }
        self.pass();
        if self.links.data.iter().any(|link| link.kept() > MOST_KEPT) {
            let mut flush = Flush {
                sequence: self.sequence,
                open: Vec::new(),
            };
            self.failed = self.drive(Call::BARRIER, &mut flush).err();
        }
    }

    /// Tells whether the bytes of a call travel with its header: the same on all ranks that agree.
    fn is_small(&self, call: &Call) -> bool {
        call.bytes <= limit(call, self.size, self.near)
    }

    /// Goes through the entry round of a call that carries no bytes in it.
    fn agree(&mut self, call: Call) -> Result<(), Failure> {
        if self.size == 2 || self.rank > 0 {
            let nothing: &mut [u8] = &mut [];
            return self.ask(call, &[], nothing);
        }
        let collect = self.collect(call, Landing::Nothing)?;
        self.answer(call, &collect, |_| &[])
    }

    /// Enters with `body`, and lets what comes back land.
    fn ask<L: Land + ?Sized>(
        &mut self,
        call: Call,
        body: &[u8],
        land: &mut L,
    ) -> Result<(), Failure> {
        let mut task = Ask::new((self.sequence, call), body, land);
        if self.size == 2 {
            task.kind = Kind::Enter;
            task.peer = 1 - self.rank;
        }
        self.drive(call, &mut task)?;
        let entry = task.finish(&mut self.links);
        self.conclude(call, entry)
    }

    /// Waits for all entries, on rank 0; tells the workers if that is the end of the call.
    fn collect(&mut self, call: Call, landing: Landing<'_>) -> Result<Collected, Failure> {
        let at = (self.sequence, call);
        let mut task = Collect::new(at, landing, self.size);
        self.drive(call, &mut task)?;
        let verdict = task.verdict();
        let collected = Collected {
            refused: task.refused(),
        };
        if let Some((header, body)) = ending(&verdict, at) {
            let mut answers = Answers::new(header, |_| &body, &collected.refused, &self.signals);
            self.drive(call, &mut answers)?;
            self.conclude(call, verdict)?;
        }
        Ok(collected)
    }

    /// Answers all workers, on rank 0.
    fn answer<'a>(
        &mut self,
        call: Call,
        collected: &Collected,
        body: impl Fn(usize) -> &'a [u8],
    ) -> Result<(), Failure> {
        let header = Header::new(Kind::Answer, self.sequence, call, 0);
        let mut answers = Answers::new(header, body, &collected.refused, &self.signals);
        Ok(self.drive(call, &mut answers)?)
    }

    fn conclude(&self, call: Call, entry: Entry) -> Result<(), Failure> {
        let cause = match entry {
            Entry::Agreed => return Ok(()),
            Entry::Refused { rank, reason } => return Err(Failure::Refused { rank, reason }),
            Entry::Mismatch { rank, message } => {
                Cause::new(FailureKind::Mismatch, Some(rank), message)
            }
            Entry::Differs(other) => {
                let mut calls = [(self.rank, call), (1 - self.rank, other)];
                calls.sort_by_key(|&(rank, _)| rank);
                disagreement(calls.into_iter()).unwrap_or_else(|| {
                    Cause::new(
                        FailureKind::Mismatch,
                        None,
                        "the ranks called different things",
                    )
                })
            }
        };
        Err(Failure::Fatal(cause))
    }

    /// Exchanges the blocks of two ranks, which lie apart.
    fn swap_blocks(
        &mut self,
        call: Call,
        send: &[u8],
        recv: &mut [u8],
        blocks: Blocks<'_>,
    ) -> Result<(), Failure> {
        let (own, theirs) = (blocks.range(self.rank), blocks.range(1 - self.rank));
        let (mirror, land) = if own.is_empty() {
            (&mut [][..], &mut recv[theirs])
        } else if theirs.is_empty() {
            (&mut recv[own], &mut [][..])
        } else if own.start < theirs.start {
            let (low, high) = recv.split_at_mut(theirs.start);
            (&mut low[own], &mut high[..theirs.len()])
        } else {
            let (low, high) = recv.split_at_mut(own.start);
            (&mut high[..own.len()], &mut low[theirs])
        };
        let mut task = Swap::new(send, land, 1 - self.rank);
        task.mirror = mirror;
        Ok(self.drive(call, &mut task)?)
    }
}

/// Large calls without a ring.
impl Engine {
    fn relay_blocks(
        &mut self,
        call: Call,
        send: &[u8],
        recv: &mut [u8],
        blocks: Blocks<'_>,
    ) -> Result<(), Failure> {
        recv[blocks.range(self.rank)].copy_from_slice(send);
        if self.rank > 0 {
            let mut land = Scatter::new(blocks, recv).without(self.rank);
            return Ok(self.drive(call, &mut Exchange::new(send, &mut land))?);
        }
        let stretches = (0..self.size).map(|rank| Stretch::new(blocks.range(rank), rank));
        let mut task = Relay::new(recv, stretches.collect(), self.size);
        Ok(self.drive(call, &mut task)?)
    }

    fn relay_buffer(&mut self, call: Call, buf: &mut [u8], root: usize) -> Result<(), Failure> {
        if self.rank == 0 {
            let whole = Stretch::new(0..buf.len(), root);
            let mut task = Relay::new(buf, vec![whole], self.size);
            return Ok(self.drive(call, &mut task)?);
        }
        let nothing: &mut [u8] = &mut [];
        if self.rank == root {
            return Ok(self.drive(call, &mut Exchange::new(buf, nothing))?);
        }
        Ok(self.drive(call, &mut Exchange::new(&[], buf))?)
    }

    fn relay_fold(
        &mut self,
        call: Call,
        send: &[u8],
        recv: &mut [u8],
        reduction: (ReduceOp, ScalarKind),
    ) -> Result<(), Failure> {
        if self.rank > 0 {
            return Ok(self.drive(call, &mut Exchange::new(send, recv))?);
        }
        let mut slots = std::mem::take(&mut self.scratch);
        slots.resize((self.size - 1) * SLOT, 0);
        let result = self.drive(call, &mut RelayFold::new(send, recv, reduction, &mut slots));
        self.scratch = slots;
        Ok(result?)
    }
}

/// What rank 0 keeps of the entries: who refused, and therefore waits for no answer.
#[derive(Debug)]
pub(crate) struct Collected {
    refused: Vec<bool>,
}
