//! Pictures that compare one figure of several libraries: marks on an axis of ratios, or bars from zero.

use std::error::Error;

use plotters::prelude::*;
use plotters::style::text_anchor::HPos;

use super::super::plot::{Area, At, Axis, BAND, Drawn, GRID, Mark, TEXT, say, stroke};

/// A picture.
pub(super) struct Picture<'a> {
    pub(super) title: &'a str,
    /// The explanation of the axis, below each column of panels.
    pub(super) axis: &'a str,
    pub(super) scale: Scale,
    /// The names of the series, each with the number of its colour.
    pub(super) series: &'a [(usize, &'a str)],
    pub(super) panels: Vec<Panel>,
}

/// How values become places.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scale {
    /// Marks on a logarithmic axis, with a line at 1.
    Ratios,
    /// Bars on a linear one.
    Bars,
}

/// A value, and the text beside its bar.
pub(super) type Value = Option<(f64, String)>;

/// Rows under a title.
pub(super) struct Panel {
    pub(super) title: String,
    /// The name of each row, and a value for each of the series.
    pub(super) rows: Vec<(String, Vec<Value>)>,
}

/// The widths of the names, of the values, and of the margin.
const NAMES: i32 = 125;
const VALUES: i32 = 320;
const MARGIN: i32 = 16;
const COLUMNS: usize = 2;
/// The heights of the space above all panels, of a panel's title, and of its ticks.
const TOP: i32 = 76;
const TITLE: i32 = 30;
const TICKS: i32 = 28;
/// The height of the space below all panels.
const BOTTOM: i32 = 30;
/// The width of the text beside the longest bar.
const LABEL: i32 = 66;

impl Picture<'_> {
    /// Returns the picture as SVG.
    pub(super) fn draw(&self) -> Result<String, String> {
        self.svg().map_err(|why| format!("a picture: {why}"))
    }

    fn svg(&self) -> Result<String, Box<dyn Error>> {
        let lines: Vec<&[Panel]> = self.panels.chunks(COLUMNS).collect();
        let heights: Vec<i32> = lines.iter().map(|panels| self.height(panels)).collect();
        let width = MARGIN + i32::try_from(COLUMNS)? * (NAMES + VALUES + MARGIN);
        let height = TOP + heights.iter().sum::<i32>() + BOTTOM;
        let mut svg = String::new();
        {
            let size = (u32::try_from(width)?, u32::try_from(height)?);
            let root = SVGBackend::with_string(&mut svg, size).into_drawing_area();
            root.fill(&WHITE)?;
            say(&root, self.title, (MARGIN, 22), 16, HPos::Left)?;
            self.legend(&root, (MARGIN, 50))?;
            let mut top = TOP;
            for (panels, height) in lines.iter().zip(heights) {
                for (panel, column) in panels.iter().zip(0..) {
                    let left = MARGIN + column * (NAMES + VALUES + MARGIN) + NAMES;
                    self.panel(&root, panel, (left, top))?;
                }
                top += height;
            }
            let middle = (width / 2, height - BOTTOM / 2 - 2);
            say(&root, self.axis, middle, 13, HPos::Center)?;
            root.present()?;
        }
        Ok(svg)
    }

    /// Returns the height of a row of panels.
    fn height(&self, panels: &[Panel]) -> i32 {
        let rows = panels.iter().map(|panel| panel.rows.len()).max();
        let rows = i32::try_from(rows.unwrap_or_default()).unwrap_or_default();
        TITLE + rows * self.step() + TICKS
    }

    /// Returns the height of a row.
    fn step(&self) -> i32 {
        let series = i32::try_from(self.series.len()).unwrap_or_default();
        match self.scale {
            Scale::Ratios => 26,
            Scale::Bars => 10 + 15 * series,
        }
    }

    fn legend(&self, root: &Area<'_>, (mut x, y): At) -> Drawn {
        for &(number, name) in self.series {
            Mark::number(number).draw(root, (x + 6, y), true)?;
            say(root, name, (x + 18, y), 14, HPos::Left)?;
            x += 44 + 8 * i32::try_from(name.len())?;
        }
        Ok(())
    }

    fn panel(&self, root: &Area<'_>, panel: &Panel, (left, top): At) -> Drawn {
        say(root, &panel.title, (left, top + 12), 15, HPos::Left)?;
        let (top, step) = (top + TITLE, self.step());
        let bottom = top + step * i32::try_from(panel.rows.len())?;
        for ((name, _), row) in panel.rows.iter().zip(0..) {
            let y = top + row * step;
            if row % 2 == 0 {
                let corners = [(left - NAMES + 4, y), (left + VALUES, y + step)];
                root.draw(&Rectangle::new(corners, BAND.filled()))?;
            }
            say(root, name, (left - 10, y + step / 2), 13, HPos::Right)?;
        }
        match self.scale {
            Scale::Ratios => self.marks(root, panel, (left, top), bottom),
            Scale::Bars => self.bars(root, panel, (left, top), bottom),
        }
    }

    fn values(&self) -> impl Iterator<Item = f64> {
        let rows = self.panels.iter().flat_map(|panel| &panel.rows);
        let values = rows.flat_map(|(_, values)| values.iter().flatten());
        values.map(|(value, _)| *value)
    }

    /// Draws the values of a panel on the common axis of all panels.
    fn marks(&self, root: &Area<'_>, panel: &Panel, (left, top): At, bottom: i32) -> Drawn {
        let axis = Axis::around(self.values(), VALUES);
        for (ratio, label) in axis.ticks() {
            let x = left + axis.place(ratio);
            stroke(root, (x, top), (x, bottom), GRID.stroke_width(1))?;
            say(root, &label, (x, bottom + 12), 12, HPos::Center)?;
        }
        let one = left + axis.place(1.0);
        stroke(root, (one, top - 4), (one, bottom), TEXT.stroke_width(2))?;
        for ((_, values), row) in panel.rows.iter().zip(0..) {
            let middle = top + row * self.step() + self.step() / 2;
            // Values that are nearly equal would hide each other.
            for ((value, &(number, _)), at) in values.iter().zip(self.series).zip(-1..) {
                if let Some((ratio, _)) = value {
                    let place = (left + axis.place(*ratio), middle + 5 * at);
                    Mark::number(number).draw(root, place, true)?;
                }
            }
        }
        Ok(())
    }

    /// Draws the values of a panel from zero to the highest of this panel.
    fn bars(&self, root: &Area<'_>, panel: &Panel, (left, top): At, bottom: i32) -> Drawn {
        stroke(root, (left, top), (left, bottom), TEXT.stroke_width(1))?;
        let values = panel
            .rows
            .iter()
            .flat_map(|(_, values)| values.iter().flatten());
        let most = values
            .map(|(value, _)| *value)
            .fold(f64::MIN_POSITIVE, f64::max);
        for ((_, values), row) in panel.rows.iter().zip(0..) {
            let first = top + row * self.step() + 5;
            for ((value, &(number, _)), at) in values.iter().zip(self.series).zip(0..) {
                let y = first + 15 * at;
                if let Some((value, label)) = value {
                    let end = left + length(value / most);
                    let bar = Rectangle::new(
                        [(left, y + 2), (end, y + 13)],
                        Mark::number(number).colour().filled(),
                    );
                    root.draw(&bar)?;
                    say(root, label, (end + 6, y + 8), 12, HPos::Left)?;
                }
            }
        }
        Ok(())
    }
}

/// Returns the pixels of a part of the longest bar.
#[expect(clippy::cast_possible_truncation, reason = "between 0 and the width")]
fn length(part: f64) -> i32 {
    (part.clamp(0.0, 1.0) * f64::from(VALUES - LABEL)).round() as i32
}

#[cfg(test)]
mod tests {
    use super::*;

    fn picture(scale: Scale, rows: Vec<(&str, Vec<Option<f64>>)>) -> String {
        let value = |value: Option<f64>| value.map(|value| (value, format!("{value} s")));
        let row = |(name, values): (&str, Vec<Option<f64>>)| {
            (name.to_owned(), values.into_iter().map(value).collect())
        };
        let panel = Panel {
            title: "shm".to_owned(),
            rows: rows.into_iter().map(row).collect(),
        };
        let picture = Picture {
            title: "a picture",
            axis: "an axis",
            scale,
            series: &[(0, "ours"), (1, "theirs")],
            panels: vec![panel],
        };
        picture.draw().unwrap()
    }

    #[test]
    fn every_value_has_a_mark_and_absent_ones_have_none() {
        let circles = |rows| picture(Scale::Ratios, rows).matches("<circle").count();
        // The legend has one; each mark is a disc and its outline.
        assert_eq!(circles(vec![("barrier", vec![None, Some(2.0)])]), 2);
        assert_eq!(circles(vec![("barrier", vec![Some(4.0), Some(2.0)])]), 4);
    }

    #[test]
    fn bars_start_at_zero_and_show_their_values() {
        let svg = picture(Scale::Bars, vec![("2 ranks", vec![Some(1.0), Some(4.0)])]);
        assert!(svg.contains("1 s") && svg.contains("4 s"), "{svg}");
        assert_eq!((length(1.0), length(0.25)), (254, 64));
    }
}
