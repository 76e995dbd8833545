//! Barrier: a step without a payload.

use comm_api::CommError;

use crate::call::{Call, Kind};
use crate::step::Sequence;

#[inline]
pub(crate) fn barrier(sequence: &Sequence) -> Result<(), CommError> {
    let mut turn = sequence.begin(Kind::Barrier, Call::plain(Kind::Barrier))?;
    turn.publish();
    turn.meet()
}
