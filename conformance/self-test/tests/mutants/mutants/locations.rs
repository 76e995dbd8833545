//! Wrong answers to the question which rank has the smallest or the largest value.

use comm_api::{CommError, Communicator, ReduceOp, ScalarKind};

use comm_conformance::mutant::Mutation;
use comm_conformance::reference::Reference;

use super::results::everybody;

/// If several ranks have the value, names the highest one.
///
/// The ranks compute the minimum of their numbers; a rank without the value sends the largest number there
/// is.
pub(crate) struct NamesTheHighestRank;

impl Mutation<Reference> for NamesTheHighestRank {
    fn allreduce(
        &self,
        comm: &Reference,
        send: &[u8],
        recv: &mut [u8],
        scalar: ScalarKind,
        op: ReduceOp,
    ) -> Result<(), CommError> {
        comm.allreduce_bytes(send, recv, scalar, op)?;
        let all = everybody(comm, send)?;
        let mut numbers = all.iter().enumerate();
        let has_it = |(rank, sent): (usize, &Vec<u8>)| *sent == rank.to_ne_bytes();
        let is_asked = numbers
            .clone()
            .all(|(rank, sent)| has_it((rank, sent)) || *sent == usize::MAX.to_ne_bytes());
        let highest = numbers.rfind(|&number| has_it(number));
        if let (true, ReduceOp::Min, Some((rank, _))) = (is_asked, op, highest) {
            recv.copy_from_slice(&rank.to_ne_bytes());
        }
        Ok(())
    }
}

/// Orders a number before a NaN if a rank has a single value.
pub(crate) struct PrefersNumbers;

impl Mutation<Reference> for PrefersNumbers {
    fn allreduce(
        &self,
        comm: &Reference,
        send: &[u8],
        recv: &mut [u8],
        scalar: ScalarKind,
        op: ReduceOp,
    ) -> Result<(), CommError> {
        comm.allreduce_bytes(send, recv, scalar, op)?;
        let all = everybody(comm, send)?;
        let value = |sent: &Vec<u8>| <[u8; 8]>::try_from(&sent[..]).map(f64::from_ne_bytes);
        if scalar == ScalarKind::F64 && op == ReduceOp::Min && send.len() == 8 {
            let values = all.iter().flat_map(value);
            let numbers = values.filter(|value| !value.is_nan());
            if let Some(smallest) = numbers.min_by(f64::total_cmp) {
                recv.copy_from_slice(&smallest.to_ne_bytes());
            }
        }
        Ok(())
    }
}
