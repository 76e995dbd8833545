//! A logarithmic axis of ratios.

use super::super::book::{Comparison, median};

/// Maps ratios to pixels.
#[derive(Debug)]
pub(in crate::bench) struct Axis {
    /// The logarithms at both ends.
    low: f64,
    high: f64,
    width: f64,
}

/// The first digits of the ticks, as long as there is room for them.
const DIGITS: [f64; 3] = [1.0, 2.0, 5.0];

impl Axis {
    /// Spans all medians, all targets and the line at 1, with some room on both sides.
    pub(super) fn over<'a>(lines: impl Iterator<Item = &'a Comparison>, width: i32) -> Self {
        let ratios = lines.flat_map(|line| [median(line.ratios.clone()), line.target.most()]);
        Self::around(ratios.flatten(), width)
    }

    /// Spans these ratios and the line at 1, with some room on both sides.
    pub(in crate::bench) fn around(ratios: impl Iterator<Item = f64>, width: i32) -> Self {
        let logs = ratios.map(f64::log10);
        let (low, high) = logs.fold((0.0, 0.0), |(low, high): (f64, f64), log| {
            (low.min(log), high.max(log))
        });
        // At least from 0.5 to 2.
        Self {
            low: (low - 0.1).min(-0.35),
            high: (high + 0.1).max(0.35),
            width: width.into(),
        }
    }

    /// Returns the pixels from the left end; a ratio outside the axis is moved to the nearer end.
    #[expect(clippy::cast_possible_truncation, reason = "between 0 and the width")]
    pub(in crate::bench) fn place(&self, ratio: f64) -> i32 {
        let part = (ratio.log10() - self.low) / (self.high - self.low);
        (part.clamp(0.0, 1.0) * self.width).round() as i32
    }

    /// Lists ratios with their labels, as many as fit.
    pub(in crate::bench) fn ticks(&self) -> Vec<(f64, String)> {
        let digits = if self.high - self.low > 3.5 {
            &DIGITS[..1]
        } else {
            &DIGITS
        };
        let powers = (-9..=9).map(|power| 10_f64.powi(power));
        let all = powers.flat_map(|power| digits.iter().map(move |digit| digit * power));
        let inside = all.filter(|ratio| (self.low..=self.high).contains(&ratio.log10()));
        inside.map(|ratio| (ratio, label(ratio))).collect()
    }
}

/// Formats a tick without the rounding errors of multiplication.
fn label(ratio: f64) -> String {
    if ratio < 1.0 {
        let digits = format!("{ratio:.9}");
        digits.trim_end_matches('0').to_owned()
    } else {
        format!("{ratio:.0}")
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::line;
    use super::*;

    #[test]
    fn one_is_on_the_axis_and_distances_are_factors() {
        let lines = [line(2, "barrier", 0.1), line(2, "barrier", 10.0)];
        let axis = Axis::over(lines.iter(), 1000);
        let [low, one, high] = [0.1, 1.0, 10.0].map(|ratio| axis.place(ratio));
        assert!((0..1000).contains(&low) && high < 1000);
        assert!((one - low - (high - one)).abs() <= 1);
        assert_eq!((axis.place(1e-9), axis.place(1e9)), (0, 1000));
    }

    #[test]
    fn labels_are_short_and_have_room() {
        let labels = |least| -> Vec<String> {
            let lines = [line(2, "barrier", least)];
            let ticks = Axis::over(lines.iter(), 400).ticks();
            ticks.into_iter().map(|(_, label)| label).collect()
        };
        assert_eq!(labels(1.0), ["0.5", "1", "2"]);
        assert_eq!(labels(0.1), ["0.1", "0.2", "0.5", "1", "2"]);
        assert_eq!(labels(0.0001), ["0.0001", "0.001", "0.01", "0.1", "1"]);
    }
}
