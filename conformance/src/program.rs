//! Random programs: sequences of collectives drawn from a seed, the same on every rank.
//!
//! Determinism compares their results with the reference and with recorded hashes. Chaos mixes them with
//! other steps and compares their results with the inputs, which every rank can compute.

use comm_api::{
    CommData, CommError, Communicator, ReduceOp, ScalarKind, SharedMemoryProvider, SharedRegion,
    bytemuck,
};
use comm_testing::reference::fold_all;

use crate::noise::{Noise, input, mix, same};
use crate::suite::allreduce::naive::Naive;
use crate::suite::elements::{Cut, Triple};

/// The calls of every rank, in order.
#[derive(Debug, Clone)]
pub(crate) struct Program {
    calls: Vec<Collective>,
}

/// Describes one call of a program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Collective {
    Barrier,
    Broadcast {
        element: Element,
        len: usize,
        root: usize,
    },
    Reduce {
        scalar: ScalarKind,
        op: ReduceOp,
        len: usize,
    },
    /// A reduction in place on the ranks whose number is even, and with two buffers on the others.
    ReduceInPlace {
        scalar: ScalarKind,
        op: ReduceOp,
        len: usize,
    },
    Gather {
        element: Element,
        counts: Vec<usize>,
        gap: usize,
    },
    /// A gathered region is created, written, exchanged and read, and dropped.
    Exchange {
        element: Element,
        counts: Vec<usize>,
    },
    /// One rank passes a root that does not exist.
    Refused {
        culprit: usize,
    },
}

/// A collective before its arguments are drawn.
#[derive(Debug, Clone, Copy)]
pub(crate) enum CollectiveKind {
    Barrier,
    Broadcast,
    Reduce,
    ReduceInPlace,
    Gather,
    Exchange,
    Refused,
}

/// The element type of a payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Element {
    Byte,
    Triple,
    Word,
    Double,
    Cut,
}

const ELEMENTS: [Element; 5] = [
    Element::Byte,
    Element::Triple,
    Element::Word,
    Element::Double,
    Element::Cut,
];

/// The weights of each kind of call, and of each limit of lengths.
///
/// The results of a seed depend on these numbers.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Mix {
    pub(crate) kinds: &'static [(usize, CollectiveKind)],
    pub(crate) lengths: &'static [(usize, usize)],
}

/// The mix of determinism: mostly small, sometimes more than a page, rarely more than a slot.
///
/// Its results are recorded, so it must not change.
const WRITTEN_DOWN: Mix = Mix {
    kinds: &[
        (2, CollectiveKind::Barrier),
        (1, CollectiveKind::Refused),
        (5, CollectiveKind::Broadcast),
        (6, CollectiveKind::Reduce),
        (6, CollectiveKind::Gather),
    ],
    lengths: &[(1, 60_000), (5, 3_000), (34, 40)],
};

/// Mostly small, with exchanges among the rest.
const EXCHANGING: Mix = Mix {
    kinds: &[
        (1, CollectiveKind::Barrier),
        (1, CollectiveKind::Refused),
        (1, CollectiveKind::Broadcast),
        (1, CollectiveKind::Reduce),
        (1, CollectiveKind::ReduceInPlace),
        (2, CollectiveKind::Gather),
        (4, CollectiveKind::Exchange),
    ],
    lengths: &[(1, 60_000), (5, 3_000), (34, 40)],
};

impl Mix {
    /// Draws a length.
    pub(crate) fn length(&self, noise: &mut Noise) -> usize {
        let limit = noise.weighted(self.lengths);
        noise.below(limit)
    }
}

/// Calls a function that is generic over the type of an element.
macro_rules! with_element {
    ($element:expr, $call:ident($($argument:expr),*)) => {
        match $element {
            Element::Byte => $call::<u8>($($argument),*),
            Element::Triple => $call::<Triple>($($argument),*),
            Element::Word => $call::<u32>($($argument),*),
            Element::Double => $call::<f64>($($argument),*),
            Element::Cut => $call::<Cut>($($argument),*),
        }
    };
}

/// Calls a function that is generic over a scalar.
macro_rules! with_scalar {
    ($scalar:expr, $call:ident($($argument:expr),*)) => {
        match $scalar {
            ScalarKind::I8 => $call::<i8>($($argument),*),
            ScalarKind::I16 => $call::<i16>($($argument),*),
            ScalarKind::I32 => $call::<i32>($($argument),*),
            ScalarKind::I64 => $call::<i64>($($argument),*),
            ScalarKind::U8 => $call::<u8>($($argument),*),
            ScalarKind::U16 => $call::<u16>($($argument),*),
            ScalarKind::U32 => $call::<u32>($($argument),*),
            ScalarKind::U64 => $call::<u64>($($argument),*),
            ScalarKind::F32 => $call::<f32>($($argument),*),
            ScalarKind::F64 => $call::<f64>($($argument),*),
        }
    };
}

impl Program {
    /// Draws a program for a world of `size` ranks.
    pub(crate) fn draw(seed: u64, size: usize) -> Self {
        Self::of(&WRITTEN_DOWN, seed, size)
    }

    /// Draws a program that also exchanges gathered regions.
    pub(crate) fn draw_exchanging(seed: u64, size: usize) -> Self {
        Self::of(&EXCHANGING, seed, size)
    }

    fn of(mix: &Mix, seed: u64, size: usize) -> Self {
        let mut noise = Noise::new(seed, &[size]);
        let count = 5 + noise.below(20);
        let calls = (0..count).map(|_| Collective::draw(&mut noise, mix, size));
        Self {
            calls: calls.collect(),
        }
    }

    /// Describes a step.
    pub(crate) fn step(&self, at: usize) -> String {
        format!("step {at}: {:?}", self.calls.get(at))
    }

    /// Runs the program as one rank; returns a hash of the result of each step.
    pub(crate) fn run<C: Communicator + SharedMemoryProvider>(
        &self,
        comm: &C,
        mut at: impl FnMut(&str),
    ) -> Result<Vec<u64>, CommError> {
        let steps = self.calls.iter().enumerate();
        let hashes = steps.map(|(index, call)| {
            at(&self.step(index));
            Ok(call.run(comm, index, || {})?.hash())
        });
        hashes.collect()
    }

    /// Runs the program as one rank, and checks the result of each step against the inputs of all.
    pub(crate) fn run_checked<C: Communicator + SharedMemoryProvider>(
        &self,
        comm: &C,
        mut at: impl FnMut(&str),
    ) -> Result<(), CommError> {
        for (index, call) in self.calls.iter().enumerate() {
            at(&self.step(index));
            let outcome = call.run(comm, index, || {})?;
            call.check(&outcome, index, comm.rank(), comm.size());
        }
        Ok(())
    }
}

/// The result of a call on one rank.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// A number that represents an outcome without data.
    Number(u64),
    /// All of the receive buffer.
    Bytes(Vec<u8>),
}

impl Outcome {
    fn bytes<T: CommData>(data: &[T]) -> Self {
        Self::Bytes(bytemuck::cast_slice(data).to_vec())
    }

    fn hash(&self) -> u64 {
        match self {
            Self::Number(number) => *number,
            Self::Bytes(bytes) => mix(2, bytes),
        }
    }

    /// Returns the outcome of a refused call on the rank to blame.
    fn own_refusal(root: usize) -> Self {
        Self::Number(1000 + root as u64)
    }

    /// Returns the outcome of a refused call on the other ranks.
    fn refusal_of(culprit: usize) -> Self {
        Self::Number(3 + culprit as u64)
    }
}

impl Collective {
    /// Draws a call for a world of `size` ranks.
    pub(crate) fn draw(noise: &mut Noise, mix: &Mix, size: usize) -> Self {
        match noise.weighted(mix.kinds) {
            CollectiveKind::Barrier => Self::Barrier,
            CollectiveKind::Refused if size > 1 => Self::Refused {
                culprit: noise.below(size),
            },
            // A single rank has no other rank to notify of a refusal.
            CollectiveKind::Broadcast | CollectiveKind::Refused => Self::Broadcast {
                element: noise.pick(&ELEMENTS),
                len: mix.length(noise),
                root: noise.below(size),
            },
            CollectiveKind::Reduce => {
                let scalar = noise.pick(&ScalarKind::ALL);
                // The results of these are recorded: they must not change.
                let ops = if scalar.is_float() { 3 } else { 5 };
                Self::Reduce {
                    scalar,
                    op: ReduceOp::ALL[noise.below(ops)],
                    len: mix.length(noise).max(1),
                }
            }
            CollectiveKind::ReduceInPlace => {
                let scalar = noise.pick(&ScalarKind::ALL);
                let ops = ReduceOp::ALL.into_iter();
                let ops: Vec<ReduceOp> = ops.filter(|op| op.supports(scalar)).collect();
                Self::ReduceInPlace {
                    scalar,
                    op: noise.pick(&ops),
                    len: mix.length(noise),
                }
            }
            CollectiveKind::Exchange => Self::Exchange {
                element: noise.pick(&ELEMENTS),
                counts: (0..size).map(|_| mix.length(noise) / size).collect(),
            },
            CollectiveKind::Gather => Self::Gather {
                element: noise.pick(&ELEMENTS),
                counts: (0..size).map(|_| mix.length(noise) / size).collect(),
                gap: noise.below(4),
            },
        }
    }

    /// Makes the call as one rank, and returns when a second call follows the first one. `index`
    /// distinguishes its inputs from those of other steps.
    pub(crate) fn run<C: Communicator + SharedMemoryProvider>(
        &self,
        comm: &C,
        index: usize,
        follows: impl FnOnce(),
    ) -> Result<Outcome, CommError> {
        match self {
            Self::Barrier => comm.barrier().map(|()| Outcome::Number(1)),
            Self::Broadcast { element, len, root } => {
                with_element!(element, broadcast(comm, index, *len, *root))
            }
            Self::Reduce { scalar, op, len } => {
                with_scalar!(scalar, reduce(comm, index, *op, *len))
            }
            Self::ReduceInPlace { scalar, op, len } => {
                with_scalar!(scalar, reduce_in_place(comm, index, *op, *len))
            }
            Self::Gather {
                element,
                counts,
                gap,
            } => with_element!(element, gather(comm, index, counts, *gap)),
            Self::Exchange { element, counts } => {
                with_element!(element, exchange(comm, index, counts, follows))
            }
            Self::Refused { culprit } => refused(comm, *culprit),
        }
    }

    /// Checks what [`run`](Self::run) returned against the inputs of all ranks.
    ///
    /// # Panics
    ///
    /// If it differs; the message shows where.
    pub(crate) fn check(&self, actual: &Outcome, index: usize, rank: usize, size: usize) {
        let (what, expected) = match self {
            Self::Barrier => ("a barrier".to_owned(), Outcome::Number(1)),
            Self::Broadcast { element, len, root } => (
                "a broadcast".to_owned(),
                with_element!(element, broadcast_result(index, *len, *root)),
            ),
            Self::Reduce { scalar, op, len } | Self::ReduceInPlace { scalar, op, len } => (
                "a reduction".to_owned(),
                with_scalar!(scalar, reduce_result(index, *op, *len, size)),
            ),
            Self::Gather {
                element,
                counts,
                gap,
            } => (
                "a gather".to_owned(),
                with_element!(element, gather_result(index, counts, *gap, rank)),
            ),
            Self::Exchange { element, counts } => (
                "an exchange".to_owned(),
                with_element!(element, exchange_result(index, counts)),
            ),
            Self::Refused { culprit } => (
                format!("rank {culprit} passed a wrong root"),
                if rank == *culprit {
                    Outcome::own_refusal(size)
                } else {
                    Outcome::refusal_of(*culprit)
                },
            ),
        };
        match (actual, &expected) {
            (Outcome::Bytes(actual), Outcome::Bytes(expected)) => same(&what, actual, expected),
            _ => assert_eq!(*actual, expected, "{what}"),
        }
    }
}

fn broadcast<T: CommData>(
    comm: &impl Communicator,
    index: usize,
    len: usize,
    root: usize,
) -> Result<Outcome, CommError> {
    let mut buf = input::<T>(index, comm.rank(), len);
    comm.broadcast(&mut buf, root)?;
    Ok(Outcome::bytes(&buf))
}

fn broadcast_result<T: CommData>(index: usize, len: usize, root: usize) -> Outcome {
    Outcome::bytes(&input::<T>(index, root, len))
}

fn reduce<T: Naive>(
    comm: &impl Communicator,
    index: usize,
    op: ReduceOp,
    len: usize,
) -> Result<Outcome, CommError> {
    let mut recv = vec![T::zeroed(); len];
    comm.allreduce(&input::<T>(index, comm.rank(), len), &mut recv, op)?;
    Ok(Outcome::bytes(&recv))
}

fn reduce_in_place<T: Naive>(
    comm: &impl Communicator,
    index: usize,
    op: ReduceOp,
    len: usize,
) -> Result<Outcome, CommError> {
    if comm.rank() % 2 == 1 {
        return reduce::<T>(comm, index, op, len);
    }
    let mut buf = input::<T>(index, comm.rank(), len);
    comm.allreduce_in_place(&mut buf, op)?;
    Ok(Outcome::bytes(&buf))
}

fn reduce_result<T: Naive>(index: usize, op: ReduceOp, len: usize, size: usize) -> Outcome {
    let all: Vec<Vec<T>> = (0..size).map(|rank| input(index, rank, len)).collect();
    Outcome::bytes(&fold_all(&all, op))
}

/// Every rank lays out the blocks in a different order, with gaps that must stay unchanged.
fn gather<T: CommData>(
    comm: &impl Communicator,
    index: usize,
    counts: &[usize],
    gap: usize,
) -> Result<Outcome, CommError> {
    let rank = comm.rank();
    let (displs, mut recv) = gather_buffer::<T>(index, counts, gap, rank);
    let send = input::<T>(index, rank, counts[rank]);
    comm.allgatherv(&send, &mut recv, counts, &displs)?;
    Ok(Outcome::bytes(&recv))
}

fn gather_result<T: CommData>(index: usize, counts: &[usize], gap: usize, rank: usize) -> Outcome {
    let (displs, mut recv) = gather_buffer::<T>(index, counts, gap, rank);
    for (from, (&at, &count)) in displs.iter().zip(counts).enumerate() {
        recv[at..at + count].copy_from_slice(&input::<T>(index, from, count));
    }
    Outcome::bytes(&recv)
}

/// Returns where each block begins on `rank`, and its receive buffer before the call.
fn gather_buffer<T: CommData>(
    index: usize,
    counts: &[usize],
    gap: usize,
    rank: usize,
) -> (Vec<usize>, Vec<T>) {
    let size = counts.len();
    let mut displs = vec![0; size];
    let mut end = 0;
    for turn in 0..size {
        let block = (turn + rank + index) % size;
        displs[block] = end + gap;
        end = displs[block] + counts[block];
    }
    (displs, input(index, size + rank, end + gap))
}

fn exchange<T: CommData>(
    comm: &(impl Communicator + SharedMemoryProvider),
    index: usize,
    counts: &[usize],
    follows: impl FnOnce(),
) -> Result<Outcome, CommError> {
    let mine = counts[comm.rank()];
    let mut region = comm.create_gathered_region::<T>(mine)?;
    let data = input::<T>(index, comm.rank(), mine);
    region.as_mut_slice().copy_from_slice(&data);
    follows();
    comm.exchange(&mut region)?;
    Ok(Outcome::bytes(region.as_slice()))
}

fn exchange_result<T: CommData>(index: usize, counts: &[usize]) -> Outcome {
    let parts = counts.iter().enumerate();
    let parts: Vec<Vec<T>> = parts
        .map(|(rank, &count)| input(index, rank, count))
        .collect();
    Outcome::bytes(&parts.concat())
}

fn refused(comm: &impl Communicator, culprit: usize) -> Result<Outcome, CommError> {
    let root = if comm.rank() == culprit {
        comm.size()
    } else {
        0
    };
    match comm.broadcast(&mut [0_u8; 9], root) {
        Err(CommError::CollectiveFailed {
            kind,
            rank: Some(rank),
            ..
        }) if !kind.is_fatal() => Ok(Outcome::refusal_of(rank)),
        Err(CommError::InvalidRoot { root, .. }) => Ok(Outcome::own_refusal(root)),
        Err(other) => Err(other),
        Ok(()) => Ok(Outcome::Number(0)),
    }
}
