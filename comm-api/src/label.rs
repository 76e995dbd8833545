//! Labels that describe the elements of a call beyond their size.

use std::any::TypeId;
use std::cell::Cell;
use std::fmt;

use crate::element::{CommData, Reduce};
use crate::op::ScalarKind;

thread_local! {
    static LABEL: Cell<Label> = const { Cell::new(Label::NONE) };
}

/// Names the type of the elements of a call, in 16 bits.
///
/// The byte level of [`Communicator`](crate::Communicator) receives the size of an element, not its type. The typed methods
/// label their calls with the scalar type, a binding of another language with its own types, and a backend that compares calls
/// compares the labels too: ranks whose elements have equal sizes and different types get a
/// [`Mismatch`](crate::FailureKind::Mismatch). The label is a thread-local variable, so that it passes through every wrapper.
///
/// ```
/// use comm_api::{Label, ScalarKind};
///
/// assert_eq!(Label::of::<f64>(), Label::scalar(ScalarKind::F64));
/// assert_ne!(Label::of::<f64>(), Label::of::<u64>());
/// assert_eq!(Label::of::<[f64; 2]>(), Label::NONE);
/// Label::of::<f64>().on(|| assert_eq!(Label::here(), Label::of::<f64>()));
/// assert_eq!(Label::here(), Label::NONE);
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

    /// Labels elements of this type: with the scalar (`isize` and `usize` are the scalars of their width), or not at all.
    #[inline]
    #[must_use]
    pub fn of<T: CommData>() -> Self {
        macro_rules! find {
            ($($scalar:ty),+) => {
                // The compiler knows the answer for each type.
                $(if TypeId::of::<T>() == TypeId::of::<$scalar>() {
                    return Self::scalar(<$scalar as Reduce>::SCALAR);
                })+
            };
        }
        find!(f64, i32, u64, i64, u32, f32, u8, i8, u16, i16, usize, isize);
        Self::NONE
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
        let _before = self.put();
        call()
    }

    /// Labels every call that this thread makes until the guard is dropped.
    #[inline]
    pub(crate) fn put(self) -> Before {
        Before(LABEL.replace(self))
    }

    /// Returns the label for the current call of this thread.
    #[inline]
    #[must_use]
    pub fn here() -> Self {
        LABEL.get()
    }

    /// Returns the 16 bits on the wire.
    #[inline]
    #[must_use]
    pub const fn bits(self) -> u64 {
        self.0 as u64
    }

    /// Decodes the lowest 16 bits: any bits are a label.
    #[must_use]
    pub const fn from_bits(bits: u64) -> Self {
        #[expect(clippy::cast_possible_truncation, reason = "the lowest bits")]
        Self(bits as u16)
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
pub(crate) struct Before(Label);

impl Drop for Before {
    #[inline]
    fn drop(&mut self) {
        LABEL.set(self.0);
    }
}
