//! The solver on random programs.

use libtest_mimic::Trial;
use sddp_dispatch::lp::Unsolved;
use sddp_dispatch::noise::Noise;

use super::certificate::Written;

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        Trial::test("lp::random_programs_are_proven", || {
            random_programs();
            Ok(())
        }),
        Trial::test("lp::ties_do_not_cycle", || {
            ties();
            Ok(())
        }),
        Trial::test("lp::what_cannot_be_is_said", || {
            infeasible();
            Ok(())
        }),
    ]
}

/// Generates bounds on everything, equations among them, around a point that satisfies all of them.
fn draw(seed: u64) -> Written {
    let mut noise = Noise::new(seed, [9, 9, 9]);
    let columns = 1 + noise.below(12);
    let rows = noise.below(10);
    let mut written = Written::default();
    let mut point = Vec::new();
    for _ in 0..columns {
        let lower = noise.between(-5.0, 5.0);
        let width = noise.between(0.0, 8.0);
        let upper = match noise.below(3) {
            0 => f64::INFINITY,
            _ => lower + width,
        };
        let cost = if noise.below(3) == 0 {
            0.0
        } else {
            noise.between(0.0, 9.0)
        };
        written.columns.push((cost, lower, upper));
        point.push(lower + width * noise.between(0.0, 1.0));
    }
    for _ in 0..rows {
        let mut row = Vec::new();
        let mut activity = 0.0;
        for (variable, value) in point.iter().enumerate() {
            if noise.below(2) == 0 {
                // Whole numbers, to get ties.
                let factor = noise.between(-3.0, 3.0).round();
                activity += factor * value;
                row.push((variable, factor));
            }
        }
        let (lower, upper) = match noise.below(3) {
            0 => (activity, activity),
            1 => (activity - noise.between(0.0, 2.0), f64::INFINITY),
            _ => (f64::NEG_INFINITY, activity + noise.between(0.0, 2.0)),
        };
        written.rows.push((row, lower, upper));
    }
    written
}

fn random_programs() {
    for seed in 0..3000 {
        if let Err(why) = draw(seed).solve() {
            panic!("program {seed}: {why}, but a point is known");
        }
    }
}

/// Many rows through one point, and no costs that distinguish directions.
fn ties() {
    for size in [4, 10, 30] {
        let mut written = Written {
            columns: vec![(0.0, 0.0, 1.0); size],
            ..Written::default()
        };
        written.columns[0].0 = 1.0;
        for row in 0..size {
            let left = (0..size).map(|v| (v, if v % (row + 1) == 0 { 1.0 } else { -1.0 }));
            written.rows.push((left.collect(), 0.0, 0.0));
        }
        assert_eq!(written.solve(), Ok(0.0), "{size}");
    }
}

fn infeasible() {
    let mut written = Written {
        columns: vec![(1.0, 0.0, 1.0), (1.0, 0.0, 1.0)],
        ..Written::default()
    };
    written.rows.push((vec![(0, 1.0), (1, 1.0)], 2.0, 2.0));
    assert_eq!(written.solve(), Ok(2.0));
    written.rows[0].1 = 2.1;
    written.rows[0].2 = 2.1;
    assert_eq!(written.solve(), Err(Unsolved::Infeasible));
}
