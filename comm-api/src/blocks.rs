//! Where the blocks of the ranks lie in a buffer.

/// Says where the block of each rank lies in a buffer, in elements: that of rank `r` has `counts[r]` of them, from `displs[r]` on.
///
/// ```
/// use comm_api::{Blocks, Communicator};
///
/// # fn main() -> Result<(), comm_api::CommError> {
/// let mut recv = [0; 4];
/// comm_local::LocalBackend.allgatherv_bytes(&[7, 8], &mut recv, Blocks::new(&[2], &[1]), 1)?;
/// assert_eq!(recv, [0, 7, 8, 0]);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Blocks<'a> {
    /// How many elements each rank has.
    pub counts: &'a [usize],
    /// Where they begin.
    pub displs: &'a [usize],
}

impl<'a> Blocks<'a> {
    /// Takes the two lists as they are: [`check`](mod@crate::check) looks at them.
    #[inline]
    #[must_use]
    pub const fn new(counts: &'a [usize], displs: &'a [usize]) -> Self {
        Self { counts, displs }
    }
}
