//! One step of the dual simplex method: the leaving variable, the entering variable, and the exchange.

use super::{Position, Program, Variable};

/// Factors smaller than this count as rounding errors and are never divisors.
const SMALLEST: f64 = 1e-9;

/// Reduced costs may become this much too small, so that there is a choice of columns and one with a large factor can be taken
/// (Harris).
const SLACK: f64 = 1e-9;

impl Program {
    /// Picks the row whose variable is farthest outside its bounds, or with `careful` the one with the smallest number.
    pub(super) fn leaving(&self, careful: bool) -> Option<usize> {
        let mut worst: Option<(usize, f64)> = None;
        for (row, &variable) in self.basic.iter().enumerate() {
            let outside = self.outside(variable);
            let better = match worst {
                None => true,
                Some((best, _)) if careful => variable < self.basic[best],
                Some((_, distance)) => outside > distance,
            };
            if outside > 0.0 && better {
                worst = Some((row, outside));
            }
        }
        worst.map(|(row, _)| row)
    }

    /// Picks the column that brings the variable of `row` back at the lowest cost, and returns whether the cost increases.
    pub(super) fn entering(&self, row: usize, careful: bool) -> Option<(usize, bool)> {
        let leaving = self.basic[row];
        let rises = self.value[leaving] < self.lower[leaving];
        let width = self.apart.len();
        let factors = &self.table[row * width..(row + 1) * width];
        let candidates = || {
            let columns = factors.iter().enumerate();
            columns.filter_map(|(column, &factor)| {
                let ratio = self.ratio(column, if rises { factor } else { -factor })?;
                Some((column, factor.abs(), ratio))
            })
        };
        let slack = if careful { 0.0 } else { SLACK };
        let most = candidates().map(|(_, factor, ratio)| ratio + slack / factor);
        let most = most.reduce(f64::min)?;
        let mut best: Option<(usize, f64)> = None;
        let mut gained = false;
        for (column, factor, ratio) in candidates() {
            let better = match best {
                None => true,
                Some((chosen, _)) if careful => self.apart[column] < self.apart[chosen],
                Some((_, largest)) => factor > largest,
            };
            if ratio <= most && better {
                best = Some((column, factor));
                gained = ratio > SLACK;
            }
        }
        best.map(|(column, _)| (column, gained))
    }

    /// Returns the cost per unit of moving the leaving variable up by `column`, if that is possible.
    fn ratio(&self, column: usize, factor: f64) -> Option<f64> {
        let variable = self.apart[column];
        if factor.abs() <= SMALLEST || self.is_fixed(variable) {
            return None;
        }
        let can = if self.is_at_upper(variable) {
            factor < 0.0
        } else {
            factor > 0.0
        };
        // Rounding may put a reduced cost on the wrong side of zero.
        let reduced = if factor > 0.0 {
            self.reduced[column]
        } else {
            -self.reduced[column]
        };
        can.then(|| reduced.max(0.0) / factor.abs())
    }

    #[expect(
        clippy::float_cmp,
        reason = "a fixed variable has the same bound twice, to the bit"
    )]
    fn is_fixed(&self, variable: Variable) -> bool {
        self.lower[variable] == self.upper[variable]
    }

    #[expect(
        clippy::float_cmp,
        reason = "a variable that left was set to its bound, to the bit"
    )]
    fn is_at_upper(&self, variable: Variable) -> bool {
        self.value[variable] == self.upper[variable]
    }

    /// Moves the variable of `row` to the bound it crossed, and swaps it with that of `column`.
    pub(super) fn exchange(&mut self, row: usize, column: usize) {
        let width = self.apart.len();
        let (leaving, entering) = (self.basic[row], self.apart[column]);
        let bound = if self.value[leaving] < self.lower[leaving] {
            self.lower[leaving]
        } else {
            self.upper[leaving]
        };
        let pivot = self.table[row * width + column];
        let step = (bound - self.value[leaving]) / pivot;
        for (at, &variable) in self.basic.iter().enumerate() {
            self.value[variable] += self.table[at * width + column] * step;
        }
        self.value[entering] += step;
        self.value[leaving] = bound;

        let mut solved = self.table[row * width..(row + 1) * width].to_vec();
        for factor in &mut solved {
            *factor = -*factor / pivot;
        }
        solved[column] = 1.0 / pivot;
        for (at, old) in self.table.chunks_exact_mut(width).enumerate() {
            if at == row {
                old.copy_from_slice(&solved);
            } else {
                substitute(old, &solved, column);
            }
        }
        substitute(&mut self.reduced, &solved, column);
        self.basic[row] = entering;
        self.apart[column] = leaving;
        self.place[entering] = Position::Row(row);
        self.place[leaving] = Position::Column(column);
    }
}

/// Substitutes the solved expression for the variable of `column` in a row.
fn substitute(row: &mut [f64], solved: &[f64], column: usize) {
    let factor = row[column];
    if factor != 0.0 {
        row[column] = 0.0;
        for (old, solved) in row.iter_mut().zip(solved) {
            *old += factor * solved;
        }
    }
}
