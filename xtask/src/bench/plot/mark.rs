//! Marks for numbers of ranks: each has its own shape, too, for readers who cannot distinguish the colours.

use plotters::prelude::*;

use super::super::book::Comparison;
use super::{Area, At, Drawn};

/// The colour and shape of a number of ranks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::bench) struct Mark {
    shape: Shape,
    colour: RGBColor,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shape {
    Circle,
    /// With these corners around the middle.
    Corners(&'static [At]),
}

/// The colours of Okabe and Ito, which also differ in brightness, and a shape for each.
const MARKS: [Mark; 6] = [
    mark(Shape::Circle, RGBColor(0x00, 0x72, 0xb2)),
    mark(
        Shape::Corners(&[(0, -5), (5, 4), (-5, 4)]),
        RGBColor(0xd5, 0x5e, 0x00),
    ),
    mark(
        Shape::Corners(&[(-4, -4), (4, -4), (4, 4), (-4, 4)]),
        RGBColor(0x00, 0x9e, 0x73),
    ),
    mark(
        Shape::Corners(&[(0, -6), (6, 0), (0, 6), (-6, 0)]),
        RGBColor(0xcc, 0x79, 0xa7),
    ),
    mark(
        Shape::Corners(&[(-5, -4), (5, -4), (0, 5)]),
        RGBColor(0xe6, 0x9f, 0x00),
    ),
    mark(
        Shape::Corners(&[(-6, -3), (6, -3), (6, 3), (-6, 3)]),
        RGBColor(0x33, 0x33, 0x33),
    ),
];

const fn mark(shape: Shape, colour: RGBColor) -> Mark {
    Mark { shape, colour }
}

impl Mark {
    /// Returns the mark of a number of ranks: the usual numbers, 2 to 64, have different marks.
    pub(super) fn of(ranks: usize) -> Self {
        let power = ranks.max(2).ilog2() as usize;
        Self::number(power - 1)
    }

    /// Returns one of the different marks, counted from 0.
    pub(in crate::bench) fn number(number: usize) -> Self {
        MARKS[number % MARKS.len()]
    }

    pub(in crate::bench) fn colour(self) -> RGBColor {
        self.colour
    }

    /// Draws the mark around a place, filled or hollow.
    pub(in crate::bench) fn draw(self, root: &Area<'_>, (x, y): At, filled: bool) -> Drawn {
        let inside = if filled { self.colour } else { WHITE };
        let outline = self.colour.stroke_width(2);
        match self.shape {
            Shape::Circle => {
                root.draw(&Circle::new((x, y), 5, inside.filled()))?;
                root.draw(&Circle::new((x, y), 5, outline))?;
            }
            Shape::Corners(corners) => {
                let corners = corners.iter().map(|(dx, dy)| (x + dx, y + dy));
                let mut corners: Vec<At> = corners.collect();
                root.draw(&Polygon::new(corners.clone(), inside.filled()))?;
                corners.extend_from_within(..1);
                root.draw(&PathElement::new(corners, outline))?;
            }
        }
        Ok(())
    }
}

/// Lists the numbers of ranks that have lines, in order.
pub(super) fn ranks<'a>(lines: impl Iterator<Item = &'a Comparison>) -> Vec<usize> {
    let mut ranks: Vec<usize> = lines.map(|line| line.ranks).collect();
    ranks.sort_unstable();
    ranks.dedup();
    ranks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_usual_numbers_of_ranks_differ_in_shape_and_in_colour() {
        let marks = [2, 4, 8, 16, 32, 64].map(Mark::of);
        for (at, mark) in marks.iter().enumerate() {
            for other in &marks[..at] {
                assert!(mark.shape != other.shape && mark.colour != other.colour);
            }
        }
        assert_eq!(Mark::of(1), Mark::of(2));
    }
}
