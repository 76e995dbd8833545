//! A small linear programming solver: the dual simplex method on a dense dictionary, with bounds on everything.
//!
//! Minimises `c x` with `c >= 0`, over `lower <= x <= upper` and rows with bounds on their activities `a x`. With
//! non-negative costs and all variables at their lower bounds, the first dictionary is dual feasible. So there is no
//! first phase, and the method can continue after a row is added to a solved program.
//!
//! Architecture invariant: the result depends only on the program and on the order of its rows. No clock, no random
//! choice, no state from one program to the next, no fused operation: the same bits on every rank, thread and backend.

mod pivot;

use std::fmt;

/// How far a variable may be outside its bounds, in units of the bound or 1.
const FEASIBLE: f64 = 1e-9;

/// The number of a variable: first the columns of the program, then the activities of its rows.
pub type Variable = usize;

/// Why there is no solution.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unsolved {
    /// No point satisfies all bounds.
    Infeasible,
    /// The method did not terminate, which would be a bug in it.
    Stuck,
}

impl fmt::Display for Unsolved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Infeasible => "no point satisfies all bounds",
            Self::Stuck => "the simplex method did not terminate",
        })
    }
}

#[derive(Debug, Clone, Copy)]
enum Position {
    /// At one of its bounds; a column of the table.
    Column(usize),
    /// Between its bounds, or soon to be; a row of the table.
    Row(usize),
}

/// A program and the state of the method: every basic variable as a combination of the others.
#[derive(Debug, Clone)]
pub struct Program {
    cost: Vec<f64>,
    lower: Vec<f64>,
    upper: Vec<f64>,
    value: Vec<f64>,
    place: Vec<Position>,
    /// The variable of each row of the table.
    basic: Vec<Variable>,
    /// The variable of each column of the table.
    apart: Vec<Variable>,
    /// Row by row: the change of a basic variable when one of the others grows by 1.
    table: Vec<f64>,
    /// The change of the cost when one of the others grows by 1.
    reduced: Vec<f64>,
}

impl Program {
    /// Starts with columns `(cost, lower, upper)`. Costs must not be negative and lower bounds finite.
    pub fn new(columns: &[(f64, f64, f64)]) -> Self {
        debug_assert!(columns.iter().all(|c| c.0 >= 0.0 && c.1.is_finite()));
        let cost: Vec<f64> = columns.iter().map(|column| column.0).collect();
        let lower: Vec<f64> = columns.iter().map(|column| column.1).collect();
        Self {
            reduced: cost.clone(),
            cost,
            value: lower.clone(),
            lower,
            upper: columns.iter().map(|column| column.2).collect(),
            place: (0..columns.len()).map(Position::Column).collect(),
            basic: Vec::new(),
            apart: (0..columns.len()).collect(),
            table: Vec::new(),
        }
    }

    /// Adds a row `lower <= a x <= upper` and returns the number of its activity.
    pub fn add_row(&mut self, row: &[(Variable, f64)], lower: f64, upper: f64) -> Variable {
        let width = self.apart.len();
        let start = self.table.len();
        self.table.resize(start + width, 0.0);
        let (old, new) = self.table.split_at_mut(start);
        let mut activity = 0.0;
        for &(variable, factor) in row {
            activity += factor * self.value[variable];
            match self.place[variable] {
                Position::Column(column) => new[column] += factor,
                Position::Row(row) => {
                    let row = &old[row * width..(row + 1) * width];
                    for (new, old) in new.iter_mut().zip(row) {
                        *new += factor * old;
                    }
                }
            }
        }
        let variable = self.value.len();
        self.place.push(Position::Row(self.basic.len()));
        self.basic.push(variable);
        self.value.push(activity);
        self.lower.push(lower);
        self.upper.push(upper);
        variable
    }

    /// Runs the method until the cost is minimal.
    ///
    /// # Errors
    ///
    /// If no point satisfies all bounds, or the method fails.
    pub fn solve(&mut self) -> Result<(), Unsolved> {
        let limit = 1000 + 100 * (self.basic.len() + self.apart.len());
        let (mut idle, mut fresh) = (0, false);
        for _ in 0..limit {
            // After many steps without progress, choose the smallest numbers (Bland's rule), which cannot cycle.
            let careful = idle > 40;
            let row = self.leaving(careful);
            let step = row.map(|row| (row, self.entering(row, careful)));
            if let Some((row, Some((column, gained)))) = step {
                idle = if gained { 0 } else { idle + 1 };
                fresh = false;
                self.exchange(row, column);
            } else if !fresh {
                // Intermediate values can be huge, and their rounding errors must decide nothing.
                self.refresh();
                fresh = true;
            } else if row.is_none() {
                return Ok(());
            } else {
                return Err(Unsolved::Infeasible);
            }
        }
        Err(Unsolved::Stuck)
    }

    /// Recomputes the values of the basic variables from those at their bounds.
    fn refresh(&mut self) {
        let rows = self.table.chunks_exact(self.apart.len());
        for (&variable, row) in self.basic.iter().zip(rows) {
            let terms = row.iter().zip(&self.apart);
            self.value[variable] = terms
                .map(|(factor, &other)| factor * self.value[other])
                .sum();
        }
    }

    /// Returns the value of a column or of a row's activity.
    pub fn value(&self, variable: Variable) -> f64 {
        self.value[variable]
    }

    /// Returns the change of the minimal cost when the active bound of a variable grows by 1: the dual of a row.
    pub fn dual(&self, variable: Variable) -> f64 {
        match self.place[variable] {
            Position::Column(column) => self.reduced[column],
            Position::Row(_) => 0.0,
        }
    }

    /// Returns the cost.
    pub fn cost(&self) -> f64 {
        let terms = self.cost.iter().zip(&self.value);
        terms.map(|(cost, value)| cost * value).sum()
    }

    /// Returns how far a variable is below or above its bounds, in their units; 0 if that is within the tolerance.
    fn outside(&self, variable: Variable) -> f64 {
        let (value, lower, upper) = (
            self.value[variable],
            self.lower[variable],
            self.upper[variable],
        );
        let (bound, distance) = if value < lower {
            (lower, lower - value)
        } else {
            (upper, value - upper)
        };
        let distance = distance / bound.abs().max(1.0);
        if distance > FEASIBLE { distance } else { 0.0 }
    }
}
