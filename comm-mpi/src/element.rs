//! Bytes as MPI words: the widest word that divides the element, so that counts stay small.
//!
//! The word depends only on the size of an element, which all ranks agree on: MPI requires the same type on
//! both ends. A buffer that is not aligned for the word is copied.

use std::borrow::Cow;

use comm_api::bytemuck::{Pod, cast_slice, pod_collect_to_vec, try_cast_slice, try_cast_slice_mut};
use ferrompi::MpiDatatype;

/// Marks a type that both MPI and `bytemuck` support.
pub(crate) trait Word: MpiDatatype + Pod {}

impl<T: MpiDatatype + Pod> Word for T {}

/// Names the word for elements of some size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Width {
    Eight,
    Four,
    One,
}

impl Width {
    #[inline]
    pub(crate) const fn of(elem_size: usize) -> Self {
        if elem_size == 0 {
            Self::One
        } else if elem_size.is_multiple_of(8) {
            Self::Eight
        } else if elem_size.is_multiple_of(4) {
            Self::Four
        } else {
            Self::One
        }
    }
}

/// Calls a generic method with the word of a width as its type: `by_width!(width, f::<W>(args))`.
macro_rules! by_width {
    ($width:expr, $this:ident.$method:ident::<W>($($argument:expr),* $(,)?)) => {
        match $width {
            $crate::element::Width::Eight => $this.$method::<u64>($($argument),*),
            $crate::element::Width::Four => $this.$method::<u32>($($argument),*),
            $crate::element::Width::One => $this.$method::<u8>($($argument),*),
        }
    };
}
pub(crate) use by_width;

/// Where empty buffers begin: the address of an empty slice may be the one that means "in place".
static NOWHERE: [u64; 1] = [0];

/// Views a buffer as words.
#[inline]
pub(crate) fn words<W: Word>(bytes: &[u8]) -> Cow<'_, [W]> {
    if bytes.is_empty() {
        return Cow::Borrowed(&cast_slice(&NOWHERE)[..0]);
    }
    match try_cast_slice(bytes) {
        Ok(words) => Cow::Borrowed(words),
        Err(_) => Cow::Owned(pod_collect_to_vec(bytes)),
    }
}

/// Lets `f` write a non-empty buffer as words; words that `f` does not write stay unchanged.
#[inline]
pub(crate) fn with_words<W: Word, R, E>(
    bytes: &mut [u8],
    f: impl FnOnce(&mut [W]) -> Result<R, E>,
) -> Result<R, E> {
    if let Ok(words) = try_cast_slice_mut(bytes) {
        return f(words);
    }
    let mut copy = pod_collect_to_vec(bytes);
    let result = f(&mut copy)?;
    bytes.copy_from_slice(cast_slice(&copy));
    Ok(result)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_word_is_the_widest_that_divides_the_element() {
        use Width::{Eight, Four, One};
        let widths = [0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 1000].map(Width::of);
        assert_eq!(
            widths,
            [
                One, One, One, One, Four, One, Eight, Four, Eight, Eight, Eight
            ]
        );
    }

    #[test]
    fn an_empty_buffer_has_an_address_of_its_own() {
        let empty = words::<u8>(&[]);
        assert!(empty.is_empty());
        assert_eq!(empty.as_ptr().addr() % 8, 0);
        assert!(words::<u64>(&[]).as_ptr().addr() > 4096);
    }

    #[test]
    fn misaligned_buffers_are_copied_there_and_back() {
        let mut room = [0_u64; 3];
        let bytes: &mut [u8] = comm_api::bytemuck::cast_slice_mut(&mut room);
        bytes[1..17].copy_from_slice(&[7; 16]);
        assert_eq!(*words::<u64>(&bytes[1..17]), [0x0707_0707_0707_0707; 2]);
        let done: Result<(), ()> = with_words(&mut bytes[1..17], |words: &mut [u64]| {
            words[1] = 0;
            Ok(())
        });
        assert_eq!(done, Ok(()));
        assert_eq!(bytes[..9], [0, 7, 7, 7, 7, 7, 7, 7, 7]);
        assert_eq!(bytes[9..], [0; 15]);
    }
}
