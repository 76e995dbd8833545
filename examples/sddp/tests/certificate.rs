//! A proof that a solution is optimal: it satisfies all bounds, and duals show that none is cheaper. Computed from the original
//! numbers, independently of the solver.

use sddp_dispatch::lp::{Program, Unsolved, Variable};

/// The left side of a row.
type Left = Vec<(Variable, f64)>;

/// The original program.
#[derive(Debug, Clone, Default)]
pub(crate) struct Written {
    /// Cost, lower and upper bound.
    pub(crate) columns: Vec<(f64, f64, f64)>,
    /// Left side, lower and upper bound.
    pub(crate) rows: Vec<(Left, f64, f64)>,
}

impl Written {
    /// Solves it, proves the solution, and returns the cost.
    ///
    /// # Errors
    ///
    /// If it has no solution.
    ///
    /// # Panics
    ///
    /// If the solution is wrong by more than 1e-9 of the cost.
    pub(crate) fn solve(&self) -> Result<f64, Unsolved> {
        let mut program = Program::new(&self.columns);
        let mut names = Vec::new();
        for (row, lower, upper) in &self.rows {
            names.push(program.add_row(row, *lower, *upper));
        }
        program.solve()?;
        for (column, (_, lower, upper)) in self.columns.iter().enumerate() {
            between(program.value(column), *lower, *upper);
        }
        let mut reduced: Vec<f64> = self.columns.iter().map(|column| column.0).collect();
        let mut below = 0.0;
        for ((row, lower, upper), name) in self.rows.iter().zip(names) {
            let activity: f64 = row.iter().map(|(v, a)| a * program.value(*v)).sum();
            between(activity, *lower, *upper);
            let dual = program.dual(name);
            below += bound(dual, *lower, *upper);
            for (variable, factor) in row {
                reduced[*variable] -= factor * dual;
            }
        }
        for ((_, lower, upper), reduced) in self.columns.iter().zip(reduced) {
            below += bound(reduced, *lower, *upper);
        }
        let cost = program.cost();
        let gap = (cost - below).abs() / cost.abs().max(1.0);
        assert!(gap < 1e-9, "{cost} is not proven: no less than {below}");
        Ok(cost)
    }
}

fn between(value: f64, lower: f64, upper: f64) {
    let slack = 1e-8 * value.abs().max(1.0);
    let kept = value >= lower - slack && value <= upper + slack;
    assert!(kept, "{value} is not between {lower} and {upper}");
}

/// Returns the minimum of `price * x` for x between the bounds.
fn bound(price: f64, lower: f64, upper: f64) -> f64 {
    let at = if price > 0.0 { lower } else { upper };
    if at.is_finite() {
        return price * at;
    }
    assert!(price.abs() < 1e-8, "a dual of {price} has the wrong sign");
    0.0
}
