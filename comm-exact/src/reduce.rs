//! Sums over all ranks: integers add up to the same bits in any order.

use comm_api::bytemuck::{cast_mut, cast_ref, cast_slice};
use comm_api::{Argument, CommError, Communicator, Operation, ReduceOp, memory};

use crate::sum::{ExactSum, Words};

impl ExactSum {
    /// Returns the sum of the accumulators of all ranks, on every rank.
    ///
    /// ```
    /// use comm_exact::ExactSum;
    ///
    /// # fn main() -> Result<(), comm_api::CommError> {
    /// # let comm = comm_local::LocalBackend;
    /// let mut sum = ExactSum::new();
    /// sum.extend(&[0.1; 10]);
    /// assert_eq!(sum.allreduce(&comm)?.value(), 1.0);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// As [`Communicator::allreduce`].
    pub fn allreduce<C: Communicator>(&self, comm: &C) -> Result<Self, CommError> {
        let mut mine = *self;
        mine.settle();
        let mut all = Self::new();
        comm.allreduce::<i64>(
            cast_ref::<_, Words>(&mine),
            cast_mut::<_, Words>(&mut all),
            ReduceOp::Sum,
        )?;
        Ok(all)
    }
}

/// Reduces many sums at once: `sums` are replaced by those over all ranks, and `totals` by their values.
///
/// A single collective, whatever the number of sums.
///
/// ```
/// use comm_exact::{ExactSum, exact_sums};
///
/// # fn main() -> Result<(), comm_api::CommError> {
/// # let comm = comm_local::LocalBackend;
/// let mut sums = [ExactSum::new(); 2];
/// let mut totals = [0.0; 2];
/// for x in [1.0, 2.0, 4.0] {
///     sums[0].add(x);
///     sums[1].add_product(x, x);
/// }
/// exact_sums(&comm, &mut sums, &mut totals)?;
/// assert_eq!(totals, [7.0, 21.0]);
/// # Ok(())
/// # }
/// ```
///
/// # Errors
///
/// [`CommError::InvalidBufferSize`] if `sums` and `totals` differ in length. [`CommError::AllocationFailed`]
/// if this rank has too little memory for the received data; the others then get
/// [`Refused`](comm_api::FailureKind::Refused). Otherwise as [`Communicator::allreduce`]. After an error the
/// values of `sums` are unchanged.
pub fn exact_sums<C: Communicator>(
    comm: &C,
    sums: &mut [ExactSum],
    totals: &mut [f64],
) -> Result<(), CommError> {
    const OPERATION: Operation = Operation::Other("exact_sums");
    let refused = |error| {
        comm.refuse(OPERATION, &error);
        Err(error)
    };
    if sums.len() != totals.len() {
        return refused(CommError::invalid_buffer_size(
            OPERATION,
            Argument::Other("totals"),
            sums.len(),
            totals.len(),
        ));
    }
    let words = sums.len() * size_of::<Words>() / size_of::<i64>();
    let mut all = match memory::zeroed_vec::<i64>(words) {
        Ok(all) => all,
        Err(error) => return refused(error),
    };
    sums.iter_mut().for_each(ExactSum::settle);
    comm.allreduce::<i64>(cast_slice(sums), &mut all, ReduceOp::Sum)?;
    sums.copy_from_slice(cast_slice(&all));
    for (total, sum) in totals.iter_mut().zip(sums) {
        *total = sum.value();
    }
    Ok(())
}
