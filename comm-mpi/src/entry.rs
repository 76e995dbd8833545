//! The comparison before a call, where `COBRE_COMM_CHECK=1` asks for it.
//!
//! Before a call each rank sends a card to every other: the place of the call in the sequence,
//! what it calls or that it refused, and why. Then it reads one card from every other rank, and
//! all that read decide alike: a refusal wins, then the lowest rank that differs from rank 0.
//!
//! A call of one node is compared by the ranks of that node only, with cards of the same kind: where
//! one rank of a node creates a region and another enters a barrier, both find that they differ.
//!
//! A rank that refuses sends its cards and returns at once. The cards it left unread are of a place
//! before that of its next call, and are skipped there. Cards are sent in buffered mode, so that no
//! send waits for its receiver; the buffer is finite, so a rank that refuses call after call waits
//! for the card of everybody else from [`AHEAD`] places before. That wait ends: whoever is behind
//! needs no card but those of its own places, which have all been sent.
//!
//! Where a call of one node fails in the comparison, its ranks send their cards to all other nodes, too, and
//! read theirs: those are in a call of all ranks, or come to their next, and find the same.

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

/// How many places a rank that refuses may be ahead of any other.
const AHEAD: u64 = 16;

/// How many communicators, of which each may be that far ahead at once, have room in the buffer.
const COMMUNICATORS: usize = 16;

/// What MPI adds to a card in the buffer, at most.
const OVERHEAD: usize = 512;

/// Gives MPI the memory that buffered mode needs; the system provides what of it is used.
pub(crate) fn prepare(mpi: &Mpi) -> Result<(), Error> {
    let size = usize::try_from(mpi.world().size()).unwrap_or(1);
    // The card of the call that follows, and the one that a node sends late.
    let places = usize::try_from(AHEAD).unwrap_or(0) + 2;
    let bytes = size * places * COMMUNICATORS * (size_of::<Card>() + OVERHEAD);
    mpi.buffer_attach(vec![0; bytes.min(1 << 30)].into_boxed_slice())
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
    /// Of each rank, the place of the last card that was read.
    seen: Vec<u64>,
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
            seen: vec![0; size],
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
        let mut cards = self.read(comm, &card, |is_near| is_near || scope == Scope::All)?;
        let decision = decide(operation, &cards);
        let Err(error) = &decision else {
            return Ok(());
        };
        if scope == Scope::Node {
            // Those of other nodes wait for this card, too, or will.
            self.far += 1;
            self.hand_out(&card, |is_near| !is_near)?;
            if error.is_fatal() {
                cards.extend(self.read(comm, &card, |is_near| !is_near)?);
                cards.sort_by_key(|&(rank, _)| rank);
                return Ok(decide(operation, &cards)?);
            }
        }
        Ok(decision?)
    }

    /// Announces to the others that this rank refused its arguments.
    pub(crate) fn refuse(&mut self, comm: &Communicator, reason: &str) -> Result<(), Error> {
        let own = self.rank;
        for rank in (0..self.seen.len()).filter(|&rank| rank != own) {
            let place = self.place(rank) + 1;
            while self.seen[rank] + AHEAD < place {
                self.receive(comm, rank)?;
            }
        }
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

    /// Reads the cards for this place of the ranks that `takes_part` chooses, past those of refused
    /// calls; `own` is that of this rank.
    fn read(
        &mut self,
        comm: &Communicator,
        own: &Card,
        takes_part: impl Fn(bool) -> bool,
    ) -> Result<Vec<(usize, Card)>, Error> {
        let mut cards = Vec::with_capacity(self.is_near.len());
        for rank in 0..self.is_near.len() {
            if !takes_part(self.is_near[rank]) {
                continue;
            }
            let mut card = *own;
            while rank != self.rank && self.seen[rank] < self.place(rank) {
                card = self.receive(comm, rank)?;
            }
            cards.push((rank, card));
        }
        Ok(cards)
    }

    /// Reads the next card of `rank`.
    fn receive(&mut self, comm: &Communicator, rank: usize) -> Result<Card, Error> {
        let from = i32::try_from(rank).unwrap_or(i32::MAX);
        let mut card = [0; WORDS];
        comm.recv(&mut card, from, CARD)?;
        self.seen[rank] = card[SEQUENCE];
        Ok(card)
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
