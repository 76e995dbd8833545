//! What the elements of a call are, where the caller knows more than their size.
//!
//! The byte level of [`Communicator`](comm_api::Communicator) is told how large an element is. A
//! program in Rust cannot get its type wrong on one rank only by accident: all ranks run the same
//! code. A language without types can. Whoever binds one labels its calls, and [`Call`](crate::Call)
//! carries the label, so that ranks whose elements have one size and different meanings find a
//! mismatch. The label travels in bits that are unused, and costs the look at one variable of the thread.

use std::cell::Cell;
use std::fmt;

use comm_api::ScalarKind;

thread_local! {
    static LABEL: Cell<Label> = const { Cell::new(Label::NONE) };
}

/// Names what the elements of a call are, in 16 bits.
///
/// ```
/// use comm_api::ScalarKind;
/// use comm_kit::{Call, Label};
///
/// let floats = Label::scalar(ScalarKind::F64).on(|| Call::broadcast(24, 8, 0));
/// let integers = Label::scalar(ScalarKind::I64).on(|| Call::broadcast(24, 8, 0));
/// assert_ne!(floats, integers);
/// assert_eq!(floats.to_string(), "broadcast(3 elements of 8 bytes, f64, from root 0)");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Label(u16);

/// The labels below are those of scalars.
const FIRST_HASH: u64 = 0x100;

impl Label {
    /// Says nothing: only the size of the elements is compared.
    pub const NONE: Self = Self(0);

    /// Says that the elements are these scalars.
    #[inline]
    #[must_use]
    pub const fn scalar(kind: ScalarKind) -> Self {
        Self(kind as u16 + 1)
    }

    /// Says that the elements are something else, of which `hash` is a hash. Of 65,000 pairs of such
    /// labels one is the same by chance.
    #[must_use]
    pub const fn hashed(hash: u64) -> Self {
        let folded = hash ^ hash >> 32;
        #[expect(
            clippy::cast_possible_truncation,
            reason = "below 0x1_0000, by the remainder"
        )]
        Self((FIRST_HASH + folded % (0x1_0000 - FIRST_HASH)) as u16)
    }

    /// Makes a call whose elements are of this kind; what this thread calls inside carries the label.
    #[inline]
    pub fn on<T>(self, call: impl FnOnce() -> T) -> T {
        let _before = Before(LABEL.replace(self));
        call()
    }

    /// Returns the label of the call that this thread makes.
    #[inline]
    pub(crate) fn here() -> Self {
        LABEL.get()
    }

    #[inline]
    pub(crate) const fn bits(self) -> u64 {
        self.0 as u64
    }

    /// Takes the lowest 16 bits.
    pub(crate) const fn from_bits(bits: u64) -> Self {
        #[expect(clippy::cast_possible_truncation, reason = "the lowest bits")]
        Self(bits as u16)
    }

    /// Returns what stands between the label and what follows it in a list.
    pub(crate) fn comma(self) -> &'static str {
        if self == Self::NONE { "" } else { "," }
    }
}

/// Shows the label as a part of the list of what a call was given: nothing, `, f64`, or `, dtype #1a2b`.
impl fmt::Display for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut scalars = ScalarKind::ALL.into_iter();
        match scalars.find(|&kind| Self::scalar(kind) == *self) {
            Some(kind) => write!(f, ", {kind}"),
            None if *self == Self::NONE => Ok(()),
            None => write!(f, ", dtype #{:04x}", self.0),
        }
    }
}

/// Puts the label of the call outside back, also when a panic unwinds.
struct Before(Label);

impl Drop for Before {
    #[inline]
    fn drop(&mut self) {
        LABEL.set(self.0);
    }
}
