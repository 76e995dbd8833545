//! Every refusal of the contract's table, with the error it gives.

use comm_api::{Argument, CommError, Communicator, Operation, ReduceOp, ScalarKind};

/// A wrong way to call a collective, and its valid counterpart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wrong {
    Counts,
    Displs,
    Send,
    PastTheEnd,
    Overflow,
    Overlap,
    Lengths,
    Bitwise,
    Root,
}

impl Wrong {
    pub(super) const ALL: [Self; 9] = [
        Self::Counts,
        Self::Displs,
        Self::Send,
        Self::PastTheEnd,
        Self::Overflow,
        Self::Overlap,
        Self::Lengths,
        Self::Bitwise,
        Self::Root,
    ];

    /// Makes the wrong or the valid call.
    pub(super) fn call<C: Communicator>(self, comm: &C, wrong: bool) -> Result<(), CommError> {
        let size = comm.size();
        let counts = vec![2; size];
        let displs: Vec<usize> = (0..size).map(|rank| 2 * rank).collect();
        let mut recv = vec![0_u64; 2 * size];
        let extra = usize::from(wrong);
        match self {
            Self::Counts => {
                let counts = vec![2; size + extra];
                comm.allgatherv(&[1; 2], &mut recv, &counts, &displs)
            }
            Self::Displs => comm.allgatherv(&[1; 2], &mut recv, &counts, &displs[extra..]),
            Self::Send => {
                let send = [1, 2, 3];
                comm.allgatherv(&send[..2 + extra], &mut recv, &counts, &displs)
            }
            Self::PastTheEnd => {
                let until = 2 * size - extra;
                comm.allgatherv(&[1; 2], &mut recv[..until], &counts, &displs)
            }
            Self::Overflow => {
                let mut displs = displs;
                if wrong {
                    displs[size - 1] = usize::MAX;
                }
                comm.allgatherv(&[1; 2], &mut recv, &counts, &displs)
            }
            Self::Overlap => {
                // In a world of one there is no other block to overlap with: the block lacks room.
                let mut displs = displs;
                if wrong && size > 1 {
                    displs[size - 1] -= 1;
                }
                let until = if wrong && size == 1 { 0 } else { 2 * size };
                comm.allgatherv(&[1; 2], &mut recv[..until], &counts, &displs)
            }
            Self::Lengths => comm.allreduce(&[1, 2], &mut [0; 3][..2 + extra], ReduceOp::Sum),
            Self::Bitwise => {
                let op = if wrong {
                    ReduceOp::BitwiseOr
                } else {
                    ReduceOp::Sum
                };
                comm.allreduce(&[1.0_f32], &mut [0.0], op)
            }
            Self::Root => comm.broadcast(&mut [1_u16], if wrong { size + 5 } else { 0 }),
        }
    }

    /// Returns the error of the wrong call, the same on every rank.
    pub(super) fn error(self, size: usize) -> CommError {
        let buffer = |operation, argument, expected, actual| {
            CommError::invalid_buffer_size(operation, argument, expected, actual)
        };
        match self {
            Self::Counts => buffer("allgatherv", Argument::Counts, size, size + 1),
            Self::Displs => buffer("allgatherv", Argument::Displs, size, size - 1),
            Self::Send => buffer("allgatherv", Argument::Send, 2, 3),
            Self::Overflow => buffer("allgatherv", Argument::Recv, usize::MAX, 2 * size),
            Self::Overlap if size == 1 => buffer("allgatherv", Argument::Recv, 2, 0),
            // One element each is missing at the end and covered twice.
            Self::PastTheEnd => buffer("allgatherv", Argument::Recv, 2 * size, 2 * size - 1),
            Self::Overlap => {
                let last_two = Argument::Overlap(size - 2, size - 1);
                buffer("allgatherv", last_two, 2 * size, 2 * size - 1)
            }
            Self::Lengths => buffer("allreduce", Argument::Recv, 2, 3),
            Self::Bitwise => CommError::unsupported_reduction(
                Operation::Allreduce,
                ReduceOp::BitwiseOr,
                ScalarKind::F32,
            ),
            Self::Root => CommError::invalid_root(Operation::Broadcast, size + 5, size),
        }
    }
}
