//! The comparison of calls, enabled with `COBRE_COMM_CHECK=1`.
//!
//! Before a call, each rank sends a card to every other rank: the position of the call in the sequence, and
//! either the call or the refusal with its reason. Then it reads one card from every other rank. All readers
//! decide alike: a refusal wins, then the lowest rank that differs from rank 0.
//!
//! A call of one node is compared only by the ranks of that node, with cards of the same kind: if one rank of
//! a node creates a region and another enters a barrier, both notice the difference.
//!
//! A rank that refuses sends its cards and returns at once. The cards that it left unread have an earlier
//! position than its next call, and are skipped there. Cards are sent in buffered mode, so that no send waits
//! for its receiver (but see `hand_out` for Open MPI). The buffer is finite, so a rank that refuses many
//! calls in a row waits for the cards of all others from [`AHEAD`] positions before. That wait ends: a rank
//! that is behind needs only cards of its own positions, which have all been sent.
//!
//! If the comparison of a call of one node fails, its ranks send their cards to all other nodes too, and read
//! theirs. The other nodes are in a call of all ranks, or enter their next one, and find the same result.
//!
//! A rank that drops the communicator of all ranks sends a last card, so that a rank that enters a call
//! without it gets an error at once. If a card never arrives, a rank waits until its timeout.

use std::time::Duration;

use comm_api::bytemuck::{cast_slice, cast_slice_mut};
use comm_api::{CommError, FailureKind, Operation};
use comm_kit::Call;
use comm_kit::words::{self, LONGEST_REASON, Lost, printable};
use ferrompi::{Communicator, Error, Mpi, PersistentRequest};

use crate::patience::{self, Over, Patience};
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
const LEFT: u64 = 3;

type Card = [u64; WORDS];

/// How many positions a refusing rank may be ahead of any other.
const AHEAD: u64 = 16;

/// For how many communicators, each of them that far ahead at once, the buffer has room.
const COMMUNICATORS: usize = 16;

/// The maximum overhead that MPI adds to a card in the buffer.
const OVERHEAD: usize = 512;

/// How long a rank that finalizes waits for the last cards of the others.
const LAST_CARDS: Duration = Duration::from_secs(5);

/// Gives MPI the memory that buffered mode needs; the system allocates only the used part.
pub(crate) fn prepare(mpi: &Mpi) -> Result<(), Error> {
    let size = usize::try_from(mpi.world().size()).unwrap_or(1);
    // The card of the following call, the late card of a node, and the last card.
    let places = usize::try_from(AHEAD).unwrap_or(0) + 3;
    let bytes = size * places * COMMUNICATORS * (size_of::<Card>() + OVERHEAD);
    mpi.buffer_attach(vec![0; bytes.min(1 << 30)].into_boxed_slice())
}

/// Which ranks take part in a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scope {
    /// All ranks.
    All,
    /// The ranks of one node.
    Node,
}

/// The rules by which the ranks of a communicator compare their calls.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rules<'a> {
    /// How long a rank waits for the card of another.
    pub(crate) timeout: Option<Duration>,
    /// The ranks of this node, unless that is all ranks; also marks the communicator of all ranks.
    pub(crate) node: Option<&'a [usize]>,
    /// How many communicators these ranks have created before. MPI may reuse a freed communicator for the
    /// next one, together with cards that no rank read. The positions of a communicator are above those of
    /// all earlier ones, so such a card is recognised as old.
    pub(crate) before: u64,
}

/// The positions of one communicator: more than it can have calls.
const PLACES: u32 = 40;

/// The position of this rank in the sequence of calls, and its outgoing cards.
pub(crate) struct Entry {
    rank: usize,
    timeout: Option<Duration>,
    /// Whether a last card announces that this rank has left. The communicator of a node sends none: it is
    /// freed, and the next one that MPI creates in its place would find the card.
    says_goodbye: bool,
    /// For each rank, whether it takes part in calls of this node.
    is_near: Vec<bool>,
    /// The position among all calls, which the ranks of this node share.
    near: u64,
    /// The position among the calls of all ranks, which the ranks of other nodes share.
    far: u64,
    /// For each rank, the position of the last card that was read.
    seen: Vec<u64>,
    /// For each rank, whether that was its last card.
    has_left: Vec<bool>,
    /// One for each rank except this one; created when the first card is sent.
    outgoing: Vec<Option<PersistentRequest<u64>>>,
}

impl Entry {
    /// Begins the sequence of calls.
    pub(crate) fn new(rank: usize, size: usize, rules: Rules<'_>) -> Self {
        let Rules {
            timeout,
            node,
            before,
        } = rules;
        let first = before << PLACES;
        let is_near = |rank| node.is_none_or(|node| node.contains(&rank));
        Self {
            rank,
            timeout: timeout.filter(|timeout| !timeout.is_zero()),
            says_goodbye: node.is_some(),
            is_near: (0..size).map(is_near).collect(),
            near: first,
            far: first,
            seen: vec![first; size],
            has_left: vec![false; size],
            outgoing: Vec::new(),
        }
    }

    pub(crate) fn rank(&self) -> usize {
        self.rank
    }

    /// Synchronises with the other ranks of `scope` and compares their calls.
    pub(crate) fn enter(
        &mut self,
        comm: &Communicator,
        operation: Operation,
        call: Call,
        scope: Scope,
    ) -> Result<(), Trouble> {
        let card = card(READY, call.words(), "");
        self.send(comm, &card, scope)?;
        let near_or_all = |is_near| is_near || scope == Scope::All;
        let mut cards = self.read(comm, operation, &card, near_or_all)?;
        let decision = decide(operation, &cards);
        let Err(error) = &decision else {
            return Ok(());
        };
        if scope == Scope::Node {
            // Ranks of other nodes wait for this card too, or will.
            self.far += 1;
            self.hand_out(&card, |is_near| !is_near)?;
            if error.is_fatal() {
                cards.extend(self.read(comm, operation, &card, |is_near| !is_near)?);
                cards.sort_by_key(|&(rank, _)| rank);
                return Ok(decide(operation, &cards)?);
            }
        }
        Ok(decision?)
    }

    /// Announces to the others that this rank refused its arguments.
    pub(crate) fn refuse(&mut self, comm: &Communicator, reason: &str) -> Result<(), Trouble> {
        let own = self.rank;
        let mut patience = Patience::new(self.timeout);
        for rank in (0..self.seen.len()).filter(|&rank| rank != own) {
            let place = self.place(rank) + 1;
            while !self.has_left[rank] && self.seen[rank] + AHEAD < place {
                if self.receive(comm, rank)?.is_none()
                    && let Err(over) = patience.pause(|_| {})
                {
                    let called = String::from("this rank refused many calls in a row");
                    let timeout = self.timeout;
                    Err(patience::error(
                        over,
                        Operation::Other("refuse"),
                        own,
                        &[rank],
                        &called,
                        timeout,
                    ))?;
                }
            }
        }
        Ok(self.send(comm, &card(REFUSED, [0; 2], reason), Scope::All)?)
    }

    /// Announces to the others that this rank makes no more calls; waits for no rank.
    pub(crate) fn leave(&mut self, comm: &Communicator) -> Result<(), Error> {
        if !self.says_goodbye {
            return Ok(());
        }
        self.send(comm, &card(LEFT, [0; 2], ""), Scope::All)
    }

    /// Returns whether the others also send a last card, which [`drain`](Self::drain) reads.
    pub(crate) fn says_goodbye(&self) -> bool {
        self.says_goodbye
    }

    /// Reads what the others sent, up to their last cards: MPI should not be finalized while messages are
    /// unread, and some libraries complain about that. A rank that finalizes has sent its last card, so this
    /// waits no longer than finalizing does; a rank that never finalizes is left to `MPI_Finalize`.
    pub(crate) fn drain(mut self, comm: &Communicator) {
        let mut patience = Patience::new(Some(LAST_CARDS));
        for rank in 0..self.is_near.len() {
            while rank != self.rank && !self.has_left[rank] {
                match self.receive(comm, rank) {
                    Ok(Some(_)) => (),
                    Ok(None) if patience.pause(|_| ()).is_ok() => (),
                    Ok(None) | Err(_) => return,
                }
            }
        }
    }

    /// Returns the position that this rank shares with `rank`.
    fn place(&self, rank: usize) -> u64 {
        if self.is_near[rank] {
            self.near
        } else {
            self.far
        }
    }

    /// Takes the next position in the sequence, and sends the card for it.
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

    /// Sends the card of this position to the ranks that `takes_part` selects.
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
                // In buffered mode this waits for a copy, not for the receiver. With Open MPI 4.1 it still
                // waits for the receiver once about a dozen cards are unread.
                request.wait()?;
            }
        }
        Ok(())
    }

    /// Reads the cards of this position from the ranks that `takes_part` selects, skipping those of refused
    /// calls; `own` is the card of this rank.
    fn read(
        &mut self,
        comm: &Communicator,
        operation: Operation,
        own: &Card,
        takes_part: impl Fn(bool) -> bool,
    ) -> Result<Vec<(usize, Card)>, Trouble> {
        let (this, size) = (self.rank, self.is_near.len());
        let mut patience = Patience::new(self.timeout);
        let mut cards = Vec::with_capacity(size);
        for rank in 0..size {
            if !takes_part(self.is_near[rank]) {
                continue;
            }
            let mut card = *own;
            while !self.is_met(rank) {
                if let Some(next) = self.receive(comm, rank)? {
                    card = next;
                    continue;
                }
                let log = |waited| {
                    words::log_waiting(operation, this, &words::ranks(&[rank]), waited);
                };
                if let Err(over) = patience.pause(log) {
                    let rest = (rank + 1..size).filter(|&rank| takes_part(self.is_near[rank]));
                    let rest: Vec<usize> = rest.collect();
                    return Err(self.give_up(comm, operation, over, own, (cards, rank, rest)));
                }
            }
            cards.push((rank, self.card_of(rank, &card)));
        }
        Ok(cards)
    }

    /// Returns the card of a rank whose card was read: a rank that has left sends no other.
    fn card_of(&self, rank: usize, card: &Card) -> Card {
        if self.has_left[rank] {
            self::card(LEFT, [0; 2], "")
        } else {
            *card
        }
    }

    /// Returns whether the card of `rank` for this position was read.
    fn is_met(&self, rank: usize) -> bool {
        rank == self.rank || self.has_left[rank] || self.seen[rank] >= self.place(rank)
    }

    /// Returns why the call failed: which ranks of `rest` are missing in addition to `rank`, and what the
    /// others called.
    #[cold]
    fn give_up(
        &mut self,
        comm: &Communicator,
        operation: Operation,
        over: Over,
        own: &Card,
        (mut cards, rank, rest): (Vec<(usize, Card)>, usize, Vec<usize>),
    ) -> Trouble {
        let mut missing = vec![rank];
        for rank in rest {
            let mut card = *own;
            while !self.is_met(rank) {
                match self.receive(comm, rank) {
                    Ok(Some(next)) => card = next,
                    Ok(None) => break,
                    Err(error) => return error.into(),
                }
            }
            if self.is_met(rank) {
                cards.push((rank, self.card_of(rank, &card)));
            } else {
                missing.push(rank);
            }
        }
        let calls = cards.iter().filter(|(_, card)| card[STATUS] == READY);
        let called = words::called(calls.map(|(rank, card)| (*rank, call_of(card))));
        let timeout = self.timeout;
        patience::error(over, operation, self.rank, &missing, &called, timeout).into()
    }

    /// Reads the next card of `rank`, if it has arrived.
    fn receive(&mut self, comm: &Communicator, rank: usize) -> Result<Option<Card>, Error> {
        let from = i32::try_from(rank).unwrap_or(i32::MAX);
        if comm.iprobe::<u64>(from, CARD)?.is_none() {
            return Ok(None);
        }
        let mut card = [0; WORDS];
        comm.recv(&mut card, from, CARD)?;
        self.seen[rank] = self.seen[rank].max(card[SEQUENCE]);
        self.has_left[rank] = card[STATUS] == LEFT;
        Ok(Some(card))
    }
}

/// Encodes a card; its position is filled in when it is sent.
fn card(status: u64, call: [u64; 2], reason: &str) -> Card {
    let mut card = [0; WORDS];
    card[STATUS] = status;
    card[CALL..TEXT].copy_from_slice(&call);
    let text = &reason[..reason.floor_char_boundary(LONGEST_REASON)];
    cast_slice_mut(&mut card[TEXT..])[..text.len()].copy_from_slice(text.as_bytes());
    card
}

/// Returns the call that a card describes.
fn call_of(card: &Card) -> Call {
    Call::from_words([card[CALL], card[CALL + 1]])
}

/// Decides the outcome of the call from the cards of all participants, in rank order. A refusal comes first
/// because it is harmless: if a rank has left, it is missing in the next call too.
fn decide(operation: Operation, cards: &[(usize, Card)]) -> Result<(), CommError> {
    let find = |status| cards.iter().find(|(_, card)| card[STATUS] == status);
    if let Some((rank, card)) = find(REFUSED) {
        let text: &[u8] = cast_slice(&card[TEXT..]);
        let end = text.iter().position(|&byte| byte == 0);
        let reason = printable(&text[..end.unwrap_or(text.len())], LONGEST_REASON);
        return Err(words::refused(operation, *rank, Some(&reason)));
    }
    if let Some(&(rank, _)) = find(LEFT) {
        let message = words::lost(Lost::Dropped, None);
        let kind = FailureKind::PeerLost;
        return Err(CommError::failed(operation, kind, Some(rank), message));
    }
    let calls = cards.iter().map(|(rank, card)| (*rank, call_of(card)));
    words::differing(calls).map_or(Ok(()), |(rank, message)| {
        let kind = FailureKind::Mismatch;
        Err(CommError::failed(operation, kind, Some(rank), message))
    })
}
