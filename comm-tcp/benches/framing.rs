//! The cost of a frame and of a handshake, without sending anything.

use std::hint::black_box;

use comm_tcp::fuzzing;
use criterion::{Criterion, criterion_group, criterion_main};

fn framing(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("framing");
    group.bench_function("header", |bencher| {
        bencher.iter(|| black_box(fuzzing::header_there_and_back(black_box(7))));
    });
    group.bench_function("handshake", |bencher| {
        bencher.iter(|| black_box(fuzzing::handshake_there_and_back(black_box(b"secret"))));
    });
    group.finish();
}

criterion_group!(benches, framing);
criterion_main!(benches);
