//! Compares sums with big integers, which do not round.

mod judge;

use comm_exact::ExactSum;
use judge::{Exact, bits};
use rstest::rstest;

/// How many random sums are checked; the ignored test checks ten times as many.
const SUMS: u64 = 1_000_000;

/// Draws numbers of one kind; each kind is hard in a different way.
fn draw(random: &mut fastrand::Rng) -> Vec<f64> {
    let count = random.usize(1..=8);
    let kind = random.u8(0..6);
    let any = |random: &mut fastrand::Rng| loop {
        let number = f64::from_bits(random.u64(..));
        if number.is_finite() {
            return number;
        }
    };
    let mut numbers: Vec<f64> = (0..count)
        .map(|_| match kind {
            0 => any(random),
            // Close to each other, and therefore to a tie.
            1 => (random.f64() - 0.5) * 2_f64.powi(random.i32(-60..60)),
            2 => f64::from_bits(random.u64(..1 << 53)) * [1.0, -1.0][random.usize(..2)],
            3 => f64::MAX * (random.f64() - 0.5) * 2.0,
            // Few bits, so that ties are frequent.
            4 => f64::from(random.i8(..)) * 2_f64.powi(random.i32(-1074..900)),
            _ => f64::from(random.i32(..)),
        })
        .collect();
    match random.u8(0..4) {
        // What remains after the large numbers cancel.
        0 => numbers.extend(numbers.clone().iter().skip(1).map(|number| -number)),
        // Half a unit in the last place, and a little more or less.
        1 => {
            let first = numbers[0];
            let unit = (first.next_up() - first) / 2.0;
            numbers = vec![first, unit];
            if unit.is_finite() && random.bool() {
                numbers.push(f64::from_bits(1) * [1.0, -1.0][random.usize(..2)]);
            }
            numbers.retain(|number| number.is_finite());
        }
        _ => {}
    }
    numbers
}

fn judge_random_sums(count: u64, seed: u64) {
    for seed in seed..seed + count {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut numbers = draw(&mut random);
        let mut sum = ExactSum::new();
        sum.extend(&numbers);
        let exact: Exact = numbers.iter().copied().collect();
        assert!(exact.rounds_to(sum.value()), "seed {seed}: {numbers:?}");
        // In any other order, and split in two.
        random.shuffle(&mut numbers);
        let (left, right) = numbers.split_at(random.usize(..=numbers.len()));
        let mut parts = left.iter().copied().collect::<ExactSum>();
        parts.merge(&right.iter().copied().collect());
        assert_eq!(bits(&parts), bits(&sum), "seed {seed}: {numbers:?}");
    }
}

#[test]
fn a_million_random_sums_are_correctly_rounded() {
    judge_random_sums(SUMS, 1);
}

#[test]
#[ignore = "takes ten times as long; cargo test --release -p comm-exact -- --ignored"]
fn ten_million_random_sums_are_correctly_rounded() {
    judge_random_sums(10 * SUMS, SUMS + 1);
}

#[test]
fn random_products_are_not_rounded() {
    for seed in 0..100_000 {
        let mut random = fastrand::Rng::with_seed(seed);
        let (mut left, mut right) = (draw(&mut random), draw(&mut random));
        let count = left.len().min(right.len());
        left.truncate(count);
        right.truncate(count);
        if random.bool() {
            // Beyond the smallest and the largest number, and back.
            left.extend(left.clone().iter().skip(1).map(|number| -number));
            right.extend_from_within(1..);
        }
        let mut sum = ExactSum::new();
        let mut exact = Exact::default();
        for (&a, &b) in left.iter().zip(&right) {
            sum.add_product(a, b);
            exact.add_product(a, b);
        }
        assert!(
            exact.rounds_to(sum.value()),
            "seed {seed}: {left:?} * {right:?}"
        );
    }
}

/// Long slices take another path: blocks of one exponent range, of all ranges, of zeros only, and with
/// non-finite numbers.
#[rstest]
#[case::narrow(2)]
#[case::wide(2046)]
fn a_long_slice_gives_the_bits_of_its_numbers_one_by_one(#[case] exponents: u64) {
    let mut random = fastrand::Rng::with_seed(exponents);
    for count in [1023, 1024, 2048, 2049, 10_000, 200_000] {
        let draw = |random: &mut fastrand::Rng| {
            let exponent = 1023 - exponents / 2 + random.u64(..exponents);
            f64::from_bits((random.u64(..) & !(0x7ff << 52)) | (exponent << 52))
        };
        let mut numbers: Vec<f64> = (0..count).map(|_| draw(&mut random)).collect();
        for (place, number) in numbers.iter_mut().enumerate().skip(2048).take(2048) {
            *number = [0.0, -0.0, f64::from_bits(place as u64)][place % 3];
        }
        let mut long = ExactSum::new();
        long.extend(&numbers);
        let short: ExactSum = numbers.iter().copied().collect();
        let exact: Exact = numbers.iter().copied().collect();
        assert_eq!(bits(&long), bits(&short), "{count}");
        assert!(exact.rounds_to(long.value()), "{count}");
        numbers[count / 2] = f64::NEG_INFINITY;
        let mut long = ExactSum::new();
        long.extend(&numbers);
        assert!(long.value() == f64::NEG_INFINITY, "{count}");
    }
}

/// All significands are as large as possible, and are added in one place.
#[test]
fn a_long_slice_of_one_number_overflows_nothing() {
    for number in [2.0 - f64::EPSILON, f64::MIN] {
        let numbers = vec![number; 20_000];
        let mut sum = ExactSum::new();
        sum.extend(&numbers);
        assert!(
            numbers
                .into_iter()
                .collect::<Exact>()
                .rounds_to(sum.value())
        );
    }
}

#[rstest]
#[case::nothing(&[], 0.0)]
#[case::negative_zero(&[-0.0], -0.0)]
#[case::negative_zeros(&vec![-0.0; 3000], -0.0)]
#[case::zeros(&[-0.0, 0.0], 0.0)]
#[case::cancelled(&[1.0, -1.0], 0.0)]
#[case::cancelled_beside_negative_zero(&[-0.0, 1.0, -1.0], 0.0)]
#[case::infinity(&[1.0, f64::INFINITY, f64::MIN], f64::INFINITY)]
#[case::negative_infinity(&[f64::NEG_INFINITY, f64::MAX], f64::NEG_INFINITY)]
#[case::both(&[f64::NEG_INFINITY, f64::INFINITY], f64::NAN)]
#[case::nan(&[1.0, f64::NAN, 2.0], f64::NAN)]
#[case::overflow(&[f64::MAX, f64::MAX], f64::INFINITY)]
#[case::overflow_and_back(&[f64::MAX, f64::MAX, f64::MIN], f64::MAX)]
#[case::largest(&[f64::MAX, 2e291], f64::MAX)]
#[case::just_beyond(&[f64::MAX, 2_f64.powi(970)], f64::INFINITY)]
#[case::smallest(&[5e-324, 5e-324, -5e-324], 5e-324)]
#[case::into_the_normal_numbers(&[f64::MIN_POSITIVE, -5e-324, 5e-324], f64::MIN_POSITIVE)]
#[case::tie_to_even(&[1.0, f64::EPSILON / 2.0], 1.0)]
#[case::tie_to_even_upwards(&[1.0 + f64::EPSILON, f64::EPSILON / 2.0], 1.0 + 2.0 * f64::EPSILON)]
#[case::above_a_tie(&[1.0, f64::EPSILON / 2.0, 5e-324], 1.0 + f64::EPSILON)]
fn ieee_754_says(#[case] numbers: &[f64], #[case] expected: f64) {
    let mut sum = ExactSum::new();
    sum.extend(numbers);
    assert_eq!(sum.value().to_bits(), expected.to_bits(), "{}", sum.value());
}

/// Every path of a slice records that something was added, even if all of it cancels.
#[rstest]
fn what_cancels_after_a_negative_zero_leaves_zero(#[values(2, 1022, 1024, 3000)] count: usize) {
    let cancels: Vec<f64> = (0..count).map(|i| [1.5, -1.5][i % 2]).collect();
    let mut one_by_one = ExactSum::new();
    one_by_one.extend(&[-0.0]);
    one_by_one.extend(&cancels);
    assert_eq!(one_by_one.value().to_bits(), 0, "{count}");
    let mut together = ExactSum::new();
    together.extend(&[&[-0.0], &cancels[..]].concat());
    assert_eq!(bits(&together), bits(&one_by_one), "{count}");
}

#[rstest]
#[case::infinity_times_zero(f64::INFINITY, 0.0, f64::NAN)]
#[case::infinity(f64::INFINITY, -2.0, f64::NEG_INFINITY)]
#[case::nan(f64::NAN, 0.0, f64::NAN)]
#[case::negative_zero(-0.0, 3.0, -0.0)]
#[case::zero(-0.0, -3.0, 0.0)]
#[case::too_small(-5e-324, 5e-324, -0.0)]
#[case::too_large(1e200, 1e200, f64::INFINITY)]
fn a_product_alone_is_as_ieee_754_says(#[case] a: f64, #[case] b: f64, #[case] expected: f64) {
    let mut sum = ExactSum::new();
    sum.add_product(a, b);
    assert_eq!(sum.value().to_bits(), expected.to_bits(), "{}", sum.value());
}

/// Adding an accumulator to itself doubles its digits, and uses as much headroom as that many additions.
#[rstest]
#[case(f64::MAX)]
#[case(f64::MIN)]
#[case(-5e-324)]
#[case(1.0 - f64::EPSILON)]
fn no_number_of_additions_is_too_many(#[case] number: f64) {
    let mut sum = ExactSum::new();
    sum.add(number);
    let mut exact: Exact = [number].into_iter().collect();
    for doubled in 1..=62 {
        let same = sum;
        sum.merge(&same);
        exact.double();
        assert!(exact.rounds_to(sum.value()), "{number:e} * 2^{doubled}");
    }
    let mut back = ExactSum::new();
    back.add(-number);
    for _ in 1..=62 {
        let same = back;
        back.merge(&same);
    }
    sum.merge(&back);
    assert_eq!(sum.value().to_bits(), 0);
    sum.add(number);
    assert_eq!(sum.value().to_bits(), number.to_bits());
}

#[test]
fn numbers_that_an_f64_holds_are_added_as_they_are() {
    let mut sum = ExactSum::new();
    sum.extend(&[f32::MIN_POSITIVE, 0.1_f32]);
    sum.extend(&[i32::MIN, 7]);
    sum += u32::MAX;
    let expected = [f64::from(f32::MIN_POSITIVE), f64::from(0.1_f32)];
    let expected = expected
        .into_iter()
        .chain([-2_147_483_641.0, 4_294_967_295.0]);
    assert!(expected.collect::<Exact>().rounds_to(sum.value()));
    assert_eq!(format!("{sum:?}"), format!("ExactSum({:?})", sum.value()));
}
