//! What a rank called: the fingerprint that travels with every call.

use std::fmt;

use comm_api::{ReduceOp, ScalarKind};

/// Which collective it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Collective {
    Barrier = 1,
    Allgatherv = 2,
    Allreduce = 3,
    Broadcast = 4,
}

impl Collective {
    pub(crate) const ALL: [Self; 4] = [
        Self::Barrier,
        Self::Allgatherv,
        Self::Allreduce,
        Self::Broadcast,
    ];

    /// Gives the name of the method, for errors.
    pub(crate) const fn operation(self) -> &'static str {
        match self {
            Self::Barrier => "barrier",
            Self::Allgatherv => "allgatherv",
            Self::Allreduce => "allreduce",
            Self::Broadcast => "broadcast",
        }
    }
}

/// Describes a call: two ranks agree on it if and only if all fields are equal.
///
/// Everything is exact but the counts of an allgatherv, of which a hash travels. The displacements
/// are a rank's own business.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Call {
    pub(crate) collective: Collective,
    pub(crate) reduction: Option<(ReduceOp, ScalarKind)>,
    pub(crate) elem_size: u64,
    pub(crate) root: u64,
    /// How many bytes all ranks together contribute, or each where all contribute alike.
    pub(crate) bytes: u64,
    pub(crate) counts: u64,
}

impl Call {
    pub(crate) const BARRIER: Self = Self {
        collective: Collective::Barrier,
        reduction: None,
        elem_size: 0,
        root: 0,
        bytes: 0,
        counts: 0,
    };

    /// Describes an allgatherv whose counts were checked: their bytes do not overflow.
    pub(crate) fn allgatherv(counts: &[usize], elem_size: usize) -> Self {
        let mut hash = 0x6a09_e667_f3bc_c908_u64;
        let mut total = 0_usize;
        for &count in counts {
            // Odd multiplier, then a shift down: every bit of a count reaches the next round.
            hash = (hash ^ count as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            hash ^= hash >> 32;
            total = total.saturating_add(count);
        }
        Self {
            collective: Collective::Allgatherv,
            elem_size: elem_size as u64,
            bytes: total.saturating_mul(elem_size) as u64,
            counts: hash,
            ..Self::BARRIER
        }
    }

    pub(crate) fn allreduce(bytes: usize, scalar: ScalarKind, op: ReduceOp) -> Self {
        Self {
            collective: Collective::Allreduce,
            reduction: Some((op, scalar)),
            elem_size: scalar.size() as u64,
            bytes: bytes as u64,
            ..Self::BARRIER
        }
    }

    pub(crate) fn broadcast(bytes: usize, elem_size: usize, root: usize) -> Self {
        Self {
            collective: Collective::Broadcast,
            elem_size: elem_size as u64,
            root: root as u64,
            bytes: bytes as u64,
            ..Self::BARRIER
        }
    }

    pub(crate) const fn operation(&self) -> &'static str {
        self.collective.operation()
    }
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.operation();
        let (bytes, elem_size) = (self.bytes, self.elem_size);
        let elements = bytes.checked_div(elem_size).unwrap_or(0);
        match (self.collective, self.reduction) {
            (Collective::Barrier, _) => f.write_str(name),
            (Collective::Allreduce, Some((op, scalar))) => {
                write!(f, "{name}({op} of {elements} {scalar})")
            }
            (Collective::Broadcast, _) => write!(
                f,
                "{name}({elements} elements of {elem_size} bytes from root {})",
                self.root
            ),
            _ => write!(
                f,
                "{name}({elements} elements of {elem_size} bytes in all, counts #{:016x})",
                self.counts
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_that_differ_in_anything_differ() {
        use ReduceOp::{Max, Min};
        use ScalarKind::{I64, U64};
        let calls = [
            Call::BARRIER,
            Call::allgatherv(&[1, 2], 8),
            Call::allgatherv(&[2, 1], 8),
            Call::allgatherv(&[3, 0], 8),
            Call::allgatherv(&[2, 4], 4),
            Call::allreduce(16, U64, Min),
            Call::allreduce(16, U64, Max),
            Call::allreduce(16, I64, Min),
            Call::allreduce(24, U64, Min),
            Call::broadcast(0, 1, 0),
            Call::broadcast(0, 1, 1),
            Call::broadcast(0, 2, 0),
            Call::broadcast(8, 1, 0),
        ];
        for (i, a) in calls.iter().enumerate() {
            for (j, b) in calls.iter().enumerate() {
                assert_eq!(i == j, a == b, "{a} and {b}");
            }
        }
    }

    #[test]
    fn a_call_reads_like_a_call() {
        let call = Call::allreduce(32, ScalarKind::F64, ReduceOp::Sum);
        assert_eq!(call.to_string(), "allreduce(Sum of 4 f64)");
        let call = Call::broadcast(24, 8, 2);
        assert_eq!(
            call.to_string(),
            "broadcast(3 elements of 8 bytes from root 2)"
        );
        assert_eq!(
            Call::broadcast(0, 0, 0).to_string(),
            "broadcast(0 elements of 0 bytes from root 0)"
        );
    }
}
