//! The contract of every backend, on this one without its ring: all bytes of large calls pass through rank 0.

mod seat;

use std::process::ExitCode;

use comm_conformance::{Failure, Model, Ruling, Seat, Subject};
use comm_tcp::TcpBackend;

struct WithoutRing;

impl Subject for WithoutRing {
    type Comm = TcpBackend;
    const NAME: &'static str = "tcp-without-ring";
    const MODEL: Model = {
        let mut model = Model::TCP;
        // Ranks that are not linked to each other have no deputy either.
        model.ruling = Ruling::RankZero;
        model
    };

    fn open(seat: &Seat) -> Result<TcpBackend, Failure> {
        seat::open(seat, false)
    }
}

fn main() -> ExitCode {
    // The smallest world in which a ring makes a difference.
    comm_conformance::main_in::<WithoutRing>(&[3])
}
