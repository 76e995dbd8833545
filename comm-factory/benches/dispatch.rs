//! The cost of the match: calls through `CommBackend`, and the same calls without it.
//!
//! With `mpi` as well the enum has all its variants: `cargo bench -p comm-factory --features mpi,shm,tcp`.

use std::hint::black_box;
use std::time::Duration;

use comm_factory::CommBackend;
use comm_factory::api::Communicator;
use comm_factory::local::LocalBackend;
use comm_factory::shm::{ShmBackend, ShmConfig};
use criterion::{Criterion, criterion_group, criterion_main};

/// Times the calls on a communicator of which the compiler knows only the type.
fn calls<C: Communicator>(criterion: &mut Criterion, what: &str, comm: &C) {
    let mut group = criterion.benchmark_group(what);
    group.warm_up_time(Duration::from_millis(500));
    group.measurement_time(Duration::from_secs(2));
    group.bench_function("rank", |bench| bench.iter(|| black_box(comm).rank()));
    // As in a program, which checks the result and does not move it.
    group.bench_function("barrier", |bench| {
        bench.iter(|| black_box(comm).barrier().is_ok());
    });
    group.finish();
}

fn dispatch(criterion: &mut Criterion) {
    calls(criterion, "local", &LocalBackend);
    calls(criterion, "enum of local", &CommBackend::from(LocalBackend));
    let attach = || {
        let name = format!("cobre-dispatch-{}", std::process::id());
        ShmBackend::attach(ShmConfig::new(name, 0, 1)).expect("one rank attaches")
    };
    calls(criterion, "shm", &attach());
    calls(criterion, "enum of shm", &CommBackend::from(attach()));
}

criterion_group!(benches, dispatch);
criterion_main!(benches);
