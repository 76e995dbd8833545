//! The ratios of all rows as a picture: a panel for each backend, a band for each call, a mark for each number of ranks.

use std::error::Error;
use std::fs::File;
use std::io::Write;
use std::path::Path;

use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::book::{Comparison, median};
use super::table::Table;

mod axis;
mod mark;

pub(super) use axis::Axis;
pub(super) use mark::Mark;

/// Where something is, in pixels.
pub(super) type At = (i32, i32);
pub(super) type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
pub(super) type Drawn = Result<(), Box<dyn Error>>;

const FONT: &str = "sans-serif";
pub(super) const TEXT: RGBColor = RGBColor(0x22, 0x22, 0x22);
pub(super) const GRID: RGBColor = RGBColor(0xcc, 0xcc, 0xcc);
pub(super) const BAND: RGBColor = RGBColor(0xf3, 0xf3, 0xf3);

/// The widths of the names of the calls, of the ratios beside them, and of the margin.
const NAMES: i32 = 190;
const RATIOS: i32 = 470;
const MARGIN: i32 = 20;
/// The heights of a mark with its surroundings, of the space above the panels, and of the space below.
const STEP: i32 = 14;
const TOP: i32 = 112;
const BOTTOM: i32 = 64;

/// The widths of the legend, and of a number of ranks in it.
const LEGEND: i32 = 442;
const ENTRY: i32 = 88;

/// Creates the file before anything is measured, so that an unwritable file is noticed early.
pub(super) fn create(path: &Path) -> Result<File, String> {
    File::create(path).map_err(|why| format!("{}: {why}", path.display()))
}

/// Draws the tables that compare ours with others to the file.
pub(super) fn write(mut file: File, heading: &str, tables: &[Table]) -> Result<(), String> {
    let svg = draw(heading, tables).map_err(|why| format!("the plot: {why}"))?;
    let written = file.write_all(svg.as_bytes());
    written.map_err(|why| format!("the plot: {why}"))
}

/// The lines of a table, by call.
struct Panel<'a> {
    title: &'a str,
    other: &'static str,
    bands: Vec<(&'a str, Vec<&'a Comparison>)>,
}

impl<'a> Panel<'a> {
    /// Returns `None` for a table without ratios, or one that compares only our own calls.
    fn new(table: &'a Table) -> Option<Self> {
        let others = ["best peer", "other", "library"];
        let lines = table.lines.iter().filter(|line| !line.ratios.is_empty());
        let mut bands: Vec<(&str, Vec<&Comparison>)> = Vec::new();
        for line in lines {
            let band = bands.iter_mut().find(|(call, _)| *call == line.call);
            match band {
                Some((_, lines)) => lines.push(line),
                None => bands.push((&line.call, vec![line])),
            }
        }
        // Calls that only many ranks have are last in the table; they belong beside the calls of the same name.
        let name = |call: &'a str| call.split(' ').next().unwrap_or(call);
        let names: Vec<&str> = bands.iter().map(|(call, _)| name(call)).collect();
        bands.sort_by_key(|(call, _)| names.iter().position(|other| *other == name(call)));
        (others.contains(&table.other) && !bands.is_empty()).then_some(Self {
            title: &table.title,
            other: table.other,
            bands,
        })
    }

    fn height(&self) -> i32 {
        self.bands.iter().map(|(_, lines)| height(lines)).sum()
    }

    fn lines(&self) -> impl Iterator<Item = &'a Comparison> {
        self.bands
            .iter()
            .flat_map(|(_, lines)| lines.iter().copied())
    }
}

/// Returns the height of a band: at least that of its name.
fn height(lines: &[&Comparison]) -> i32 {
    STEP * i32::try_from(lines.len().max(2)).unwrap_or(i32::MAX / STEP)
}

pub(super) fn draw(heading: &str, tables: &[Table]) -> Result<String, Box<dyn Error>> {
    let panels: Vec<Panel<'_>> = tables.iter().filter_map(Panel::new).collect();
    let lines = || panels.iter().flat_map(Panel::lines);
    let axis = Axis::over(lines(), RATIOS);
    let count = i32::try_from(panels.len().max(1))?;
    let tallest = panels.iter().map(Panel::height).max().unwrap_or(STEP);
    let width = MARGIN + count * (NAMES + RATIOS + MARGIN);
    let ranks = mark::ranks(lines());
    let legend = LEGEND + ENTRY * i32::try_from(ranks.len())?;
    let size = (width.max(legend), TOP + tallest + BOTTOM);
    let mut svg = String::new();
    {
        let size = (u32::try_from(size.0)?, u32::try_from(size.1)?);
        let root = SVGBackend::with_string(&mut svg, size).into_drawing_area();
        root.fill(&WHITE)?;
        say(&root, heading, (MARGIN, 22), 15, HPos::Left)?;
        explain(&root, &ranks, (MARGIN, 50))?;
        for (panel, number) in panels.iter().zip(0..) {
            let left = MARGIN + number * (NAMES + RATIOS + MARGIN) + NAMES;
            draw_panel(&root, panel, &axis, left)?;
        }
        root.present()?;
    }
    Ok(svg)
}

/// Writes a text, aligned left, centred or right at a place, and centred vertically.
pub(super) fn say(root: &Area<'_>, text: &str, at: At, size: i32, anchor: HPos) -> Drawn {
    let font = (FONT, size).into_font().color(&TEXT);
    let style = font.pos(Pos::new(anchor, VPos::Center));
    root.draw(&Text::new(text.to_owned(), at, style))?;
    Ok(())
}

pub(super) fn stroke(root: &Area<'_>, from: At, to: At, style: ShapeStyle) -> Drawn {
    root.draw(&PathElement::new([from, to], style))?;
    Ok(())
}

/// Explains the marks, in one line.
fn explain(root: &Area<'_>, ranks: &[usize], (mut x, y): At) -> Drawn {
    for &ranks in ranks {
        Mark::of(ranks).draw(root, (x + 6, y), true)?;
        say(root, &format!("{ranks} ranks"), (x + 17, y), 13, HPos::Left)?;
        x += ENTRY;
    }
    let black = TEXT.stroke_width(1);
    stroke(root, (x, y), (x + 24, y), black)?;
    say(root, "lowest to highest round", (x + 32, y), 13, HPos::Left)?;
    x += 190;
    target(root, (x + 4, y))?;
    say(root, "target", (x + 14, y), 13, HPos::Left)?;
    x += 72;
    Mark::of(2).draw(root, (x + 6, y), false)?;
    say(root, "hollow: no target", (x + 17, y), 13, HPos::Left)
}

/// Marks the target of a row.
fn target(root: &Area<'_>, (x, y): At) -> Drawn {
    stroke(root, (x, y - 5), (x, y + 5), TEXT.stroke_width(2))
}

fn draw_panel(root: &Area<'_>, panel: &Panel<'_>, axis: &Axis, left: i32) -> Drawn {
    let (top, right) = (TOP, left + RATIOS);
    let bottom = top + panel.height();
    say(root, panel.title, (left, top - 34), 16, HPos::Left)?;
    let mut y = top;
    for (number, (call, lines)) in panel.bands.iter().enumerate() {
        let end = y + height(lines);
        if number % 2 == 0 {
            let corners = [(left - NAMES + 4, y), (right, end)];
            root.draw(&Rectangle::new(corners, BAND.filled()))?;
        }
        say(
            root,
            call,
            (left - 10, i32::midpoint(y, end)),
            13,
            HPos::Right,
        )?;
        y = end;
    }
    for (ratio, label) in axis.ticks() {
        let x = left + axis.place(ratio);
        stroke(root, (x, top), (x, bottom), GRID.stroke_width(1))?;
        say(root, &label, (x, bottom + 14), 13, HPos::Center)?;
    }
    let one = left + axis.place(1.0);
    stroke(root, (one, top - 6), (one, bottom), TEXT.stroke_width(2))?;
    say(root, panel.other, (one, top - 14), 13, HPos::Center)?;
    let told = "our time over the other's of the same round; left of the line ours is faster";
    let middle = left + RATIOS / 2;
    say(root, told, (middle, bottom + 38), 13, HPos::Center)?;
    let mut y = top;
    for (_, lines) in &panel.bands {
        let own = STEP * i32::try_from(lines.len())?;
        let first = y + (height(lines) - own) / 2 + STEP / 2;
        for (line, step) in lines.iter().zip(0..) {
            draw_line(root, line, axis, (left, first + step * STEP))?;
        }
        y += height(lines);
    }
    Ok(())
}

/// Draws the median of a row, the range of its rounds, and its target.
fn draw_line(root: &Area<'_>, line: &Comparison, axis: &Axis, (left, y): At) -> Drawn {
    let Some(middle) = median(line.ratios.clone()) else {
        return Ok(());
    };
    let ratios = line.ratios.iter().copied();
    let ends = [
        ratios.clone().fold(middle, f64::min),
        ratios.fold(middle, f64::max),
    ];
    let [low, high] = ends.map(|end| (left + axis.place(end), y));
    let mark = Mark::of(line.ranks);
    stroke(root, low, high, mark.colour().stroke_width(1))?;
    let most = line.target.most();
    if let Some(most) = most {
        target(root, (left + axis.place(most), y))?;
    }
    mark.draw(root, (left + axis.place(middle), y), most.is_some())
}

#[cfg(test)]
mod tests;
