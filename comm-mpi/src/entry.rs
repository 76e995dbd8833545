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
//! send waits for its receiver (but see `hand_out` for Open MPI); the buffer is finite, so a rank
//! that refuses call after call waits for the card of everybody else from [`AHEAD`] places before. That wait ends: whoever is behind
//! needs no card but those of its own places, which have all been sent.
//!
//! Where a call of one node fails in the comparison, its ranks send their cards to all other nodes, too, and
//! read theirs: those are in a call of all ranks, or come to their next, and find the same.
//!
//! A rank that drops the communicator of all ranks sends a last card, so that whoever comes to a call without it hears at
//! once. For a card that does not come at all a rank waits until its timeout.

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

/// How many places a rank that refuses may be ahead of any other.
const AHEAD: u64 = 16;

/// How many communicators, of which each may be that far ahead at once, have room in the buffer.
const COMMUNICATORS: usize = 16;

/// What MPI adds to a card in the buffer, at most.
const OVERHEAD: usize = 512;

/// How long a rank that finalizes waits for the last cards of the others.
const LAST_CARDS: Duration = Duration::from_secs(5);

/// Gives MPI the memory that buffered mode needs; the system provides what of it is used.
pub(crate) fn prepare(mpi: &Mpi) -> Result<(), Error> {
    let size = usize::try_from(mpi.world().size()).unwrap_or(1);
    // The card of the call that follows, the one that a node sends late, and the last one.
    let places = usize::try_from(AHEAD).unwrap_or(0) + 3;
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

/// How the ranks of a communicator compare what they call.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rules<'a> {
    /// How long one waits for the card of another.
    pub(crate) timeout: Option<Duration>,
    /// The ranks of this node, where that is not all; also says that this is the communicator of all ranks.
    pub(crate) node: Option<&'a [usize]>,
    /// How many communicators these ranks have made before, this one in the place of one of them, perhaps: MPI gives what it has freed to
    /// the next, with cards that nobody read. The places of a communicator are above those of all before it, so such a card is an old one.
    pub(crate) before: u64,
}

/// The places of one communicator: more than it has calls.
const PLACES: u32 = 40;

/// The place of this rank in the sequence of calls, and its outgoing cards.
pub(crate) struct Entry {
    rank: usize,
    timeout: Option<Duration>,
    /// Whether a last card says that this rank has left. The communicator of a node goes without: it is freed, and the next
    /// that MPI creates in its place would find the card.
    says_goodbye: bool,
    /// Of each rank, whether it takes part in calls of this node.
    is_near: Vec<bool>,
    /// The place among all calls, in which the ranks of this node meet.
    near: u64,
    /// The place among the calls of all ranks, in which those of other nodes are met.
    far: u64,
    /// Of each rank, the place of the last card that was read.
    seen: Vec<u64>,
    /// Of each rank, whether that was its last.
    has_left: Vec<bool>,
    /// Of each rank but this one; made when the first card is sent.
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

    /// Meets the other ranks of `scope` and compares what they call.
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
            // Those of other nodes wait for this card, too, or will.
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
                    let called = String::from("this rank refused call after call");
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

    /// Announces to the others that this rank calls nothing any more; waits for nobody.
    pub(crate) fn leave(&mut self, comm: &Communicator) -> Result<(), Error> {
        if !self.says_goodbye {
            return Ok(());
        }
        self.send(comm, &card(LEFT, [0; 2], ""), Scope::All)
    }

    /// Returns whether the others send a last card too, which [`drain`](Self::drain) reads.
    pub(crate) fn says_goodbye(&self) -> bool {
        self.says_goodbye
    }

    /// Reads what the others sent, up to their last cards: MPI is not to be finalized while messages are unread, and some
    /// libraries complain. A rank that finalizes has sent its last card, so this waits no longer than finalizing does; one that
    /// does not come is left to that.
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
                // In buffered mode this waits for a copy, not for the receiver; with Open MPI 4.1 for the receiver all the same, once
                // about a dozen cards are unread.
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

    /// Returns the card of a rank that was met: one that has left sends no other.
    fn card_of(&self, rank: usize, card: &Card) -> Card {
        if self.has_left[rank] {
            self::card(LEFT, [0; 2], "")
        } else {
            *card
        }
    }

    /// Returns whether the card of `rank` for this place was read.
    fn is_met(&self, rank: usize) -> bool {
        rank == self.rank || self.has_left[rank] || self.seen[rank] >= self.place(rank)
    }

    /// Returns why the call is over: who of `rest` is missing like `rank`, and what those that are there called.
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

    /// Reads the next card of `rank`, if it is there.
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

/// Writes a card, for a place that is filled in when it is sent.
fn card(status: u64, call: [u64; 2], reason: &str) -> Card {
    let mut card = [0; WORDS];
    card[STATUS] = status;
    card[CALL..TEXT].copy_from_slice(&call);
    let text = &reason[..reason.floor_char_boundary(LONGEST_REASON)];
    cast_slice_mut(&mut card[TEXT..])[..text.len()].copy_from_slice(text.as_bytes());
    card
}

/// Returns what a card says that its rank calls.
fn call_of(card: &Card) -> Call {
    Call::from_words([card[CALL], card[CALL + 1]])
}

/// Decides what becomes of the call, from the cards of all that take part, in rank order. A refusal comes first: it harms
/// nobody, and who has left is missing in the next call, too.
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
