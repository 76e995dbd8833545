//! The program of the README: written once, for any number of ranks on any backend.
use std::error::Error;

use comm_factory::api::{CommError, Communicator, ReduceOp, SharedMemoryProvider, SharedRegion};

/// Integrates 4 / (1 + x * x) over 0..1: every rank takes its share of the points.
fn pi<C: Communicator + SharedMemoryProvider>(comm: &C) -> Result<f64, CommError> {
    let mut points = comm.create_shared_region::<f64>(1000)?;
    if comm.is_leader() {
        for (point, i) in points.as_mut_slice().iter_mut().zip(0_u32..) {
            *point = (f64::from(i) + 0.5) / 1000.0;
        }
    }
    points.fence()?; // what the leader wrote, all ranks of the node can read
    let mine = points.as_slice()[comm.rank()..].iter().step_by(comm.size());
    let share: f64 = mine.map(|x| 0.004 / (1.0 + x * x)).sum();
    let mut total = [0.0];
    comm.allreduce(&[share], &mut total, ReduceOp::Sum)?;
    Ok(total[0])
}

fn main() -> Result<(), Box<dyn Error>> {
    let comm = comm_factory::create_communicator()?;
    let pi = pi(&comm)?;
    if comm.rank() == 0 {
        println!("pi is {pi:.6}, from {} x {}", comm.size(), comm.name());
    }
    Ok(())
}
