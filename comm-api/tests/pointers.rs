//! One generic function on every kind of pointer to a communicator, and refusals through each.

mod common;

use std::sync::Arc;

use comm_api::{
    CommError, Communicator, CommunicatorExt, Operation, ReduceOp, ScalarKind,
    SharedMemoryProvider, SharedRegion,
};
use comm_local::LocalBackend;
use common::{Event, Recorder};

/// Uses every method a program has.
fn program<C: Communicator>(comm: &C) -> Result<(usize, Vec<f64>), CommError> {
    let mut gathered = [0.0; 3];
    comm.allgatherv(&[1.5, 2.5], &mut gathered, &[2], &[1])?;
    let mut sums = [0.0; 3];
    comm.allreduce(&gathered, &mut sums, ReduceOp::Sum)?;
    comm.allreduce_in_place(&mut sums, ReduceOp::Prod)?;
    comm.broadcast(&mut sums, 0)?;
    comm.barrier()?;
    let (mut all, counts) = comm.allgather_vec(&sums)?;
    assert_eq!(counts, [3]);
    let mut again = vec![0.0; 3];
    comm.allgather(&all, &mut again)?;
    all.push(comm.allreduce_scalar(again[2], ReduceOp::Max)?);
    all.push(comm.broadcast_value(7.0, 0)?);
    assert_eq!(comm.min_loc(4_u8)?, comm.max_loc(4_u8)?);
    Ok((comm.rank() + comm.size(), all))
}

#[test]
fn one_program_on_every_pointer() {
    let expected = Ok((1, vec![0.0, 1.5, 2.5, 2.5, 7.0]));
    let local = LocalBackend;
    let boxed: Box<dyn Communicator> = Box::new(local);
    let shared: Arc<dyn Communicator> = Arc::new(local);
    let object: &dyn Communicator = &local;
    assert_eq!(program(&local), expected);
    assert_eq!(program(&&local), expected);
    assert_eq!(program(&Box::new(local)), expected);
    assert_eq!(program(&Arc::new(local)), expected);
    assert_eq!(program(&boxed), expected);
    assert_eq!(program(&shared), expected);
    assert_eq!(program(&object), expected);
    assert_eq!(program(&&boxed), expected);
}

#[test]
fn typed_methods_on_an_object() -> Result<(), CommError> {
    fn on_a_reference(comm: &dyn Communicator) -> Result<[u32; 2], CommError> {
        let mut all = [0, 9];
        (&comm).allgatherv(&[4_u32], &mut all, &[1], &[0])?;
        (&comm).broadcast(&mut all, 0)?;
        let mut least = [0; 2];
        (&comm).allreduce(&all, &mut least, ReduceOp::Min)?;
        assert_eq!(comm.allreduce_scalar(3, ReduceOp::BitwiseOr)?, 3);
        Ok(least)
    }
    assert_eq!(on_a_reference(&LocalBackend)?, [4, 9]);
    let boxed = LocalBackend.split_local()?;
    assert_eq!(on_a_reference(&*boxed)?, [4, 9]);
    assert_eq!(on_a_reference(&boxed)?, [4, 9]);
    Ok(())
}

/// A pointer passes the call on, instead of making a copy of the buffer as the default does.
#[test]
fn a_reduction_in_place_stays_one_through_every_pointer() -> Result<(), CommError> {
    let inner = Arc::new(Recorder::new(0, 2));
    let boxed: Box<dyn Communicator> = Box::new(Arc::clone(&inner));
    let shared: Arc<dyn Communicator> = Arc::new(Arc::clone(&inner));
    let object: &dyn Communicator = &inner;
    boxed.allreduce_in_place(&mut [1.0, 2.0], ReduceOp::Sum)?;
    shared.allreduce_in_place(&mut [1.0, 2.0], ReduceOp::Sum)?;
    (&object).allreduce_in_place(&mut [1.0, 2.0], ReduceOp::Sum)?;
    let event = Event::InPlace {
        bytes: 16,
        scalar: ScalarKind::F64,
        op: ReduceOp::Sum,
    };
    assert_eq!(inner.events(), vec![event; 3]);
    Ok(())
}

#[test]
fn a_bitwise_reduction_of_floats_in_place_is_refused_and_announced() {
    let inner = Recorder::new(1, 2);
    let error = CommError::unsupported_reduction(
        Operation::Allreduce,
        ReduceOp::BitwiseOr,
        ScalarKind::F32,
    );
    let result = inner.allreduce_in_place(&mut [1.0_f32], ReduceOp::BitwiseOr);
    assert_eq!(result, Err(error.clone()));
    assert_eq!(
        inner.events(),
        [Event::Refused(Operation::Allreduce, error)]
    );
}

#[test]
fn refusals_reach_the_backend_through_every_pointer() {
    let bad_root = CommError::invalid_root(Operation::Broadcast, 5, 2);
    let announced = [Event::Refused(Operation::Broadcast, bad_root.clone())];
    let refuse = |comm: &dyn Fn(&mut [u8]) -> Result<(), CommError>| {
        assert_eq!(comm(&mut [1]), Err(bad_root.clone()));
    };

    let inner = Arc::new(Recorder::new(0, 2));
    let shared: Arc<dyn Communicator> = inner.clone();
    refuse(&|buf| shared.broadcast(buf, 5));
    assert_eq!(inner.events(), announced);

    let inner = Arc::new(Recorder::new(0, 2));
    let boxed: Box<dyn Communicator> = Box::new(inner.clone());
    refuse(&|buf| boxed.broadcast(buf, 5));
    assert_eq!(inner.events(), announced);

    let inner = Recorder::new(0, 2);
    refuse(&|buf| (&&inner).broadcast(buf, 5));
    assert_eq!(inner.events(), announced);

    let inner = Recorder::new(0, 2);
    let object: &dyn Communicator = &inner;
    refuse(&|buf| (&object).broadcast(buf, 5));
    assert_eq!(inner.events(), announced);
}

#[test]
fn memory_through_a_pointer() -> Result<(), CommError> {
    fn total<C: Communicator + SharedMemoryProvider>(comm: &C) -> Result<u64, CommError> {
        let mut region = comm.create_partitioned_region::<u64>(4)?;
        region.as_mut_slice().fill(comm.rank() as u64 + 3);
        region.fence()?;
        assert!(comm.is_leader());
        assert_eq!(comm.split_local()?.size(), 1);
        let mut gathered = comm.create_gathered_region::<u64>(2)?;
        gathered.as_mut_slice().fill(1);
        comm.exchange(&mut gathered)?;
        assert_eq!(gathered.as_slice(), [1; 2]);
        Ok(region.as_slice().iter().sum())
    }
    assert_eq!(total(&LocalBackend)?, 12);
    assert_eq!(total(&&LocalBackend)?, 12);
    assert_eq!(total(&Arc::new(LocalBackend))?, 12);
    Ok(())
}
