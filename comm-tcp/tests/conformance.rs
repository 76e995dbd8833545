//! The contract of every backend, checked on this one.

mod seat;

use std::process::ExitCode;

use comm_conformance::{Failure, Model, Seat, Subject};
use comm_tcp::TcpBackend;

struct Tcp;

impl Subject for Tcp {
    type Comm = TcpBackend;
    const NAME: &'static str = "tcp";
    const MODEL: Model = Model::TCP;

    fn open(seat: &Seat) -> Result<TcpBackend, Failure> {
        seat::open(seat, true)
    }
}

fn main() -> ExitCode {
    comm_conformance::main::<Tcp>()
}
