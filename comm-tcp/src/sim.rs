//! Ranks and the judge in invented time: real [`Member`]s and a real [`Bench`], over links that delay what they carry.
//!
//! Each seed is a world: a number of ranks that go through the same calls, as a star, and a fault at some moment. Links
//! deliver in order, each message after a while of its own. Rank 0 is two actors that share the word of commitment: the
//! caller and the watch, of which the second may be late. After each world it is checked what the ranks were told.

use std::cell::Cell;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::rc::Rc;
use std::time::{Duration, Instant};

use crate::member::Member;
use crate::notice::{Cause, Notice};
use crate::socket::Patience;
use crate::watch::{Bench, CommitWord};

use dice::Dice;

mod dice;
mod hub;
mod rank;
mod worlds;

/// The timeout of all ranks.
const TIMEOUT: Duration = Duration::from_secs(8);

/// How many calls the ranks make.
const CALLS: u64 = 20;

/// The longest that a message is on its way.
const LATENCY: u64 = 2_000;

/// When every world has come to its end.
const END: Duration = Duration::from_mins(2);

/// What befalls the ranks of a world.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    Nothing,
    /// The process ends.
    Kill(usize),
    /// The program drops its communicator before its next call.
    Leave(usize),
    /// The process does nothing for a while.
    Stop(usize, Duration),
    /// The network of the machine is away for a while.
    Cut(usize, Duration),
}

/// The word of commitment that the two actors of rank 0 share: the first call without an answer, and whether the judge
/// has decided.
#[derive(Debug, Clone, Default)]
struct Word(Rc<Cell<(u64, bool)>>);

impl CommitWord for Word {
    fn answer(&self, sequence: u64) -> bool {
        let (_, decided) = self.0.get();
        if !decided {
            self.0.set((sequence + 1, false));
        }
        !decided
    }

    fn take_back(&self, sequence: u64) {
        let (answered, decided) = self.0.get();
        if !decided {
            self.0.set((answered.min(sequence), false));
        }
    }

    fn decide(&self) -> u64 {
        let (answered, _) = self.0.get();
        self.0.set((answered, true));
        answered
    }
}

#[derive(Debug)]
enum Message {
    /// Over a watch link, to the watch or from it.
    Watch(Notice),
    WatchEnds,
    /// Over a data link: the entry or answer of a call.
    Data(u64),
    DataEnds,
}

/// One end of a link: a rank, or the watch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Actor {
    Rank(usize),
    Watch,
}

#[derive(Debug)]
enum Event {
    /// A message from a rank, or of the watch.
    Arrives {
        from: Actor,
        to: Actor,
        message: Message,
    },
    /// A rank has computed and makes its next call.
    Enters(usize),
    /// An actor looks again, unless it has done so meanwhile.
    Wakes(Actor, u64),
    Befalls(Fault),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Computing,
    /// In a call, since then.
    Inside(Instant),
    /// Rank 0 lets its watch read everything before it answers.
    Asking,
    Settling,
    /// It has made all its calls, has failed, has left or was killed.
    Over,
}

#[derive(Debug)]
struct Rank {
    member: Member,
    state: State,
    sequence: u64,
    /// Of each other rank, the first call of which nothing has come from it, and whether its link has ended.
    came: Vec<(u64, bool)>,
    /// What its watch link has brought and it has not read.
    watch: VecDeque<Message>,
    /// Which look is to come.
    ticket: u64,
    stopped: Option<Instant>,
    /// It is to leave before its next call.
    leaves: bool,
    killed: bool,
    failed: Option<(Cause, Instant)>,
}

/// The watch, a thread of the process of rank 0.
#[derive(Debug)]
struct Hub {
    bench: Bench<Word>,
    inbox: VecDeque<(usize, Message)>,
    open: Vec<bool>,
    ticket: u64,
    look_at: Instant,
    /// After how many tellings of a cause the process dies.
    dies_after: Option<u64>,
    told: u64,
    over: bool,
}

struct World {
    dice: Dice,
    start: Instant,
    now: Instant,
    events: BinaryHeap<Reverse<(Instant, u64)>>,
    /// What the events are, by their number.
    what: BTreeMap<u64, Event>,
    numbers: u64,
    ranks: Vec<Rank>,
    hub: Hub,
    word: Word,
    /// When what was sent last over each link arrives.
    last: BTreeMap<(usize, usize, bool), Instant>,
    /// Which machine is away, from and until when.
    cut: Option<(usize, Instant, Instant)>,
    faults: Vec<Fault>,
    patience: Patience,
}

impl World {
    fn new(seed: u64, size: usize, faults: &[(Duration, Fault)]) -> Self {
        let start = Instant::now();
        let shared = Word::default();
        let place = |rank: usize| format!("host-{rank}");
        let rank = |rank| Rank {
            member: Member::new((rank, size), place(0), Some(TIMEOUT), Duration::ZERO),
            state: State::Computing,
            sequence: 0,
            came: vec![(0, false); size],
            watch: VecDeque::new(),
            ticket: 0,
            stopped: None,
            leaves: false,
            killed: false,
            failed: None,
        };
        let patience = Patience::of(Some(TIMEOUT));
        let mut world = Self {
            dice: Dice(seed),
            start,
            now: start,
            events: BinaryHeap::new(),
            what: BTreeMap::new(),
            numbers: 0,
            ranks: (0..size).map(rank).collect(),
            hub: Hub {
                bench: Bench::new((0..size).map(place).collect(), shared.clone(), patience),
                inbox: VecDeque::new(),
                open: vec![true; size],
                ticket: 0,
                look_at: start,
                dies_after: None,
                told: 0,
                over: false,
            },
            word: shared,
            last: BTreeMap::new(),
            cut: None,
            faults: faults.iter().map(|&(_, fault)| fault).collect(),
            patience,
        };
        for rank in 0..size {
            let computes = world.dice.micros(5_000);
            world.at(start + computes, Event::Enters(rank));
        }
        for &(at, fault) in faults {
            world.at(start + at, Event::Befalls(fault));
        }
        world.at(start, Event::Wakes(Actor::Watch, 0));
        world
    }

    fn at(&mut self, time: Instant, event: Event) {
        self.numbers += 1;
        self.events.push(Reverse((time, self.numbers)));
        self.what.insert(self.numbers, event);
    }

    /// Runs the world to its end.
    fn run(&mut self) {
        while let Some(Reverse((time, number))) = self.events.pop() {
            self.now = time;
            let event = self.what.remove(&number).unwrap();
            if time > self.start + END {
                return;
            }
            match event {
                Event::Arrives { from, to, message } => self.arrives(from, to, message),
                Event::Enters(rank) => self.enters(rank),
                Event::Wakes(Actor::Rank(rank), ticket) => {
                    if self.ranks[rank].ticket == ticket {
                        self.go(rank);
                    }
                }
                Event::Wakes(Actor::Watch, ticket) => {
                    if self.hub.ticket == ticket {
                        self.watch();
                    }
                }
                Event::Befalls(fault) => self.befalls(fault),
            }
        }
    }

    fn host(actor: Actor) -> usize {
        match actor {
            Actor::Rank(rank) => rank,
            Actor::Watch => 0,
        }
    }

    /// Sends a message, which arrives after those before it on the same link.
    fn send(&mut self, from: Actor, to: Actor, message: Message) {
        let is_watch = from == Actor::Watch || to == Actor::Watch;
        let (one, other) = (Self::host(from), Self::host(to));
        let mut arrives = self.now + self.dice.micros(LATENCY);
        if let Some((away, since, until)) = self.cut
            && one != other
            && (one == away || other == away)
            && arrives >= since
            && self.now < until
        {
            // It is sent again, after as long as it has been lost for at most.
            let lost = until - self.now.max(since);
            let again = u64::try_from(lost.as_micros()).unwrap();
            arrives = until + self.dice.micros(again + 1);
        }
        let key = (one, other, is_watch);
        let last = self.last.entry(key).or_insert(arrives);
        arrives = arrives.max(*last);
        *last = arrives;
        self.at(arrives, Event::Arrives { from, to, message });
    }

    fn arrives(&mut self, from: Actor, to: Actor, message: Message) {
        match (to, message) {
            (Actor::Watch, message) => {
                self.hub.inbox.push_back((Self::host(from), message));
                // It may have to wait for a processor, now and then for long.
                let late = if self.dice.below(50) == 0 {
                    400_000
                } else {
                    300
                };
                let late = self.dice.micros(late);
                self.hub.ticket += 1;
                self.at(self.now + late, Event::Wakes(Actor::Watch, self.hub.ticket));
            }
            (Actor::Rank(rank), message @ (Message::Watch(_) | Message::WatchEnds)) => {
                self.ranks[rank].watch.push_back(message);
                self.go(rank);
            }
            (Actor::Rank(rank), Message::Data(sequence)) => {
                self.ranks[rank].came[Self::host(from)].0 = sequence + 1;
                self.go(rank);
            }
            (Actor::Rank(rank), Message::DataEnds) => {
                self.ranks[rank].came[Self::host(from)].1 = true;
                self.go(rank);
            }
        }
    }

    fn befalls(&mut self, fault: Fault) {
        match fault {
            Fault::Nothing => {}
            Fault::Leave(rank) => self.ranks[rank].leaves = true,
            Fault::Stop(rank, time) => self.ranks[rank].stopped = Some(self.now + time),
            Fault::Cut(rank, time) => {
                self.cut = Some((rank, self.now, self.now + time));
                self.watch();
            }
            Fault::Kill(rank) => {
                let it = &mut self.ranks[rank];
                if it.state == State::Over && it.failed.is_none() {
                    return;
                }
                it.killed = true;
                it.state = State::Over;
                it.stopped = None;
                self.hang_up(rank);
                if rank == 0 {
                    self.end_watch();
                }
            }
        }
    }
}
