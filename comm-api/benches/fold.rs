//! The fold against the plain loop that a program would write for its own type.
//!
//! `cargo bench -p comm-api` prints both. Then the median ratio of interleaved rounds is checked:
//! from 1024 elements on the fold runs at 80 % of the plain loop or better, or the bench fails.
//! Below, the ratio only shows what the checks and the dispatch cost, some nanoseconds a call.

use std::hint::black_box;
use std::time::{Duration, Instant};

use comm_api::bytemuck::{cast_slice, cast_slice_mut};
use comm_api::{Reduce, ReduceOp};
use criterion::{BenchmarkId, Criterion, Throughput};

/// From a few cache lines to beyond the second-level cache.
const LENGTHS: [usize; 5] = [64, 1024, 4096, 65_536, 1 << 20];
const CHECKED_FROM: usize = 1024;
const ROUNDS: usize = 41;
const LEAST: f64 = 0.8;

trait Plain: Reduce {
    const ONE: Self;
    fn add(acc: &mut [Self], next: &[Self]);
}

macro_rules! plain {
    ($($t:ident, $one:literal, $add:expr);+) => {$(
        impl Plain for $t {
            const ONE: Self = $one;

            #[inline(never)]
            fn add(acc: &mut [Self], next: &[Self]) {
                for (a, &b) in acc.iter_mut().zip(next) {
                    *a = $add(*a, b);
                }
            }
        }
    )+};
}

plain!(f64, 1.0, |a, b| a + b; f32, 1.0, |a, b| a + b; i32, 1, i32::wrapping_add);

fn fold<T: Plain>(acc: &mut [T], next: &[T]) {
    let folded = ReduceOp::Sum.fold_into(cast_slice_mut(acc), cast_slice(next), T::SCALAR);
    folded.expect("whole scalars of equal length");
}

fn rows<T: Plain>(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group(format!("sum {}", T::SCALAR));
    for len in LENGTHS {
        let (mut acc, next) = (vec![T::ONE; len], vec![T::ONE; len]);
        group.throughput(Throughput::Bytes((len * size_of::<T>()) as u64));
        group.bench_function(BenchmarkId::new("plain", len), |b| {
            b.iter(|| T::add(black_box(&mut acc), black_box(&next)));
        });
        group.bench_function(BenchmarkId::new("fold_into", len), |b| {
            b.iter(|| fold(black_box(&mut acc), black_box(&next)));
        });
    }
    group.finish();
}

fn time(mut f: impl FnMut(), times: usize) -> Duration {
    let start = Instant::now();
    (0..times).for_each(|_| f());
    start.elapsed()
}

/// Gives the median over the rounds of (time of the plain loop) / (time of the fold).
fn ratio<T: Plain>(len: usize) -> f64 {
    let (mut acc, next) = (vec![T::ONE; len], vec![T::ONE; len]);
    let times = (1 << 21) / len;
    let mut round = || {
        let plain = time(|| T::add(black_box(&mut acc), black_box(&next)), times);
        let fold = time(|| fold(black_box(&mut acc), black_box(&next)), times);
        plain.as_secs_f64() / fold.as_secs_f64()
    };
    let mut ratios: Vec<f64> = (0..ROUNDS).map(|_| round()).collect();
    ratios.sort_by(f64::total_cmp);
    ratios[ROUNDS / 2]
}

fn holds<T: Plain>() -> bool {
    let mut held = true;
    for len in LENGTHS {
        let ratio = ratio::<T>(len);
        held &= ratio >= LEAST || len < CHECKED_FROM;
        println!(
            "sum {} x {len}: {:.0} % of the plain loop",
            T::SCALAR,
            ratio * 100.0
        );
    }
    held
}

fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    rows::<f64>(&mut criterion);
    rows::<f32>(&mut criterion);
    rows::<i32>(&mut criterion);
    criterion.final_summary();
    let held = [holds::<f64>(), holds::<f32>(), holds::<i32>()];
    assert_eq!(
        held, [true; 3],
        "the fold is slower than {LEAST} of the plain loop"
    );
}
