//! The fingerprint of a call: two words that every call sends along.

use std::fmt;

use comm_api::{Label, Operation, ReduceOp, ScalarKind};

/// Names a collective.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
enum Kind {
    Barrier = 1,
    Allgatherv = 2,
    Allreduce = 3,
    Broadcast = 4,
    SharedRegion = 5,
    PartitionedRegion = 6,
    SplitLocal = 7,
    Fence = 8,
    GatheredRegion = 9,
    Exchange = 10,
}

impl Kind {
    /// Decodes a code. A match, so that the name of a known call costs nothing.
    #[inline]
    const fn from_code(code: u64) -> Option<Self> {
        Some(match code {
            1 => Self::Barrier,
            2 => Self::Allgatherv,
            3 => Self::Allreduce,
            4 => Self::Broadcast,
            5 => Self::SharedRegion,
            6 => Self::PartitionedRegion,
            7 => Self::SplitLocal,
            8 => Self::Fence,
            9 => Self::GatheredRegion,
            10 => Self::Exchange,
            _ => return None,
        })
    }

    #[inline]
    const fn operation(self) -> Operation {
        match self {
            Self::Barrier => Operation::Barrier,
            Self::Allgatherv => Operation::Allgatherv,
            Self::Allreduce => Operation::Allreduce,
            Self::Broadcast => Operation::Broadcast,
            Self::SharedRegion => Operation::CreateSharedRegion,
            Self::PartitionedRegion => Operation::CreatePartitionedRegion,
            Self::SplitLocal => Operation::SplitLocal,
            Self::Fence => Operation::Fence,
            Self::GatheredRegion => Operation::CreateGatheredRegion,
            Self::Exchange => Operation::Exchange,
        }
    }
}

/// Describes a call; two ranks agree on a call if and only if its words are equal.
///
/// # Contract
///
/// The first word holds, exactly: the collective (8 bits), the root of a broadcast or the scalar and
/// operation of a reduction (24 bits), and the size of an element in bytes (32 bits). The second word is the
/// number of elements, exactly, or the number of the exchanged region. Two things do not fit and are
/// represented by a 64-bit hash, which also covers the exact element size: the counts of an `allgatherv` that
/// are not all equal, and the count of elements of 4 GiB or more, whose size is all ones in the first word. A
/// backend whose soundness depends on these numbers compares the numbers themselves.
///
/// Displacements are local to each rank and not part of the fingerprint.
///
/// An `allgatherv` and a `broadcast` also carry the [`Label`] of their elements, 16 bits, so `f64` is not `u64`: an allgatherv
/// in place of the root, a broadcast above the number of elements.
///
/// ```
/// use comm_api::{ReduceOp, ScalarKind};
/// use comm_kit::Call;
///
/// let call = Call::allreduce(24, ScalarKind::F64, ReduceOp::Sum);
/// assert_eq!(call.to_string(), "allreduce(Sum of 3 f64)");
/// assert_eq!(Call::from_words(call.words()), call);
/// assert_ne!(call, Call::allreduce(32, ScalarKind::F64, ReduceOp::Sum));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Call {
    words: [u64; 2],
}

/// The element size of a call whose size does not fit into the first word.
const HUGE: u64 = u32::MAX as u64;
/// The bit position of the label of a broadcast, above the number of elements.
const LABEL_SHIFT: u32 = 48;
/// Marks an `allgatherv` whose counts are all equal, above its label: the count itself is then sent, and
/// messages show it.
const EQUAL_COUNTS: u64 = 1 << 16;

impl Call {
    /// Describes a `barrier`.
    #[must_use]
    pub const fn barrier() -> Self {
        Self::plain(Kind::Barrier)
    }

    /// Describes a `split_local`.
    #[must_use]
    pub const fn split_local() -> Self {
        Self::plain(Kind::SplitLocal)
    }

    /// Describes a `fence`.
    #[must_use]
    pub const fn fence() -> Self {
        Self::plain(Kind::Fence)
    }

    /// Describes an `allgatherv`.
    #[inline]
    #[must_use]
    pub fn allgatherv(counts: &[usize], elem_size: usize) -> Self {
        let label = Label::here().bits();
        if let [first, others @ ..] = counts
            && (elem_size as u64) < HUGE
            && others.iter().all(|count| count == first)
        {
            let detail = label | EQUAL_COUNTS;
            return Self::new(Kind::Allgatherv, detail, elem_size, *first as u64);
        }
        let hash = counts
            .iter()
            .fold(mix(0, elem_size as u64), |hash, &count| {
                mix(hash, count as u64)
            });
        Self::new(Kind::Allgatherv, label, elem_size, hash)
    }

    /// Describes an `allreduce` of `bytes` bytes.
    #[inline]
    #[must_use]
    pub fn allreduce(bytes: usize, scalar: ScalarKind, op: ReduceOp) -> Self {
        let detail = scalar as u64 | (op as u64) << 8;
        let count = bytes >> scalar.size().trailing_zeros();
        Self::new(Kind::Allreduce, detail, scalar.size(), count as u64)
    }

    /// Describes a `broadcast` of `bytes` bytes from `root`.
    #[inline]
    #[must_use]
    pub fn broadcast(bytes: usize, elem_size: usize, root: usize) -> Self {
        // No communicator has more ranks than this.
        let root = (root as u64).min(0xff_ffff);
        let count = if elem_size.is_power_of_two() {
            bytes >> elem_size.trailing_zeros()
        } else {
            bytes.checked_div(elem_size).unwrap_or(0)
        };
        let mut call = Self::counted(Kind::Broadcast, root, elem_size, count);
        // No buffer in any address space has a count that reaches these bits.
        call.words[1] ^= Label::here().bits() << LABEL_SHIFT;
        call
    }

    /// Describes a `create_shared_region`.
    #[must_use]
    pub fn shared_region(count: usize, elem_size: usize) -> Self {
        Self::counted(Kind::SharedRegion, 0, elem_size, count)
    }

    /// Describes a `create_partitioned_region`; each rank passes a count of its own.
    #[must_use]
    pub fn partitioned_region(elem_size: usize) -> Self {
        Self::counted(Kind::PartitionedRegion, 0, elem_size, 0)
    }

    /// Describes a `create_gathered_region`; each rank passes a count of its own.
    #[must_use]
    pub fn gathered_region(elem_size: usize) -> Self {
        Self::counted(Kind::GatheredRegion, 0, elem_size, 0)
    }

    /// Describes an `exchange` of the region that was created at this position in the sequence of its
    /// communicator.
    #[inline]
    #[must_use]
    pub const fn exchange(number: u64) -> Self {
        Self {
            words: [Kind::Exchange as u64, number],
        }
    }

    const fn plain(kind: Kind) -> Self {
        Self {
            words: [kind as u64, 0],
        }
    }

    #[inline]
    fn counted(kind: Kind, detail: u64, elem_size: usize, count: usize) -> Self {
        let extent = if (elem_size as u64) < HUGE {
            count as u64
        } else {
            mix(mix(0, elem_size as u64), count as u64)
        };
        Self::new(kind, detail, elem_size, extent)
    }

    #[inline]
    fn new(kind: Kind, detail: u64, elem_size: usize, extent: u64) -> Self {
        let elem_size = (elem_size as u64).min(HUGE);
        Self {
            words: [kind as u64 | detail << 8 | elem_size << 32, extent],
        }
    }

    /// Returns the words that are sent.
    #[inline]
    #[must_use]
    pub const fn words(self) -> [u64; 2] {
        self.words
    }

    /// Decodes words from another rank. Any words are accepted; unknown ones become an unknown call.
    #[inline]
    #[must_use]
    pub const fn from_words(words: [u64; 2]) -> Self {
        Self { words }
    }

    /// Returns the name of the method, as errors show it.
    #[inline]
    #[must_use]
    pub fn operation(self) -> Operation {
        self.kind()
            .map_or(Operation::Other("unknown"), Kind::operation)
    }

    /// Returns how this call may differ from another one that is displayed the same: what was sent as a hash
    /// cannot be shown.
    pub(crate) fn hidden(self) -> &'static str {
        let is_huge = self.words[0] >> 32 == HUGE;
        match self.kind() {
            Some(Kind::Allgatherv) if !is_huge => " with other counts",
            _ if is_huge => " of another size or number",
            _ => " with other arguments",
        }
    }

    #[inline]
    const fn kind(self) -> Option<Kind> {
        Kind::from_code(self.words[0] & 0xff)
    }
}

/// Mixes a number into a hash: an odd multiplier, then a shift down, so that every bit of the number reaches
/// the next round. This is part of the wire format and must not change.
#[inline]
const fn mix(hash: u64, number: u64) -> u64 {
    let mixed = (hash ^ number ^ 0x243f_6a88_85a3_08d3).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed ^ mixed >> 29
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [word, extent] = self.words;
        let Some(kind) = self.kind() else {
            return write!(f, "something unknown ({word:#x}, {extent:#x})");
        };
        let name = kind.operation();
        let (detail, elem_size) = (word >> 8 & 0xff_ffff, word >> 32);
        let size = Size(elem_size);
        let root = Root((kind == Kind::Broadcast).then_some(detail));
        match kind {
            Kind::Barrier | Kind::SplitLocal | Kind::Fence => name.fmt(f),
            Kind::Allreduce => {
                let mut scalars = ScalarKind::ALL.into_iter();
                let scalar = scalars.find(|&scalar| scalar as u64 == detail & 0xff);
                let op = ReduceOp::ALL
                    .into_iter()
                    .find(|&op| op as u64 == detail >> 8);
                match scalar.zip(op) {
                    Some((scalar, op)) => write!(f, "{name}({op} of {extent} {scalar})"),
                    None => write!(f, "{name}(?)"),
                }
            }
            Kind::Exchange => write!(f, "{name}(region {extent})"),
            Kind::Allgatherv => {
                let label = Label::from_bits(detail);
                if detail & EQUAL_COUNTS == 0 {
                    return write!(f, "{name}(elements of {size}{label})");
                }
                let comma = comma(label);
                write!(
                    f,
                    "{name}({extent} elements of {size}{label}{comma} from each rank)"
                )
            }
            _ if elem_size == HUGE => write!(f, "{name}(elements of {size}{root})"),
            Kind::PartitionedRegion | Kind::GatheredRegion => {
                write!(f, "{name}(elements of {size})")
            }
            Kind::Broadcast => {
                let (label, count) = (extent >> LABEL_SHIFT, extent & !(u64::MAX << LABEL_SHIFT));
                let label = Label::from_bits(label);
                let comma = comma(label);
                write!(f, "{name}({count} elements of {size}{label}{comma}{root})")
            }
            Kind::SharedRegion => write!(f, "{name}({extent} elements of {size})"),
        }
    }
}

/// Returns the separator between the label and the next item in a list.
fn comma(label: Label) -> &'static str {
    if label == Label::NONE { "" } else { "," }
}

/// Formats an element size of the first word.
struct Size(u64);

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            HUGE => f.write_str("4 GiB or more"),
            1 => f.write_str("1 byte"),
            size => write!(f, "{size} bytes"),
        }
    }
}

/// Formats the root of a call that has one.
struct Root(Option<u64>);

impl fmt::Display for Root {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.map_or(Ok(()), |root| write!(f, " from root {root}"))
    }
}

#[cfg(test)]
mod tests;
