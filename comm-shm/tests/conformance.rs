//! The contract of every backend, checked on this one.

use std::process::ExitCode;

use comm_conformance::{Failure, Model, Seat, Subject};
use comm_shm::{OneCopy, ShmBackend, ShmConfig};

struct Shm;

impl Subject for Shm {
    type Comm = ShmBackend;
    const NAME: &'static str = "shm";
    const MODEL: Model = Model::SHM;

    fn open(seat: &Seat) -> Result<ShmBackend, Failure> {
        let mut config = ShmConfig::new(seat.name(), seat.rank(), seat.size());
        config.timeout = seat.timeout();
        config.connect_timeout = seat.connect_timeout();
        // Ranks inherit it: the same tests with and without.
        if std::env::var("COBRE_SHM_ONE_COPY").is_ok_and(|value| value == "0") {
            config.one_copy = OneCopy::Off;
        }
        Ok(ShmBackend::attach(config)?)
    }
}

fn main() -> ExitCode {
    comm_conformance::main::<Shm>()
}
