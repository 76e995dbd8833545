//! Barrier: a step without a payload.

use comm_api::CommError;

use crate::call::{Call, Kind};
use crate::mapped::Mapped;
use crate::step::Sequence;

#[inline]
pub(crate) fn barrier(sequence: &Sequence<Mapped>) -> Result<(), CommError> {
    let mut turn = sequence.begin(Kind::Barrier, Call::plain(Kind::Barrier))?;
    turn.publish();
    turn.meet()
}
