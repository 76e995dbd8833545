//! The result of a run: the cuts of every stage and the bounds of every iteration.

use super::cuts::Cuts;
use super::hash::Hash;

/// The result of all iterations so far; the same bits on every rank.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Policy {
    /// By stage, the value of its storage in the stages after it. The last stage has no cuts.
    pub(crate) cuts: Vec<Cuts>,
    /// By iteration.
    pub(crate) lower: Vec<f64>,
    pub(crate) upper: Vec<f64>,
    /// Half of the 95 % interval around `upper`.
    pub(crate) spread: Vec<f64>,
}

/// For how many iterations the lower bound may stay the same before the run ends.
pub(crate) const PATIENCE: usize = 5;

impl Policy {
    pub(crate) fn new(stages: usize, plants: usize) -> Self {
        Self {
            cuts: vec![Cuts::new(plants); stages],
            lower: Vec::new(),
            upper: Vec::new(),
            spread: Vec::new(),
        }
    }

    pub(crate) fn iterations(&self) -> usize {
        self.lower.len()
    }

    /// Returns whether the lower bound has grown by at most `tolerance` of itself in the last iterations.
    pub(crate) fn converged(&self, tolerance: f64) -> bool {
        let (Some(last), true) = (self.lower.last(), self.lower.len() > PATIENCE) else {
            return false;
        };
        last - self.lower[self.lower.len() - 1 - PATIENCE] <= tolerance * last.abs()
    }

    /// Adds the mean cost of the scenarios, summed in scenario order, no matter which rank computed them.
    pub(crate) fn add_upper(&mut self, costs: &[f64]) {
        let count: f64 = costs.iter().map(|_| 1.0).sum();
        let mean = costs.iter().sum::<f64>() / count;
        let squares: f64 = costs.iter().map(|cost| (cost - mean) * (cost - mean)).sum();
        let deviation = (squares / (count - 1.0).max(1.0)).sqrt();
        self.upper.push(mean);
        self.spread.push(1.96 * deviation / count.sqrt());
    }

    /// Returns the whole policy as numbers, bounds first.
    pub(crate) fn numbers(&self) -> impl Iterator<Item = f64> {
        let bounds = self.lower.iter().chain(&self.upper).chain(&self.spread);
        let cuts = self.cuts.iter().flat_map(Cuts::numbers);
        bounds.chain(cuts).copied()
    }

    /// Returns a hash for comparing policies.
    pub(crate) fn checksum(&self) -> u64 {
        let mut hash = Hash::new();
        for number in self.numbers() {
            hash.bytes(&number.to_le_bytes());
        }
        hash.finish()
    }
}
