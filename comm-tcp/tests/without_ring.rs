//! The contract of every backend, checked on this one without its ring: all bytes of large calls pass through
//! rank 0.

mod seat;

use std::process::ExitCode;

use comm_conformance::{Failure, Model, Seat, Subject};
use comm_tcp::TcpBackend;

struct WithoutRing;

impl Subject for WithoutRing {
    type Comm = TcpBackend;
    const NAME: &'static str = "tcp-without-ring";
    const MODEL: Model = Model::TCP;

    fn open(seat: &Seat) -> Result<TcpBackend, Failure> {
        seat::open(seat, false)
    }
}

fn main() -> ExitCode {
    // The smallest world in which a ring makes a difference.
    comm_conformance::main_in::<WithoutRing>(&[3])
}
