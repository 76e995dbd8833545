//! Barrier: a step without a payload.

use comm_api::CommError;
use comm_kit::Call;

use crate::protocol::step::Sequence;

#[inline]
#[track_caller]
pub(crate) fn barrier(sequence: &Sequence) -> Result<(), CommError> {
    let mut turn = sequence.begin(Call::barrier())?;
    turn.publish();
    turn.meet()
}
