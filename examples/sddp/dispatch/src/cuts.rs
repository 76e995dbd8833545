//! The future value of water: planes below the future cost, as a function of the stored water.

/// The cuts of one stage, in the order in which they were added.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Cuts {
    plants: usize,
    /// For each cut the intercept, then the slope for every plant.
    numbers: Vec<f64>,
}

impl Cuts {
    /// Returns no cuts.
    pub fn new(plants: usize) -> Self {
        Self {
            plants,
            numbers: Vec::new(),
        }
    }

    /// Returns the count of numbers in a cut.
    pub fn width(plants: usize) -> usize {
        1 + plants
    }

    /// Returns the number of cuts.
    pub fn len(&self) -> usize {
        self.numbers.len() / Self::width(self.plants)
    }

    /// Adds cuts, number by number.
    pub fn extend(&mut self, numbers: &[f64]) {
        debug_assert_eq!(numbers.len() % Self::width(self.plants), 0);
        self.numbers.extend_from_slice(numbers);
    }

    /// Returns all numbers.
    pub fn numbers(&self) -> &[f64] {
        &self.numbers
    }

    /// Returns the intercept and the slopes of a cut.
    pub fn get(&self, cut: usize) -> (f64, &[f64]) {
        let width = Self::width(self.plants);
        let numbers = &self.numbers[cut * width..(cut + 1) * width];
        (numbers[0], &numbers[1..])
    }

    /// Returns the height of a cut above a point.
    pub fn height(&self, cut: usize, storage: &[f64]) -> f64 {
        let (intercept, slopes) = self.get(cut);
        let terms = slopes.iter().zip(storage);
        terms.fold(intercept, |height, (slope, water)| height + slope * water)
    }
}
