//! Random programs: sequences of collectives drawn from a seed, the same on every rank.

use comm_api::{CommData, CommError, Communicator, Reduce, ReduceOp, bytemuck};

use crate::noise::{Noise, input, mix};
use crate::suite::elements::{Cut, Triple};

/// Holds what every rank calls, in order.
#[derive(Debug, Clone)]
pub(super) struct Program {
    steps: Vec<Step>,
}

#[derive(Debug, Clone)]
enum Step {
    Barrier,
    Broadcast {
        element: Element,
        len: usize,
        root: usize,
    },
    Reduce {
        scalar: usize,
        op: ReduceOp,
        len: usize,
    },
    Gather {
        element: Element,
        counts: Vec<usize>,
        gap: usize,
    },
    /// One rank gives a root that is none.
    Refused {
        culprit: usize,
    },
}

#[derive(Debug, Clone, Copy)]
enum Element {
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

/// Calls a generic function with the type of an element.
macro_rules! with_element {
    ($element:expr, $call:ident($($argument:expr),*)) => {
        match $element {
            Element::Byte => $call::<u8, C>($($argument),*),
            Element::Triple => $call::<Triple, C>($($argument),*),
            Element::Word => $call::<u32, C>($($argument),*),
            Element::Double => $call::<f64, C>($($argument),*),
            Element::Cut => $call::<Cut, C>($($argument),*),
        }
    };
}

impl Program {
    /// Draws a program for a world of `size` ranks.
    pub(super) fn draw(seed: u64, size: usize) -> Self {
        let mut noise = Noise::new(seed, &[size]);
        let count = 5 + noise.below(20);
        let steps = (0..count).map(|_| Step::draw(&mut noise, size)).collect();
        Self { steps }
    }

    /// Describes a step.
    pub(super) fn step(&self, at: usize) -> String {
        format!("step {at}: {:?}", self.steps.get(at))
    }

    /// Runs the program as one rank; gives a hash of what each step gave.
    pub(super) fn run<C: Communicator>(
        &self,
        comm: &C,
        mut at: impl FnMut(&str),
    ) -> Result<Vec<u64>, CommError> {
        let mut transcript = Vec::new();
        for (index, step) in self.steps.iter().enumerate() {
            at(&self.step(index));
            transcript.push(step.run(comm, index)?);
        }
        Ok(transcript)
    }
}

impl Step {
    fn draw(noise: &mut Noise, size: usize) -> Self {
        match noise.below(20) {
            0 | 1 => Self::Barrier,
            2 if size > 1 => Self::Refused {
                culprit: noise.below(size),
            },
            2..=7 => Self::Broadcast {
                element: noise.pick(&ELEMENTS),
                len: length(noise),
                root: noise.below(size),
            },
            8..=13 => {
                let scalar = noise.below(10);
                let ops = if scalar < 8 { 5 } else { 3 };
                Self::Reduce {
                    scalar,
                    op: ReduceOp::ALL[noise.below(ops)],
                    len: length(noise).max(1),
                }
            }
            _ => Self::Gather {
                element: noise.pick(&ELEMENTS),
                counts: (0..size).map(|_| length(noise) / size).collect(),
                gap: noise.below(4),
            },
        }
    }

    fn run<C: Communicator>(&self, comm: &C, index: usize) -> Result<u64, CommError> {
        match self {
            Self::Barrier => comm.barrier().map(|()| 1),
            Self::Broadcast { element, len, root } => {
                with_element!(element, broadcast(comm, index, *len, *root))
            }
            Self::Gather {
                element,
                counts,
                gap,
            } => with_element!(element, gather(comm, index, counts, *gap)),
            Self::Reduce { scalar, op, len } => match scalar {
                0 => reduce::<i8, C>(comm, index, *op, *len),
                1 => reduce::<i16, C>(comm, index, *op, *len),
                2 => reduce::<i32, C>(comm, index, *op, *len),
                3 => reduce::<i64, C>(comm, index, *op, *len),
                4 => reduce::<u8, C>(comm, index, *op, *len),
                5 => reduce::<u16, C>(comm, index, *op, *len),
                6 => reduce::<u32, C>(comm, index, *op, *len),
                7 => reduce::<u64, C>(comm, index, *op, *len),
                8 => reduce::<f32, C>(comm, index, *op, *len),
                _ => reduce::<f64, C>(comm, index, *op, *len),
            },
            Self::Refused { culprit } => refused(comm, *culprit),
        }
    }
}

/// Mostly small, sometimes past a page, rarely past every slot.
fn length(noise: &mut Noise) -> usize {
    let most = match noise.below(40) {
        0 => 60_000,
        1..=5 => 3_000,
        _ => 40,
    };
    noise.below(most)
}

fn hash<T: CommData>(data: &[T]) -> u64 {
    mix(2, bytemuck::cast_slice(data))
}

fn broadcast<T: CommData, C: Communicator>(
    comm: &C,
    index: usize,
    len: usize,
    root: usize,
) -> Result<u64, CommError> {
    let mut buf = input::<T>(index, comm.rank(), len);
    comm.broadcast(&mut buf, root)?;
    Ok(hash(&buf))
}

fn reduce<T: Reduce, C: Communicator>(
    comm: &C,
    index: usize,
    op: ReduceOp,
    len: usize,
) -> Result<u64, CommError> {
    let mut recv = vec![T::zeroed(); len];
    comm.allreduce(&input::<T>(index, comm.rank(), len), &mut recv, op)?;
    Ok(hash(&recv))
}

/// Lays blocks out one after the other, beginning with number `first`, with gaps around each; gives where each begins,
/// and the length of it all.
pub(crate) fn turned(first: usize, counts: &[usize], gap: usize) -> (Vec<usize>, usize) {
    let size = counts.len();
    let mut displs = vec![0; size];
    let mut end = 0;
    for turn in 0..size {
        let block = (turn + first) % size;
        displs[block] = end + gap;
        end = displs[block] + counts[block];
    }
    (displs, end + gap)
}

/// Every rank lays the blocks out in an order of its own, with gaps.
fn gather<T: CommData, C: Communicator>(
    comm: &C,
    index: usize,
    counts: &[usize],
    gap: usize,
) -> Result<u64, CommError> {
    let (rank, size) = (comm.rank(), comm.size());
    let (displs, len) = turned(rank + index, counts, gap);
    let mut recv = input::<T>(index, size + rank, len);
    let send = input::<T>(index, rank, counts[rank]);
    comm.allgatherv(&send, &mut recv, counts, &displs)?;
    Ok(hash(&recv))
}

fn refused<C: Communicator>(comm: &C, culprit: usize) -> Result<u64, CommError> {
    let root = if comm.rank() == culprit {
        comm.size()
    } else {
        0
    };
    match comm.broadcast(&mut [0_u8; 9], root) {
        Err(CommError::CollectiveFailed { kind, rank, .. }) if !kind.is_fatal() => {
            Ok(3 + rank.unwrap_or(usize::MAX) as u64)
        }
        Err(CommError::InvalidRoot { root, .. }) => Ok(1000 + root as u64),
        Err(other) => Err(other),
        Ok(()) => Ok(0),
    }
}
