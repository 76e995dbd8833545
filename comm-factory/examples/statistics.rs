//! Computes the mean, the variance and a dot product of a data set that is split over the ranks.
//!
//! The argument is the number of threads. Prints the same bits with any number of ranks and threads: the sums are exact, so it does
//! not matter which of them adds which part.

use std::error::Error;
use std::ops::Range;
use std::process::ExitCode;
use std::thread;

use comm_exact::{ExactSum, exact_sums};
use comm_factory::api::Communicator;

const COUNT: usize = 100_000;

fn main() -> ExitCode {
    let Err(error) = statistics() else {
        return ExitCode::SUCCESS;
    };
    eprintln!("statistics: {error}");
    ExitCode::FAILURE
}

fn statistics() -> Result<(), Box<dyn Error>> {
    let threads = std::env::args()
        .nth(1)
        .map_or(Ok(1), |count| count.parse())?;
    let comm = comm_factory::create_communicator()?;
    let part = |whole: &Range<usize>, place: usize, parts: usize| {
        let first = |place: usize| whole.start + whole.len() * place / parts;
        first(place)..first(place + 1)
    };
    let mine = part(&(0..COUNT), comm.rank(), comm.size());
    let parts = (0..threads).map(|thread| part(&mine, thread, threads));

    let mut sums = [ExactSum::new(); 4];
    thread::scope(|scope| {
        let started: Vec<_> = parts
            .map(|part| scope.spawn(move || add_up(part)))
            .collect();
        for thread in started {
            let part = thread.join().expect("the sums do not panic");
            for (sum, part) in sums.iter_mut().zip(&part) {
                sum.merge(part);
            }
        }
    });
    let mut totals = [0.0; 4];
    exact_sums(&comm, &mut sums, &mut totals)?;

    let [count, sum, squares, dot] = totals;
    let mean = sum / count;
    let variance = squares / count - mean * mean;
    if comm.rank() == 0 {
        let bits = [mean, variance, dot].map(|number| format!("{:016x}", number.to_bits()));
        println!(
            "mean {mean:.6}, variance {variance:.6}, dot product {dot:.6}, bits {}",
            bits.join(" ")
        );
    }
    Ok(())
}

/// Adds up the number of points, the first coordinates, their squares and their products with the second ones.
fn add_up(points: Range<usize>) -> [ExactSum; 4] {
    let [mut count, mut sum, mut squares, mut dot] = [ExactSum::new(); 4];
    for (x, y) in points.map(point) {
        count.add(1.0);
        sum.add(x);
        squares.add_product(x, x);
        dot.add_product(x, y);
    }
    [count, sum, squares, dot]
}

/// Returns one point of the data set: numbers of very different sizes.
fn point(index: usize) -> (f64, f64) {
    let mut random = fastrand::Rng::with_seed(index as u64);
    let mut number = || (random.f64() - 0.25) * 2_f64.powi(random.i32(-20..20));
    (number(), number())
}
