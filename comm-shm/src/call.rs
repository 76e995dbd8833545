//! What a rank called, in two words that travel with every call.

use std::fmt;

use comm_api::{ReduceOp, ScalarKind};

/// Which collective it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Kind {
    Barrier = 1,
    Allgatherv,
    Allreduce,
    Broadcast,
    SharedRegion,
    PartitionedRegion,
    SplitLocal,
    Fence,
}

const KINDS: [Kind; 8] = [
    Kind::Barrier,
    Kind::Allgatherv,
    Kind::Allreduce,
    Kind::Broadcast,
    Kind::SharedRegion,
    Kind::PartitionedRegion,
    Kind::SplitLocal,
    Kind::Fence,
];

impl Kind {
    /// The name of the method, for errors.
    pub(crate) const fn operation(self) -> &'static str {
        match self {
            Self::Barrier => "barrier",
            Self::Allgatherv => "allgatherv",
            Self::Allreduce => "allreduce",
            Self::Broadcast => "broadcast",
            Self::SharedRegion => "create_shared_region",
            Self::PartitionedRegion => "create_partitioned_region",
            Self::SplitLocal => "split_local",
            Self::Fence => "fence",
        }
    }
}

/// Describes a call: two ranks agree on it if and only if their words are equal.
///
/// The first word is exact: kind, scalar, operation, root and element size, one field each. The
/// second is a length, or a hash where there is a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Call {
    words: [u64; 2],
}

impl Call {
    pub(crate) const fn plain(kind: Kind) -> Self {
        Self {
            words: [kind as u64, 0],
        }
    }

    pub(crate) fn allgatherv(counts: &[usize], elem_size: usize) -> Self {
        let hash = counts
            .iter()
            .fold(0x243f_6a88_85a3_08d3, |hash: u64, &count| {
                let mixed = (hash ^ count as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
                mixed ^ mixed >> 29
            });
        Self::sized(Kind::Allgatherv, elem_size, hash)
    }

    pub(crate) fn allreduce(bytes: usize, scalar: ScalarKind, op: ReduceOp) -> Self {
        let word = Kind::Allreduce as u64 | (scalar as u64) << 8 | (op as u64) << 16;
        Self {
            words: [word, bytes as u64],
        }
    }

    pub(crate) fn broadcast(bytes: usize, elem_size: usize, root: usize) -> Self {
        let mut call = Self::sized(Kind::Broadcast, elem_size, bytes as u64);
        call.words[0] |= (root as u64 & 0xffff) << 24;
        call
    }

    pub(crate) fn shared_region(count: usize, elem_size: usize) -> Self {
        Self::sized(Kind::SharedRegion, elem_size, count as u64)
    }

    pub(crate) fn partitioned_region(elem_size: usize) -> Self {
        Self::sized(Kind::PartitionedRegion, elem_size, 0)
    }

    /// Element sizes from 16 MiB on are all one to the first word.
    fn sized(kind: Kind, elem_size: usize, extent: u64) -> Self {
        let elem_size = (elem_size as u64).min(0xff_ffff);
        Self {
            words: [kind as u64 | elem_size << 40, extent],
        }
    }

    #[inline]
    pub(crate) const fn words(self) -> [u64; 2] {
        self.words
    }

    /// Takes what was found in a line; anything can be shown.
    pub(crate) const fn found(words: [u64; 2]) -> Self {
        Self { words }
    }
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [word, extent] = self.words;
        let Some(kind) = KINDS.into_iter().find(|&kind| kind as u64 == word & 0xff) else {
            return write!(f, "something unknown ({word:#x}, {extent:#x})");
        };
        let name = kind.operation();
        let elem_size = word >> 40;
        match kind {
            Kind::Barrier | Kind::SplitLocal | Kind::Fence => f.write_str(name),
            Kind::Allgatherv => {
                write!(
                    f,
                    "{name}(elements of {elem_size} bytes, counts #{extent:016x})"
                )
            }
            Kind::Allreduce => {
                let scalar = ScalarKind::ALL
                    .into_iter()
                    .find(|&s| s as u64 == word >> 8 & 0xff);
                let op = ReduceOp::ALL
                    .into_iter()
                    .find(|&op| op as u64 == word >> 16 & 0xff);
                match (scalar, op) {
                    (Some(scalar), Some(op)) => {
                        let count = extent / scalar.size() as u64;
                        write!(f, "{name}({op} of {count} {scalar})")
                    }
                    _ => write!(f, "{name}(?)"),
                }
            }
            Kind::Broadcast => {
                let root = word >> 24 & 0xffff;
                write!(
                    f,
                    "{name}({extent} bytes in elements of {elem_size} from root {root})"
                )
            }
            Kind::SharedRegion => write!(f, "{name}({extent} elements of {elem_size} bytes)"),
            Kind::PartitionedRegion => write!(f, "{name}(elements of {elem_size} bytes)"),
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn calls_that_differ_have_words_that_differ() {
        let calls = [
            Call::plain(Kind::Barrier),
            Call::allgatherv(&[1, 2], 8),
            Call::allgatherv(&[2, 1], 8),
            Call::allgatherv(&[1, 2], 4),
            Call::allreduce(16, ScalarKind::F64, ReduceOp::Sum),
            Call::allreduce(16, ScalarKind::F64, ReduceOp::Min),
            Call::allreduce(16, ScalarKind::F32, ReduceOp::Sum),
            Call::allreduce(24, ScalarKind::F64, ReduceOp::Sum),
            Call::broadcast(16, 8, 0),
            Call::broadcast(16, 8, 1),
            Call::broadcast(16, 4, 0),
            Call::broadcast(24, 8, 0),
            Call::shared_region(3, 8),
            Call::partitioned_region(8),
            Call::plain(Kind::SplitLocal),
            Call::plain(Kind::Fence),
        ];
        for (i, a) in calls.iter().enumerate() {
            for (j, b) in calls.iter().enumerate() {
                assert_eq!(i == j, a.words() == b.words(), "{a} and {b}");
            }
        }
    }

    #[test]
    fn a_call_reads_like_a_call() {
        let call = Call::allreduce(16, ScalarKind::F64, ReduceOp::Sum);
        assert_eq!(call.to_string(), "allreduce(Sum of 2 f64)");
        let call = Call::found([0x00ff_ff00, 7]);
        assert_eq!(call.to_string(), "something unknown (0xffff00, 0x7)");
        let call = Call::found([Kind::Allreduce as u64 | 0xff00, 7]);
        assert_eq!(call.to_string(), "allreduce(?)");
    }
}
