//! What a rank called, in words that ranks compare and people read.

use std::fmt;

use comm_api::{ReduceOp, ScalarKind};

/// Describes a call: ranks agree on it if and only if all words are equal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Call(pub(crate) [u64; 4]);

const BARRIER: u64 = 1;
const ALLGATHERV: u64 = 2;
const ALLREDUCE: u64 = 3;
const BROADCAST: u64 = 4;

impl Call {
    pub(crate) const fn barrier() -> Self {
        Self([BARRIER, 0, 0, 0])
    }

    /// Counts are compared by a hash; displacements are a rank's own business.
    pub(crate) fn allgatherv(counts: &[usize], elem_size: usize) -> Self {
        let hash = counts
            .iter()
            .fold(0x6a09_e667_f3bc_c908, |hash: u64, &count| {
                let mixed = (hash ^ count as u64).wrapping_mul(0xbf58_476d_1ce4_e5b9);
                mixed ^ mixed >> 31
            });
        Self([ALLGATHERV, elem_size as u64, hash, 0])
    }

    pub(crate) fn allreduce(bytes: usize, scalar: ScalarKind, op: ReduceOp) -> Self {
        Self([ALLREDUCE, bytes as u64, scalar as u64, op as u64])
    }

    pub(crate) fn broadcast(bytes: usize, elem_size: usize, root: usize) -> Self {
        Self([BROADCAST, bytes as u64, elem_size as u64, root as u64])
    }
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [kind, a, b, c] = self.0;
        match kind {
            BARRIER => f.write_str("barrier"),
            ALLGATHERV => write!(f, "allgatherv(elements of {a} bytes, counts #{b:016x})"),
            ALLREDUCE => {
                let scalar = ScalarKind::ALL.into_iter().find(|&s| s as u64 == b);
                let op = ReduceOp::ALL.into_iter().find(|&op| op as u64 == c);
                match scalar.zip(op) {
                    Some((scalar, op)) => {
                        let count = a / scalar.size() as u64;
                        write!(f, "allreduce({op} of {count} {scalar})")
                    }
                    None => f.write_str("allreduce(?)"),
                }
            }
            BROADCAST => {
                write!(f, "broadcast({a} bytes in elements of {b} from root {c})")
            }
            _ => f.write_str("something unknown"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_that_differ_have_words_that_differ() {
        let calls = [
            Call::barrier(),
            Call::allgatherv(&[1, 2], 8),
            Call::allgatherv(&[2, 1], 8),
            Call::allgatherv(&[1, 2], 4),
            Call::allgatherv(&[1, 2, 0], 8),
            Call::allreduce(16, ScalarKind::F64, ReduceOp::Sum),
            Call::allreduce(16, ScalarKind::F64, ReduceOp::Min),
            Call::allreduce(16, ScalarKind::F32, ReduceOp::Sum),
            Call::allreduce(24, ScalarKind::F64, ReduceOp::Sum),
            Call::broadcast(16, 8, 0),
            Call::broadcast(16, 8, 1),
            Call::broadcast(16, 4, 0),
            Call::broadcast(24, 8, 0),
        ];
        for (i, a) in calls.iter().enumerate() {
            for (j, b) in calls.iter().enumerate() {
                assert_eq!(i == j, a == b, "{a} and {b}");
            }
        }
    }

    #[test]
    fn a_call_reads_like_a_call() {
        let call = Call::allreduce(24, ScalarKind::F64, ReduceOp::Min);
        assert_eq!(call.to_string(), "allreduce(Min of 3 f64)");
        let call = Call::broadcast(24, 8, 2);
        let text = "broadcast(24 bytes in elements of 8 from root 2)";
        assert_eq!(call.to_string(), text);
        assert_eq!(Call([99, 0, 0, 0]).to_string(), "something unknown");
    }
}
