//! A region that is read or written in the wrong phase panics, and the panic shows the line of the program.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::panic::{self, AssertUnwindSafe};
use std::sync::Mutex;

use comm_factory::api::{SharedMemoryProvider, SharedRegion};
use comm_factory::shm::{ShmBackend, ShmConfig};
use comm_factory::{BackendKind, CommBackend, create_communicator_with};

/// The place of the last panic, recorded by the hook of this process.
static PLACE: Mutex<Option<(String, u32)>> = Mutex::new(None);

/// Returns where `access` panics.
fn place_of(access: impl FnOnce()) -> (String, u32) {
    panic::catch_unwind(AssertUnwindSafe(access)).unwrap_err();
    PLACE.lock().unwrap().take().unwrap()
}

#[test]
fn a_panic_of_an_accessor_shows_the_line_of_the_program() {
    let default = panic::take_hook();
    panic::set_hook(Box::new(move |panic| {
        default(panic);
        let place = panic.location().unwrap();
        *PLACE.lock().unwrap() = Some((place.file().to_owned(), place.line()));
    }));
    let name = format!("cobre-panics-{}", std::process::id());
    let shm = ShmBackend::attach(ShmConfig::new(name, 0, 1)).unwrap();
    let local = create_communicator_with(BackendKind::Local).unwrap();
    let backends: [CommBackend; 2] = [shm.into(), local];
    for comm in backends {
        let mut region = comm.create_shared_region::<u64>(3).unwrap();
        let read = place_of(|| {
            region.as_slice();
        });
        assert_eq!(read, (file!().to_owned(), line!() - 2), "{}", comm.name());
        region.fence().unwrap();
        let write = place_of(|| {
            region.as_mut_slice();
        });
        assert_eq!(write, (file!().to_owned(), line!() - 2), "{}", comm.name());
    }
}
