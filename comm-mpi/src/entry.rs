//! The comparison before a call, where `COBRE_COMM_CHECK=1` asks for it.
//!
//! Before a call each rank sends a card to every other: the place of the call in the sequence,
//! what it calls or that it refused, and why. Then it reads one card from every other rank, and
//! all that read decide alike: a refusal wins, then the lowest rank that differs from rank 0.
//!
//! A call of one node is compared by the ranks of that node only, with cards of the same kind: where
//! one rank of a node creates a region and another enters a barrier, both find that they differ.
//!
//! A rank that refuses sends its cards and does not read: it returns at once. The cards it left
//! unread are of a place before that of its next call, and are skipped there. Cards are sent in
//! buffered mode, so that no send waits for its receiver.

use comm_api::bytemuck::{cast_slice, cast_slice_mut};
use comm_api::{CommError, FailureKind};
use comm_kit::Call;
use comm_kit::words::{self, LONGEST_REASON, printable};
use ferrompi::{Communicator, Error, Mpi, PersistentRequest};

use crate::ranks::Trouble;

/// The tag of the cards.
const CARD: i32 = 2;

const WORDS: usize = TEXT + LONGEST_REASON / 8;
const SEQUENCE: usize = 0;
const STATUS: usize = 1;
const CALL: usize = 2;
const TEXT: usize = 4;

const READY: u64 = 1;
const REFUSED: u64 = 2;

type Card = [u64; WORDS];

/// Gives MPI the memory that buffered mode needs: some places of cards, with what MPI adds.
pub(crate) fn prepare(mpi: &Mpi) -> Result<(), Error> {
    let size = usize::try_from(mpi.world().size()).unwrap_or(1);
    let bytes = size * 32 * (size_of::<Card>() + 512);
    mpi.buffer_attach(vec![0; bytes].into_boxed_slice())
}

/// Names who takes part in a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scope {
    /// All ranks.
    All,
    /// The ranks of one node.
    Node,
}

/// The place of this rank in the sequence of calls, and its outgoing cards.
pub(crate) struct Entry {
    rank: usize,
    /// Of each rank, whether it takes part in calls of this node.
    is_near: Vec<bool>,
    /// The place among all calls, in which the ranks of this node meet.
    near: u64,
    /// The place among the calls of all ranks, in which those of other nodes are met.
    far: u64,
    /// Of each rank but this one; made when the first card is sent.
    outgoing: Vec<Option<PersistentRequest<u64>>>,
}

impl Entry {
    /// Begins the sequence of calls; `node` lists the ranks of this node where that is not all.
    pub(crate) fn new(rank: usize, size: usize, node: Option<&[usize]>) -> Self {
        let is_near = |rank| node.is_none_or(|node| node.contains(&rank));
        Self {
            rank,
            is_near: (0..size).map(is_near).collect(),
            near: 0,
            far: 0,
            outgoing: Vec::new(),
        }
    }

    pub(crate) fn rank(&self) -> usize {
        self.rank
    }

    /// Meets the other ranks of `scope` and compares what they call.
    pub(crate) fn enter(
        &mut self,
        comm: &Communicator,
        operation: &'static str,
        call: Call,
        scope: Scope,
    ) -> Result<(), Trouble> {
        let card = card(READY, call.words(), "");
        self.send(comm, &card, scope)?;
        let mut cards = Vec::with_capacity(self.is_near.len());
        for (rank, &is_near) in self.is_near.iter().enumerate() {
            if scope == Scope::Node && !is_near {
                continue;
            }
            let card = if rank == self.rank {
                card
            } else {
                self.receive(comm, rank)?
            };
            cards.push((rank, card));
        }
        let refused = cards.iter().any(|(_, card)| card[STATUS] == REFUSED);
        if scope == Scope::Node && refused {
            // What was refused was a call of all ranks: those of other nodes wait for this card, too.
            self.far += 1;
            self.hand_out(&card, |is_near| !is_near)?;
        }
        Ok(decide(operation, &cards)?)
    }

    /// Announces to the others that this rank refused its arguments.
    pub(crate) fn refuse(&mut self, comm: &Communicator, reason: &str) -> Result<(), Error> {
        self.send(comm, &card(REFUSED, [0; 2], reason), Scope::All)
    }

    /// Returns the place at which this rank meets `rank`.
    fn place(&self, rank: usize) -> u64 {
        if self.is_near[rank] {
            self.near
        } else {
            self.far
        }
    }

    /// Takes the next place in the sequence, and sends the card there.
    fn send(&mut self, comm: &Communicator, card: &Card, scope: Scope) -> Result<(), Error> {
        self.near += 1;
        self.far += u64::from(scope == Scope::All);
        if self.outgoing.is_empty() {
            let request = |rank: usize| {
                let to = i32::try_from(rank).unwrap_or(i32::MAX);
                let request = (rank != self.rank).then(|| comm.bsend_init(card.to_vec(), to, CARD));
                request.transpose()
            };
            self.outgoing = (0..self.is_near.len())
                .map(request)
                .collect::<Result<_, _>>()?;
        }
        self.hand_out(card, |is_near| is_near || scope == Scope::All)
    }

    /// Sends the card of this place to the ranks that `takes_part` chooses.
    fn hand_out(&mut self, card: &Card, takes_part: impl Fn(bool) -> bool) -> Result<(), Error> {
        for rank in 0..self.is_near.len() {
            let place = self.place(rank);
            if takes_part(self.is_near[rank])
                && let Some(request) = &mut self.outgoing[rank]
            {
                let buffer = request.buffer_mut()?;
                buffer.copy_from_slice(card);
                buffer[SEQUENCE] = place;
                request.start()?;
                // In buffered mode this waits for a copy, not for the receiver.
                request.wait()?;
            }
        }
        Ok(())
    }

    /// Reads the card of `rank` for this place, past those of refused calls.
    fn receive(&self, comm: &Communicator, rank: usize) -> Result<Card, Error> {
        let from = i32::try_from(rank).unwrap_or(i32::MAX);
        let mut card = [0; WORDS];
        loop {
            comm.recv(&mut card, from, CARD)?;
            if card[SEQUENCE] >= self.place(rank) {
                return Ok(card);
            }
        }
    }
}

/// Writes a card, for a place that is filled in when it is sent.
fn card(status: u64, call: [u64; 2], reason: &str) -> Card {
    let mut card = [0; WORDS];
    card[STATUS] = status;
    card[CALL..TEXT].copy_from_slice(&call);
    let text = &reason[..reason.floor_char_boundary(LONGEST_REASON)];
    cast_slice_mut(&mut card[TEXT..])[..text.len()].copy_from_slice(text.as_bytes());
    card
}

/// Decides what becomes of the call, from the cards of all that take part, in rank order.
fn decide(operation: &'static str, cards: &[(usize, Card)]) -> Result<(), CommError> {
    if let Some((rank, card)) = cards.iter().find(|(_, card)| card[STATUS] != READY) {
        let text: &[u8] = cast_slice(&card[TEXT..]);
        let end = text.iter().position(|&byte| byte == 0);
        let reason = printable(&text[..end.unwrap_or(text.len())], LONGEST_REASON);
        return Err(words::refused(operation, *rank, Some(&reason)));
    }
    let calls = cards
        .iter()
        .map(|(rank, card)| (*rank, Call::from_words([card[CALL], card[CALL + 1]])));
    words::differing(calls).map_or(Ok(()), |(rank, message)| {
        let kind = FailureKind::Mismatch;
        Err(CommError::failed(operation, kind, Some(rank), message))
    })
}
