//! The program of the README: written once, for any number of ranks on any backend.
use comm_factory::api::{Communicator, CommunicatorExt, ReduceOp};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let comm = comm_factory::create_communicator()?;
    // Integrates 4 / (1 + x * x) over 0..1: each rank adds up its share of 1000 points.
    let mine = (0..1000_u32).skip(comm.rank()).step_by(comm.size());
    let heights = mine.map(|i| 4.0 / (1.0 + ((f64::from(i) + 0.5) / 1000.0).powi(2)));
    let pi = comm.allreduce_scalar(heights.sum::<f64>() / 1000.0, ReduceOp::Sum)?;
    if comm.rank() == 0 {
        println!("pi is {pi:.6}, from {} x {}", comm.size(), comm.name());
    }
    Ok(())
}
