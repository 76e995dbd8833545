//! The methods of a communicator that wraps another one.

/// Implements the methods of `comm_api::Communicator`: each calls the same method of the communicator that `$each` finds.
macro_rules! forward_to {
    ($each:ident) => {
        #[inline]
        fn rank(&self) -> usize {
            $each!(self, comm => comm.rank())
        }

        #[inline]
        fn size(&self) -> usize {
            $each!(self, comm => comm.size())
        }

        #[inline]
        fn barrier(&self) -> Result<(), CommError> {
            $each!(self, comm => comm_api::Communicator::barrier(comm))
        }

        fn abort(&self, code: i32) -> ! {
            $each!(self, comm => comm_api::Communicator::abort(comm, code))
        }

        #[inline]
        fn allgatherv_bytes(
            &self,
            send: &[u8],
            recv: &mut [u8],
            from: comm_api::Blocks<'_>,
            elem_size: usize,
        ) -> Result<(), CommError> {
            $each!(self, comm => comm.allgatherv_bytes(send, recv, from, elem_size))
        }

        #[inline]
        fn allreduce_bytes(
            &self,
            send: &[u8],
            recv: &mut [u8],
            scalar: ScalarKind,
            op: ReduceOp,
        ) -> Result<(), CommError> {
            $each!(self, comm => comm.allreduce_bytes(send, recv, scalar, op))
        }

        #[inline]
        fn allreduce_in_place_bytes(
            &self,
            buf: &mut [u8],
            scalar: ScalarKind,
            op: ReduceOp,
        ) -> Result<(), CommError> {
            $each!(self, comm => comm.allreduce_in_place_bytes(buf, scalar, op))
        }

        #[inline]
        fn broadcast_bytes(
            &self,
            buf: &mut [u8],
            elem_size: usize,
            root: usize,
        ) -> Result<(), CommError> {
            $each!(self, comm => comm.broadcast_bytes(buf, elem_size, root))
        }

        fn refuse(&self, operation: comm_api::Operation, error: &CommError) {
            $each!(self, comm => comm.refuse(operation, error));
        }

        #[inline]
        fn allgatherv<T: comm_api::CommData>(
            &self,
            send: &[T],
            recv: &mut [T],
            counts: &[usize],
            displs: &[usize],
        ) -> Result<(), CommError> {
            $each!(self, comm => comm_api::Communicator::allgatherv(comm, send, recv, counts, displs))
        }

        #[inline]
        fn allreduce<T: Reduce>(
            &self,
            send: &[T],
            recv: &mut [T],
            op: ReduceOp,
        ) -> Result<(), CommError> {
            $each!(self, comm => comm_api::Communicator::allreduce(comm, send, recv, op))
        }

        #[inline]
        fn allreduce_in_place<T: Reduce>(
            &self,
            buf: &mut [T],
            op: ReduceOp,
        ) -> Result<(), CommError> {
            $each!(self, comm => comm_api::Communicator::allreduce_in_place(comm, buf, op))
        }

        #[inline]
        fn broadcast<T: comm_api::CommData>(
            &self,
            buf: &mut [T],
            root: usize,
        ) -> Result<(), CommError> {
            $each!(self, comm => comm_api::Communicator::broadcast(comm, buf, root))
        }
    };
}

pub(crate) use forward_to;
