//! The cost of one call by itself, without another rank to wait for.

use std::hint::black_box;

use comm_api::{Communicator, ReduceOp};
use comm_shm::{ShmBackend, ShmConfig};
use criterion::{Criterion, criterion_group, criterion_main};

fn pieces(criterion: &mut Criterion) {
    let name = format!("cobre-bench-{}", std::process::id());
    let comm = ShmBackend::attach(ShmConfig::new(name, 0, 1)).expect("one rank attaches");
    criterion.bench_function("barrier of one rank: checks, a line, a fence", |bench| {
        bench.iter(|| comm.barrier());
    });
    criterion.bench_function("broadcast of 32 bytes: a line", |bench| {
        let mut buf = [0_u8; 32];
        bench.iter(|| comm.broadcast(black_box(&mut buf), 0));
    });
    criterion.bench_function("broadcast of 200 kB: a slot", |bench| {
        let mut buf = vec![0_u8; 200_000];
        bench.iter(|| comm.broadcast(black_box(&mut buf), 0));
    });
    criterion.bench_function("allgatherv of 32 bytes: counts and a line", |bench| {
        let mut recv = [0_u8; 32];
        bench.iter(|| comm.allgatherv(black_box(&[1; 32]), &mut recv, &[32], &[0]));
    });
    criterion.bench_function("allreduce of 4 f64", |bench| {
        let mut recv = [0.0; 4];
        bench.iter(|| comm.allreduce(black_box(&[1.0; 4]), &mut recv, ReduceOp::Sum));
    });
}

criterion_group!(benches, pieces);
criterion_main!(benches);
