//! The cost of an exact sum, compared with a plain loop, pairwise and compensated summation.

use std::hint::black_box;

use comm_exact::ExactSum;
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};

fn plain(numbers: &[f64]) -> f64 {
    numbers.iter().fold(0.0, |sum, number| sum + number)
}

fn pairwise(numbers: &[f64]) -> f64 {
    if numbers.len() <= 64 {
        return plain(numbers);
    }
    let (low, high) = numbers.split_at(numbers.len() / 2);
    pairwise(low) + pairwise(high)
}

fn kahan(numbers: &[f64]) -> f64 {
    let (mut sum, mut lost) = (0.0, 0.0);
    for number in numbers {
        let next = number - lost;
        let more = sum + next;
        lost = (more - sum) - next;
        sum = more;
    }
    sum
}

fn exact(numbers: &[f64]) -> f64 {
    let mut sum = ExactSum::new();
    sum.extend(numbers);
    sum.value()
}

fn exact_square(numbers: &[f64]) -> f64 {
    let mut sum = ExactSum::new();
    for &x in numbers {
        sum.add_product(x, x);
    }
    sum.value()
}

type Candidate = (&'static str, fn(&[f64]) -> f64);

const WAYS: [Candidate; 5] = [
    ("plain", plain),
    ("pairwise", pairwise),
    ("kahan", kahan),
    ("exact", exact),
    ("exact squares", exact_square),
];

fn sums(criterion: &mut Criterion) {
    let mut random = fastrand::Rng::with_seed(1);
    for (kind, widest) in [("narrow", 1_i32), ("wide", 300)] {
        let mut group = criterion.benchmark_group(kind);
        for count in [64, 4 << 10, 1 << 20] {
            let numbers: Vec<f64> = (0..count)
                .map(|_| (random.f64() - 0.5) * 10_f64.powi(random.i32(-widest..widest)))
                .collect();
            group.throughput(Throughput::Elements(count));
            for (way, sum) in WAYS {
                let id = BenchmarkId::new(way, count);
                group.bench_with_input(id, &numbers, |bencher, numbers| {
                    bencher.iter(|| sum(black_box(numbers)));
                });
            }
        }
    }
}

criterion_group!(benches, sums);
criterion_main!(benches);
