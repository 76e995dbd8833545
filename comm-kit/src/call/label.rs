//! Labels that describe the elements of a call beyond their size.
//!
//! The byte level of [`Communicator`](comm_api::Communicator) knows only the size of an element. In Rust, all
//! ranks run the same code, so a type that differs on one rank is no plausible accident. In a language
//! without static types it is. Bindings for such a language label their calls, and [`Call`](crate::Call)
//! carries the label, so that elements of equal size and different types are reported as a mismatch. The
//! label uses spare bits, and costs the read of one thread-local variable.

use std::cell::Cell;
use std::fmt;

use comm_api::ScalarKind;

thread_local! {
    static LABEL: Cell<Label> = const { Cell::new(Label::NONE) };
}

/// Names the type of the elements of a call, in 16 bits.
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

/// The smallest label that is not one of a scalar.
const FIRST_HASH: u64 = 0x100;

impl Label {
    /// No label: only the size of the elements is compared.
    pub const NONE: Self = Self(0);

    /// Labels elements of this scalar type.
    #[inline]
    #[must_use]
    pub const fn scalar(kind: ScalarKind) -> Self {
        Self(kind as u16 + 1)
    }

    /// Labels elements of any other type, given a hash of the type. About one in 65,000 pairs of different
    /// types gets the same label.
    #[must_use]
    pub const fn hashed(hash: u64) -> Self {
        let folded = hash ^ hash >> 32;
        #[expect(
            clippy::cast_possible_truncation,
            reason = "below 0x1_0000, by the remainder"
        )]
        Self((FIRST_HASH + folded % (0x1_0000 - FIRST_HASH)) as u16)
    }

    /// Calls `f`, and labels every call that this thread makes inside it.
    #[inline]
    pub fn on<T>(self, call: impl FnOnce() -> T) -> T {
        let _before = Before(LABEL.replace(self));
        call()
    }

    /// Returns the label for the current call of this thread.
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

    /// Returns the separator between the label and the next item in a list.
    pub(crate) fn comma(self) -> &'static str {
        if self == Self::NONE { "" } else { "," }
    }
}

/// Formats the label as an item in the list of arguments: nothing, `, f64`, or `, dtype #1a2b`.
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

/// Restores the outer label, also when a panic unwinds.
struct Before(Label);

impl Drop for Before {
    #[inline]
    fn drop(&mut self) {
        LABEL.set(self.0);
    }
}
