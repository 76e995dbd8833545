//! Large calls without a ring: as small calls through rank 0, piece by piece.
//!
//! Slower than the ring by far, because all bytes of all ranks pass one machine, but right: some
//! networks let every rank reach rank 0 and no other.

use std::ops::Range;

use super::{Algorithm, Load};
use crate::collective::Failure;
use crate::engine::Engine;
use crate::member::Outlook;

impl Engine {
    /// Repeats a small call for every piece of a large one, each of whole elements of `size` bytes.
    ///
    /// With the first piece all ranks learn whether all made the same call. From then on nobody is waited for to
    /// enter, but for bytes, as in the middle of any large call.
    pub(crate) fn in_pieces(
        &mut self,
        load: Load,
        size: usize,
        mut small: impl FnMut(&mut Self, Range<usize>) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let (bytes, most) = (load.bytes(), Algorithm::piece(load, self.size, size));
        let moved = (0..bytes).step_by(most).try_for_each(|start| {
            small(self, start..bytes.min(start + most))?;
            self.outlook = Outlook::Moving;
            Ok(())
        });
        self.outlook = Outlook::Entering;
        moved
    }
}
