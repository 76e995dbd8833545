//! Publishes the results: the figures in `docs/results`, and from these the page `docs/results.md`, its pictures, and the table of the
//! README.

use std::fs;
use std::path::Path;

use super::campaign::Campaign;
use super::plot;
use super::record::Record;
use super::{Backend, Bench, Sizes, solver};
use crate::process::workspace_root;

mod calls;
mod figures;
mod glance;
mod machine;
mod more;
mod page;
mod picture;
mod sheet;
mod solved;

use figures::Figures;
use sheet::Sheet;

/// The published files, relative to the root of the workspace.
const FOLDER: &str = "docs/results";
const PAGE: &str = "docs/results.md";
const README: &str = "README.md";
/// The sheets in that folder.
const CALLS: &str = "calls.csv";
const SOLVER: &str = "solver.csv";

/// The marks around the table in the README.
const BEGIN: &str = "<!-- results: written by cargo xtask bench --results -->\n";
const END: &str = "<!-- end of results -->";

/// Measures, unless only the page is requested, and writes everything; returns whether everything succeeded.
pub(super) fn run(bench: &Bench) -> bool {
    let root = workspace_root();
    let measured = if bench.from_csv {
        Ok(true)
    } else {
        measure(bench, &root)
    };
    let written = measured.and_then(|good| publish(&root).map(|()| good));
    match written {
        Ok(good) => {
            println!("written: {PAGE}, {FOLDER}, {README}");
            good
        }
        Err(reason) => {
            eprintln!("bench: {reason}");
            false
        }
    }
}

/// Measures the calls, the solver or both, and keeps the figures; returns whether everything ran.
fn measure(bench: &Bench, root: &Path) -> Result<bool, String> {
    let mut record = Record::create(bench.csv.as_deref())?;
    let mut good = true;
    let part = !bench.row.is_empty() || bench.rows != Sizes::All;
    if !bench.solver {
        let campaign = Campaign::prepare(bench)?;
        let about = machine::about(&campaign.heading);
        let keep = |results: &[_]| {
            let sheet = Sheet {
                about: about.clone(),
                lines: calls::lines(results),
            };
            save(root, CALLS, &sheet)
        };
        let results = campaign.play(bench, &mut record, keep)?;
        good = results.iter().all(|results| results.good);
    }
    if bench.solver || !part {
        let books = solver::measure(bench, &mut record)?;
        let sheet = Sheet {
            about: machine::about("the example solver"),
            lines: solved::lines(&books),
        };
        save(root, SOLVER, &sheet)?;
    }
    Ok(good)
}

fn save(root: &Path, name: &str, sheet: &Sheet) -> Result<(), String> {
    write(root, &format!("{FOLDER}/{name}"), &sheet.text()?)
}

fn write(root: &Path, path: &str, text: &str) -> Result<(), String> {
    let path = root.join(path);
    let folder = path.parent().unwrap_or(root);
    let written = fs::create_dir_all(folder).and_then(|()| fs::write(&path, text));
    written.map_err(|why| format!("{}: {why}", path.display()))
}

/// Writes everything that is computed from the figures.
fn publish(root: &Path) -> Result<(), String> {
    let files = files(root)?;
    files
        .iter()
        .try_for_each(|(path, text)| write(root, path, text))
}

/// Returns the paths and texts of everything that is computed from the figures.
fn files(root: &Path) -> Result<Vec<(String, String)>, String> {
    let figures = Figures::read(&root.join(FOLDER))?;
    let mut pictures = vec![("overview", glance::picture(&figures)?)];
    if figures.has_starts() {
        pictures.push(("start-up", more::start_up(&figures)?));
    }
    if !figures.books.is_empty() {
        pictures.push(("solver", more::solver(&figures)?));
    }
    for backend in [Backend::Shm, Backend::Tcp] {
        let table = page::table(&figures, backend);
        let (name, date) = (backend.name(), figures.calls.about("date"));
        let heading = format!("cobre-comm on {name} beside the fastest peer, {date}");
        let svg = plot::draw(&heading, &[table]).map_err(|why| format!("a picture: {why}"))?;
        pictures.push((backend.name(), svg));
    }
    let pictures = pictures.into_iter();
    let path = |name| format!("{FOLDER}/{name}.svg");
    let mut files: Vec<_> = pictures.map(|(name, svg)| (path(name), svg)).collect();
    files.push((PAGE.to_owned(), page::text(&figures)));
    let readme = fs::read_to_string(root.join(README));
    let readme = readme.map_err(|why| format!("{README}: {why}"))?;
    let glance = format!(
        "{}\n![How many times as long as cobre-comm the others take]({FOLDER}/overview.svg)\n",
        glance::table(&figures)
    );
    let readme = with_table(&readme, &glance)?;
    files.push((README.to_owned(), readme));
    Ok(files)
}

/// Inserts the table between its marks.
fn with_table(readme: &str, table: &str) -> Result<String, String> {
    let marks = || format!("{README} has no place for the table, between {BEGIN}and {END}");
    let (before, rest) = readme.split_once(BEGIN).ok_or_else(marks)?;
    let (_, after) = rest.split_once(END).ok_or_else(marks)?;
    Ok(format!("{before}{BEGIN}\n{table}\n{END}{after}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_repository_shows_is_made_of_its_figures() {
        let root = workspace_root();
        for (path, text) in files(&root).unwrap() {
            let there = fs::read_to_string(root.join(&path)).unwrap_or_default();
            assert!(
                there == text,
                "{path} differs from its figures: cargo xtask bench --results --from-csv"
            );
        }
    }

    #[test]
    fn a_table_takes_the_place_of_the_one_before() {
        let readme = format!("# One\n{BEGIN}old\n{END}\nTwo\n");
        let new = with_table(&readme, "| new |\n").unwrap();
        assert_eq!(new, format!("# One\n{BEGIN}\n| new |\n\n{END}\nTwo\n"));
        assert_eq!(with_table(&new, "| new |\n"), Ok(new));
        assert!(with_table("# One\n", "| new |").is_err());
    }
}
