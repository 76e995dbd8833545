//! The dispatch of one stage: turbine the water now, or keep it at the future value that the cuts give it.
//!
//! ```text
//! min   thermal cost + deficit cost + spill cost + future
//! for each plant   storage + turbined + spilled - (turbined + spilled upstream) = storage before + inflow
//! demand           energy * turbined + thermal + deficit                        = demand
//! for each cut     future - slope * storage                                    >= intercept
//! ```
//!
//! Only a few of many cuts are binding. They are added one by one, the most violated first, until none is violated.

use crate::cuts::Cuts;
use crate::lp::{Program, Unsolved, Variable};
use crate::model::Case;

/// How far the future cost may be below a cut, in units of the cut's height or 1.
const VIOLATED: f64 = 1e-9;

/// The best dispatch of a stage.
#[derive(Debug, Clone, PartialEq)]
pub struct Dispatch {
    /// The cost of this stage and, by the cuts, of those after it.
    pub cost: f64,
    /// The cost of this stage alone.
    pub stage_cost: f64,
    /// The water left, by plant.
    pub storage: Vec<f64>,
    /// The change of `cost` per additional unit of water, by plant.
    pub water_value: Vec<f64>,
}

/// The numbers of the columns of a stage.
#[derive(Debug, Clone, Copy)]
pub struct Columns {
    first: Variable,
    plants: usize,
    thermals: usize,
}

impl Columns {
    /// Numbers the columns from `first` on: one program may hold several stages.
    pub fn of(case: &Case<'_>, first: Variable) -> Self {
        Self {
            first,
            plants: case.plants.len(),
            thermals: case.thermals.len(),
        }
    }

    /// Returns the column of the water that a plant keeps.
    pub fn storage(self, plant: usize) -> Variable {
        self.first + plant
    }

    /// Returns the column of the water that a plant turbines.
    pub fn turbined(self, plant: usize) -> Variable {
        self.first + self.plants + plant
    }

    /// Returns the column of the water that a plant spills.
    pub fn spilled(self, plant: usize) -> Variable {
        self.first + 2 * self.plants + plant
    }

    /// Returns the column of the energy of a thermal plant.
    pub fn thermal(self, thermal: usize) -> Variable {
        self.first + 3 * self.plants + thermal
    }

    /// Returns the column of the demand that is not served.
    pub fn deficit(self) -> Variable {
        self.first + 3 * self.plants + self.thermals
    }

    /// Returns the last column: the cost of the later stages.
    pub fn future(self) -> Variable {
        self.deficit() + 1
    }
}

/// Returns cost and bounds of the columns of a stage, without the future cost.
pub fn columns(case: &Case<'_>, stage: usize) -> Vec<(f64, f64, f64)> {
    let header = &case.header;
    let plants = || case.plants.iter();
    let mut columns = Vec::with_capacity(Columns::of(case, 0).future() + 1);
    columns.extend(plants().map(|plant| (0.0, 0.0, plant.storage_max)));
    columns.extend(plants().map(|plant| (0.0, 0.0, plant.turbine_max)));
    columns.extend(plants().map(|_| (header.spill_cost, 0.0, f64::INFINITY)));
    let thermals = case.thermals.iter();
    columns.extend(thermals.map(|thermal| (thermal.cost, 0.0, thermal.capacity)));
    let deficit = header.deficit_limit * case.demand[stage];
    columns.push((header.deficit_cost, 0.0, deficit));
    columns
}

/// Returns the left side of a plant's water balance.
pub fn balance(case: &Case<'_>, names: Columns, plant: usize) -> Vec<(Variable, f64)> {
    let mut row = vec![
        (names.storage(plant), 1.0),
        (names.turbined(plant), 1.0),
        (names.spilled(plant), 1.0),
    ];
    for (upstream, other) in case.plants.iter().enumerate() {
        if other.downstream == plant as u64 {
            row.push((names.turbined(upstream), -1.0));
            row.push((names.spilled(upstream), -1.0));
        }
    }
    row
}

/// Returns the left side of the demand.
pub fn supply(case: &Case<'_>, names: Columns) -> Vec<(Variable, f64)> {
    let plants = case.plants.iter().enumerate();
    let mut row: Vec<_> = plants
        .map(|(number, plant)| (names.turbined(number), plant.energy))
        .collect();
    row.extend((0..case.thermals.len()).map(|thermal| (names.thermal(thermal), 1.0)));
    row.push((names.deficit(), 1.0));
    row
}

/// Finds the best dispatch of `stage` with the water `before` and the inflows of `opening`.
///
/// # Errors
///
/// If there is no feasible dispatch.
pub fn solve(
    case: &Case<'_>,
    stage: usize,
    opening: usize,
    before: &[f64],
    cuts: &Cuts,
) -> Result<Dispatch, Unsolved> {
    let names = Columns::of(case, 0);
    let mut columns = columns(case, stage);
    columns.push((1.0, 0.0, f64::INFINITY));
    let mut program = Program::new(&columns);
    let inflows = case.inflows(stage, opening);
    let water: Vec<Variable> = (0..case.plants.len())
        .map(|plant| {
            let right = before[plant] + inflows[plant];
            program.add_row(&balance(case, names, plant), right, right)
        })
        .collect();
    let demand = case.demand[stage];
    program.add_row(&supply(case, names), demand, demand);
    program.solve()?;
    let mut added = Vec::new();
    while let Some(cut) = most_violated(&program, names, cuts, &added) {
        added.push(cut);
        let (intercept, slopes) = cuts.get(cut);
        let mut row = vec![(names.future(), 1.0)];
        row.extend(
            (0..)
                .zip(slopes)
                .map(|(plant, slope)| (names.storage(plant), -slope)),
        );
        program.add_row(&row, intercept, f64::INFINITY);
        program.solve()?;
    }
    let cost = program.cost();
    Ok(Dispatch {
        cost,
        stage_cost: cost - program.value(names.future()),
        storage: (0..case.plants.len())
            .map(|plant| program.value(names.storage(plant)).max(0.0))
            .collect(),
        water_value: water.iter().map(|&row| program.dual(row)).collect(),
    })
}

/// Finds the cut that the future cost violates most, beyond the tolerance. A cut is added only once.
fn most_violated(program: &Program, names: Columns, cuts: &Cuts, added: &[usize]) -> Option<usize> {
    let future = program.value(names.future());
    let storage: Vec<f64> = (0..names.plants)
        .map(|plant| program.value(names.storage(plant)))
        .collect();
    let mut worst = None;
    let mut farthest = 0.0;
    for cut in 0..cuts.len() {
        let height = cuts.height(cut, &storage);
        let distance = (height - future) / height.abs().max(1.0);
        if distance > VIOLATED && distance > farthest && !added.contains(&cut) {
            (worst, farthest) = (Some(cut), distance);
        }
    }
    worst
}
