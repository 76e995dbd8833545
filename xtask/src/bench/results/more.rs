//! The pictures of start-up and of the solver.

use super::super::Backend;
use super::super::contender::Contender;
use super::super::solver::{ALONE, SOLVED};
use super::super::start_up;
use super::figures::{Figures, LIBRARIES, digits, time};
use super::picture::{Panel, Picture, Scale, Value};

/// Draws the time in which all ranks start, call one barrier and end.
pub(super) fn start_up(figures: &Figures) -> Result<String, String> {
    let call = start_up::ROW.to_string();
    let panel = |backend: Backend| {
        let rows = figures.of(backend).filter_map(|results| {
            let times = results.by_library(&call);
            times[0]?;
            let bar = |value: Option<f64>| value.map(|value| (value, time(value)));
            let bars = times[..3].iter().copied().map(bar).collect();
            Some((format!("{} ranks", results.contest.setting.ranks), bars))
        });
        Panel {
            title: format!("Start-up, {}", backend.name()),
            rows: rows.collect(),
        }
    };
    let picture = Picture {
        title: "Start all ranks, one barrier, end",
        axis: "each panel has a scale of its own",
        scale: Scale::Bars,
        series: &[(0, LIBRARIES[0]), (1, LIBRARIES[1]), (2, LIBRARIES[2])],
        panels: [Backend::Shm, Backend::Tcp].map(panel).into(),
    };
    picture.draw()
}

/// Draws the time of the solver, and the memory of a large case on both backends.
pub(super) fn solver(figures: &Figures) -> Result<String, String> {
    let bar = |ranks: usize, call: &str, unit: &str| -> Value {
        let value = figures.books.get(&ranks)?.median(Contender::Ours, call)?;
        Some((value, format!("{} {unit}", digits(value))))
    };
    let ranks = || figures.books.keys().copied();
    let named = |ranks: usize| match ranks {
        1 => "1 rank".to_owned(),
        _ => format!("{ranks} ranks"),
    };
    let one = ranks().find_map(|ranks| bar(ranks, ALONE, "s"));
    let many = ranks().map(|ranks| (named(ranks), bar(ranks, SOLVED, "s")));
    let times = [(named(1), one)].into_iter().chain(many);
    let times = times.filter(|(_, time)| time.is_some());
    let memory = ranks().map(|ranks| {
        let bars = ["shm", "tcp"].map(|backend| bar(ranks, backend, "MB"));
        (named(ranks), bars.into())
    });
    let memory = memory.filter(|(_, bars): &(_, Vec<Value>)| bars.iter().any(Option::is_some));
    let picture = Picture {
        title: "The example solver",
        axis: "each panel has a scale of its own",
        scale: Scale::Bars,
        series: &[(0, "shm"), (1, "tcp")],
        panels: vec![
            Panel {
                title: "Time of one case".to_owned(),
                rows: times.map(|(name, time)| (name, vec![time, None])).collect(),
            },
            Panel {
                title: "Memory of all ranks, 160 MB of data".to_owned(),
                rows: memory.collect(),
            },
        ],
    };
    picture.draw()
}
