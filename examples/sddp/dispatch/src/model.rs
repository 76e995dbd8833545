//! The case: hydro plants in cascades, thermal plants, demand, and possible inflows.

use bytemuck::{Pod, Zeroable};

use crate::hash::Hash;
use crate::noise::Noise;

/// The sizes and parameters of a case; sent by broadcast.
#[derive(Debug, Clone, Copy, PartialEq, Pod, Zeroable)]
#[repr(C)]
pub struct Header {
    /// The seed of all random numbers.
    pub seed: u64,
    /// The number of months.
    pub stages: u64,
    /// The number of hydro plants.
    pub plants: u64,
    /// The number of thermal plants.
    pub thermals: u64,
    /// The number of possible inflows in each stage except the first, all equally likely.
    pub openings: u64,
    /// The number of paths through the stages per iteration.
    pub scenarios: u64,
    /// The cost of a unit of demand that is not served.
    pub deficit_cost: f64,
    /// The fraction of the demand that may go unserved.
    pub deficit_limit: f64,
    /// The cost of a unit of spilled water.
    pub spill_cost: f64,
}

/// A hydro plant: water in hm3, energy in MW for a month.
#[derive(Debug, Clone, Copy, PartialEq, Pod, Zeroable)]
#[repr(C)]
pub struct Plant {
    /// Water in the reservoir before the first stage.
    pub storage_start: f64,
    /// The capacity of the reservoir.
    pub storage_max: f64,
    /// The capacity of the turbines in a stage.
    pub turbine_max: f64,
    /// Energy per unit of turbined water.
    pub energy: f64,
    /// The mean inflow of a stage.
    pub inflow_mean: f64,
    /// The plant downstream; its own number, or one beyond the last plant, means the sea.
    pub downstream: u64,
}

/// A thermal plant.
#[derive(Debug, Clone, Copy, PartialEq, Pod, Zeroable)]
#[repr(C)]
pub struct Thermal {
    /// The maximum energy in a stage.
    pub capacity: f64,
    /// The cost of a unit of energy.
    pub cost: f64,
}

/// The part of a case that rank 0 generates.
#[derive(Debug, Clone)]
pub struct Draft {
    /// By number.
    pub plants: Vec<Plant>,
    /// By number.
    pub thermals: Vec<Thermal>,
    /// Energy by stage.
    pub demand: Vec<f64>,
}

/// A case in shared regions.
#[derive(Debug, Clone, Copy)]
pub struct Case<'a> {
    /// Sizes and parameters.
    pub header: Header,
    /// By number.
    pub plants: &'a [Plant],
    /// By number.
    pub thermals: &'a [Thermal],
    /// Energy by stage.
    pub demand: &'a [f64],
    /// Inflows by stage, opening and plant.
    pub tree: &'a [f64],
}

/// How inflows and demand change over the year.
const WET: [f64; 12] = [1.4, 1.5, 1.3, 1.0, 0.8, 0.6, 0.5, 0.5, 0.6, 0.9, 1.0, 1.2];
const WARM: [f64; 12] = [
    1.05, 1.06, 1.04, 1.0, 0.97, 0.95, 0.95, 0.97, 0.98, 1.0, 1.01, 1.02,
];

/// The number of plants on one river.
const CASCADE: u64 = 4;

impl Draft {
    /// Generates a case. Uses only basic arithmetic, for the same bits on every machine.
    pub fn new(header: Header) -> Self {
        let mut noise = Noise::new(header.seed, [1, 0, 0]);
        let mut plants: Vec<Plant> = Vec::new();
        for number in 0..header.plants {
            let last = number % CASCADE == CASCADE - 1 || number + 1 == header.plants;
            let storage_max = noise.between(60.0, 160.0);
            plants.push(Plant {
                storage_start: storage_max * noise.between(0.4, 0.6),
                storage_max,
                turbine_max: storage_max * noise.between(0.4, 0.6),
                energy: noise.between(0.6, 1.0),
                inflow_mean: storage_max * noise.between(0.1, 0.2),
                downstream: if last { u64::MAX } else { number + 1 },
            });
        }
        // The energy of the rivers in a mean stage, if nothing is spilled.
        let mut energy = 0.0;
        let mut below = 0.0;
        for plant in plants.iter().rev() {
            below = plant.energy
                + if plant.downstream == u64::MAX {
                    0.0
                } else {
                    below
                };
            energy += plant.inflow_mean * below;
        }
        let mean = 1.25 * energy;
        let thermals = (0..header.thermals).map(|number| {
            let place = ratio(number + 1, header.thermals);
            Thermal {
                capacity: 0.5 * mean * ratio(1, header.thermals) * noise.between(0.8, 1.2),
                cost: 15.0 + 185.0 * place * place * noise.between(0.9, 1.1),
            }
        });
        let thermals = thermals.collect();
        let months = WARM.iter().cycle().zip(0..header.stages);
        let demand = months.map(|(warm, _)| mean * warm).collect();
        Self {
            plants,
            thermals,
            demand,
        }
    }
}

impl Case<'_> {
    /// Returns a fingerprint of the case. It does not depend on iterations and ranks.
    pub fn fingerprint(&self) -> u64 {
        let mut hash = Hash::new();
        hash.data(&[self.header]);
        hash.data(self.plants);
        hash.data(self.thermals);
        hash.data(self.demand);
        hash.data(self.tree);
        hash.finish()
    }

    /// Returns the number of stages.
    pub fn stages(&self) -> usize {
        self.demand.len()
    }

    /// Returns the number of openings of a stage.
    pub fn openings(&self) -> usize {
        index(self.header.openings)
    }

    /// Returns the paths per iteration.
    pub fn scenarios(&self) -> usize {
        index(self.header.scenarios)
    }

    /// Returns the inflows of an opening.
    pub fn inflows(&self, stage: usize, opening: usize) -> &[f64] {
        let plants = self.plants.len();
        let start = (stage * self.openings() + opening) * plants;
        &self.tree[start..start + plants]
    }

    /// Returns the opening of a scenario in a stage. The first stage is known: it has one opening.
    pub fn sample(&self, iteration: u64, scenario: u64, stage: usize) -> usize {
        if stage == 0 {
            return 0;
        }
        let mut noise = Noise::new(self.header.seed, [3 + iteration, scenario, stage as u64]);
        index(noise.below(self.header.openings))
    }

    /// Returns the storage at the start.
    pub fn start(&self) -> Vec<f64> {
        self.plants.iter().map(|p| p.storage_start).collect()
    }
}

/// Fills the inflows of the nodes from `first` on; a node is an opening of a stage.
pub fn fill_tree(header: &Header, plants: &[Plant], first: usize, inflows: &mut [f64]) {
    let openings = index(header.openings);
    for (node, inflows) in inflows.chunks_exact_mut(plants.len()).enumerate() {
        let (stage, opening) = ((first + node) / openings, (first + node) % openings);
        let mut noise = Noise::new(header.seed, [2, stage as u64, opening as u64]);
        // One random number for the weather of all plants, and one for each plant.
        let weather = noise.between(0.5, 1.5);
        for (inflow, plant) in inflows.iter_mut().zip(plants) {
            let local = noise.between(0.7, 1.3);
            let luck = if stage == 0 { 1.0 } else { weather * local };
            *inflow = plant.inflow_mean * WET[stage % WET.len()] * luck;
        }
    }
}

fn ratio(part: u64, whole: u64) -> f64 {
    let small = |number| f64::from(u32::try_from(number).unwrap_or(u32::MAX));
    small(part) / small(whole)
}

/// Converts a size of a header to an index; the options were checked when they were read.
pub fn index(size: u64) -> usize {
    usize::try_from(size).unwrap_or(usize::MAX)
}
