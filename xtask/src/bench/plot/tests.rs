//! Tests of the picture.

use super::super::table::PEERS;
use super::super::target::Target;
use super::*;

pub(super) fn line(ranks: usize, call: &str, ratio: f64) -> Comparison {
    Comparison {
        ranks,
        call: call.to_owned(),
        ours: Some(ratio),
        other: Some(("mpich".to_owned(), 1.0)),
        ratios: vec![ratio],
        target: Target::AtMost(1.0),
    }
}

fn table(title: &str, other: &'static str, lines: Vec<Comparison>) -> Table {
    Table {
        title: title.to_owned(),
        other,
        unit: "us",
        lines,
    }
}

/// Lists the texts in the picture.
fn texts(svg: &str) -> Vec<&str> {
    let pieces = svg.split("</text>");
    let text = |piece: &'_ str| piece.rfind('>').map(|end| end + 1);
    let texts = pieces.filter_map(|piece| Some(piece[text(piece)?..].trim()));
    texts.filter(|text| !text.is_empty()).collect()
}

#[test]
fn every_call_and_every_number_of_ranks_is_named_once() {
    let lines = vec![
        line(2, "barrier", 0.9),
        line(2, "broadcast 8 B", 1.2),
        line(2, "start-up", 0.2),
        line(64, "barrier", 0.5),
        line(64, "broadcast 1 MiB", 0.6),
    ];
    let tables = [
        table("shm: ours and the peers", PEERS, lines),
        table("shm: ours alone", "to", vec![line(2, "copy", 1.0)]),
    ];
    let svg = draw("2 processors", &tables).unwrap();
    let texts = texts(&svg);
    for once in [
        "2 ranks",
        "64 ranks",
        "barrier",
        "start-up",
        "best peer",
        "1",
    ] {
        let count = texts.iter().filter(|text| **text == once).count();
        assert_eq!(count, 1, "{once} in {texts:?}");
    }
    // Beside calls of its kind, although only more ranks have it; comparisons among our own calls are left out.
    let calls = texts.iter().filter(|text| text.starts_with("broadcast"));
    assert_eq!(calls.count(), 2);
    let place = |call| texts.iter().position(|text| *text == call);
    assert!(place("broadcast 1 MiB") < place("start-up"));
    assert_eq!(place("copy"), None);
}

#[test]
fn a_row_without_a_ratio_and_a_run_without_peers_have_no_marks() {
    let mut alone = line(2, "barrier", 1.0);
    alone.ratios.clear();
    let tables = [table("shm", PEERS, vec![alone])];
    let svg = draw("no peers", &tables).unwrap();
    assert!(!texts(&svg).contains(&"barrier"));
    assert!(svg.trim_end().ends_with("</svg>"));
}

#[test]
fn the_file_holds_the_picture_or_is_refused_at_once() {
    let folder = tempfile::tempdir().unwrap();
    assert!(create(folder.path()).is_err());
    let path = folder.path().join("plot.svg");
    let tables = [table("shm", PEERS, vec![line(2, "barrier", 0.5)])];
    write(create(&path).unwrap(), "heading", &tables).unwrap();
    let svg = std::fs::read_to_string(&path).unwrap();
    assert!(svg.starts_with("<svg") && svg.contains("barrier"), "{svg}");
}

#[test]
fn the_legend_of_all_numbers_of_ranks_fits_beside_one_panel() {
    let lines = [2, 4, 8, 16, 32, 64].map(|ranks| line(ranks, "barrier", 0.5));
    let tables = [table("shm", PEERS, lines.into())];
    let svg = draw("heading", &tables).unwrap();
    let number = |text: &str, name: &str| -> Option<i32> {
        let (_, rest) = text.split_once(name)?;
        rest.split('"').next()?.parse().ok()
    };
    let width = number(&svg, "<svg width=\"").unwrap();
    let end = svg.find("hollow: no target").unwrap();
    let start = svg[..end].rfind("<text").unwrap();
    // A letter of this size is 7 pixels wide, or a little more.
    let right = number(&svg[start..end], " x=\"").unwrap() + 17 * 8;
    assert!(right <= width, "{right} of {width}");
}
