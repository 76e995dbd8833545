//! Pairs of functions that must compile to the same instructions: a generic caller on
//! [`LocalBackend`], and its twin written by hand, the checks and the copy, without any communicator.
//!
//! A library, so that nothing is known of the arguments, and nothing is inlined into `main`.
//! `main.rs` beside it compares what comes out.

#![expect(
    missing_docs,
    clippy::missing_errors_doc,
    clippy::must_use_candidate,
    reason = "nobody calls these; only their instructions are read"
)]

use comm_api::{CommError, Communicator, ReduceOp, ScalarKind, check};
use comm_local::LocalBackend;

fn rank_and_size<C: Communicator>(comm: &C) -> usize {
    comm.rank() * 1000 + comm.size()
}

fn barriers<C: Communicator>(comm: &C, x: u64) -> Result<u64, CommError> {
    comm.barrier()?;
    let y = x ^ 0x5555;
    comm.barrier()?;
    Ok(y)
}

fn broadcast<C: Communicator>(comm: &C, buf: &mut [f64], root: usize) -> Result<(), CommError> {
    comm.broadcast(buf, root)
}

fn allreduce<C: Communicator>(comm: &C, send: &[f64], recv: &mut [f64]) -> Result<(), CommError> {
    comm.allreduce(send, recv, ReduceOp::Sum)
}

fn allgatherv<C: Communicator>(
    comm: &C,
    send: &[f64],
    recv: &mut [f64],
    counts: &[usize],
    displs: &[usize],
) -> Result<(), CommError> {
    comm.allgatherv(send, recv, counts, displs)
}

#[inline(never)]
pub fn generic_rank_and_size() -> usize {
    rank_and_size(&LocalBackend)
}

#[inline(never)]
pub fn twin_rank_and_size() -> usize {
    1
}

#[inline(never)]
pub fn generic_barriers(x: u64) -> Result<u64, CommError> {
    barriers(&LocalBackend, x)
}

#[inline(never)]
pub fn twin_barriers(x: u64) -> Result<u64, CommError> {
    Ok(x ^ 0x5555)
}

#[inline(never)]
pub fn generic_broadcast(buf: &mut [f64], root: usize) -> Result<(), CommError> {
    broadcast(&LocalBackend, buf, root)
}

#[inline(never)]
pub fn twin_broadcast(_buf: &mut [f64], root: usize) -> Result<(), CommError> {
    check::broadcast(1, root)
}

#[inline(never)]
pub fn generic_allreduce(send: &[f64], recv: &mut [f64]) -> Result<(), CommError> {
    allreduce(&LocalBackend, send, recv)
}

#[inline(never)]
pub fn twin_allreduce(send: &[f64], recv: &mut [f64]) -> Result<(), CommError> {
    check::allreduce(send.len(), recv.len(), ScalarKind::F64, ReduceOp::Sum)?;
    recv.copy_from_slice(send);
    Ok(())
}

#[inline(never)]
pub fn generic_allgatherv(
    send: &[f64],
    recv: &mut [f64],
    counts: &[usize],
    displs: &[usize],
) -> Result<(), CommError> {
    allgatherv(&LocalBackend, send, recv, counts, displs)
}

#[inline(never)]
pub fn twin_allgatherv(
    send: &[f64],
    recv: &mut [f64],
    counts: &[usize],
    displs: &[usize],
) -> Result<(), CommError> {
    check::allgatherv(0, 1, send.len(), recv.len(), counts, displs)?;
    recv[displs[0]..displs[0] + counts[0]].copy_from_slice(send);
    Ok(())
}
