//! The comparison before a call, where `COBRE_COMM_CHECK=1` asks for it.
//!
//! Before a call each rank sends a card to every other: the place of the call in the sequence,
//! what it calls or that it refused, and why. Then it reads one card from every other rank, and
//! all that read decide alike: a refusal wins, then the lowest rank that differs from rank 0.
//!
//! A rank that refuses sends its cards and does not read: it returns at once. The cards it left
//! unread are of a place before that of its next call, and are skipped there. Cards are sent in
//! buffered mode, so that no send waits for its receiver.

use comm_api::bytemuck::{cast_slice, cast_slice_mut};
use comm_api::{CommError, FailureKind};
use ferrompi::{Communicator, Error, PersistentRequest};

pub(crate) use crate::call::Call;
use crate::ranks::Trouble;

/// The tag of the cards.
const CARD: i32 = 2;

/// The bytes of a reason that travel.
const REASON: usize = 256;

const WORDS: usize = 6 + REASON / 8;
const SEQUENCE: usize = 0;
const STATUS: usize = 1;
const CALL: usize = 2;
const TEXT: usize = 6;

const READY: u64 = 1;
const REFUSED: u64 = 2;

/// How many ranks a message lists.
const LISTED: usize = 16;

type Card = [u64; WORDS];

/// The bytes that buffered mode needs for `size` ranks: some places of cards, with what MPI adds.
pub(crate) fn buffer(size: usize) -> usize {
    size * 32 * (size_of::<Card>() + 512)
}

/// The place of this rank in the sequence of calls, and its outgoing cards.
pub(crate) struct Entry {
    rank: usize,
    size: usize,
    sequence: u64,
    /// One per other rank, made when the first card is sent.
    outgoing: Vec<PersistentRequest<u64>>,
}

impl Entry {
    pub(crate) fn new(rank: usize, size: usize) -> Self {
        Self {
            rank,
            size,
            sequence: 0,
            outgoing: Vec::new(),
        }
    }

    /// Meets the other ranks and compares what they call.
    pub(crate) fn enter(
        &mut self,
        comm: &Communicator,
        operation: &'static str,
        call: Call,
    ) -> Result<(), Trouble> {
        let card = self.card(READY, call, "");
        self.send(comm, &card)?;
        let mut cards = Vec::with_capacity(self.size);
        for rank in 0..self.size {
            cards.push(if rank == self.rank {
                card
            } else {
                self.receive(comm, rank)?
            });
        }
        Ok(decide(operation, &cards)?)
    }

    /// Announces to the others that this rank refused its arguments.
    pub(crate) fn refuse(&mut self, comm: &Communicator, error: &CommError) -> Result<(), Trouble> {
        let card = self.card(REFUSED, Call([0; 4]), &error.to_string());
        Ok(self.send(comm, &card)?)
    }

    /// Writes the card of the next place in the sequence.
    fn card(&mut self, status: u64, call: Call, reason: &str) -> Card {
        self.sequence += 1;
        let mut card = [0; WORDS];
        card[SEQUENCE] = self.sequence;
        card[STATUS] = status;
        card[CALL..TEXT].copy_from_slice(&call.0);
        let text = &reason[..reason.floor_char_boundary(REASON)];
        cast_slice_mut(&mut card[TEXT..])[..text.len()].copy_from_slice(text.as_bytes());
        card
    }

    fn send(&mut self, comm: &Communicator, card: &Card) -> Result<(), Error> {
        if self.outgoing.is_empty() {
            for rank in (0..self.size).filter(|&rank| rank != self.rank) {
                let to = i32::try_from(rank).unwrap_or(i32::MAX);
                self.outgoing
                    .push(comm.bsend_init(card.to_vec(), to, CARD)?);
            }
        }
        for request in &mut self.outgoing {
            request.buffer_mut()?.copy_from_slice(card);
            request.start()?;
            // In buffered mode this waits for a copy, not for the receiver.
            request.wait()?;
        }
        Ok(())
    }

    /// Reads the card of `rank` for this place, past those of refused calls.
    fn receive(&self, comm: &Communicator, rank: usize) -> Result<Card, Error> {
        let from = i32::try_from(rank).unwrap_or(i32::MAX);
        let mut card = [0; WORDS];
        loop {
            comm.recv(&mut card, from, CARD)?;
            if card[SEQUENCE] >= self.sequence {
                return Ok(card);
            }
        }
    }
}

/// Decides what becomes of the call, from all cards in rank order.
fn decide(operation: &'static str, cards: &[Card]) -> Result<(), CommError> {
    if let Some(rank) = cards.iter().position(|card| card[STATUS] != READY) {
        let text: &[u8] = cast_slice(&cards[rank][TEXT..]);
        let end = text.iter().position(|&byte| byte == 0).unwrap_or(REASON);
        let text = String::from_utf8_lossy(&text[..end]);
        return Err(CommError::failed(
            operation,
            FailureKind::Refused,
            Some(rank),
            format!("{text}; nothing was exchanged, this communicator stays usable"),
        ));
    }
    let call = |rank: usize| {
        let card = &cards[rank];
        Call([card[CALL], card[CALL + 1], card[CALL + 2], card[CALL + 3]])
    };
    let Some(odd) = (1..cards.len()).find(|&rank| call(rank) != call(0)) else {
        return Ok(());
    };
    let mut shown: Vec<(usize, Call)> = Vec::new();
    for rank in 0..cards.len() {
        if shown.len() < LISTED && shown.iter().all(|&(_, known)| known != call(rank)) {
            shown.push((rank, call(rank)));
        }
    }
    let parts: Vec<String> = shown
        .iter()
        .map(|(rank, call)| format!("rank {rank} called {call}"))
        .collect();
    Err(CommError::failed(
        operation,
        FailureKind::Mismatch,
        Some(odd),
        format!(
            "{}; all ranks must call the same collectives in the same order with arguments that \
             agree",
            parts.join(", ")
        ),
    ))
}
