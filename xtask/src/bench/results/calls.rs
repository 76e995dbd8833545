//! The figures of calls: from the results of a campaign to a sheet, and back.

use clap::ValueEnum;

use super::super::Backend;
use super::super::book::{Book, span};
use super::super::contender::{Contender, Peer, Setting};
use super::super::contest::Results;
use super::super::plan::Contest;
use super::super::row::Row;
use super::sheet::{Line, Sheet};

const MEDIAN: &str = "median_us";
const SPAN: &str = "span_us";

/// Lists all figures of the results.
pub(super) fn lines(results: &[Results]) -> Vec<Line> {
    results.iter().flat_map(of).collect()
}

fn of(results: &Results) -> Vec<Line> {
    let Contest { setting, peers, .. } = &results.contest;
    let contenders: Vec<Contender> = [Contender::Ours].iter().chain(peers).copied().collect();
    let mut lines = Vec::new();
    for row in results.contest.all_rows() {
        for &who in &contenders {
            for (figure, call) in [(MEDIAN, row.to_string()), (SPAN, span(row))] {
                let Some(rounds) = results.book.rounds(who, &call) else {
                    continue;
                };
                lines.push(Line {
                    backend: setting.backend.name().to_owned(),
                    ranks: setting.ranks,
                    contender: who.name().to_owned(),
                    call: format!("{}:{}", row.op, row.bytes),
                    figure: figure.to_owned(),
                    rounds: rounds.clone(),
                });
            }
        }
    }
    lines
}

/// Rebuilds the results of one backend with one number of ranks.
pub(super) fn results(sheet: &Sheet, cores: usize) -> Result<Vec<Results>, String> {
    // A row that a peer measured in any setting is compared in all of them, even if all peers gave it up there.
    let theirs = sheet.lines.iter();
    let theirs = theirs.filter(|line| line.contender != Contender::Ours.name());
    let rows: Result<Vec<Row>, String> = theirs.map(|line| line.call.parse()).collect();
    let rows = rows?;
    let place = |line: &Line| (line.backend.clone(), line.ranks);
    let groups = sheet.lines.chunk_by(|a, b| place(a) == place(b));
    groups.map(|lines| together(lines, &rows, cores)).collect()
}

fn together(lines: &[Line], compared: &[Row], cores: usize) -> Result<Results, String> {
    let Line { backend, ranks, .. } = &lines[0];
    let setting = Setting {
        backend: Backend::from_str(backend, false)?,
        ranks: *ranks,
        crowded: *ranks > cores,
        seconds: 0.0,
        limit: 0,
    };
    let mut contest = Contest {
        setting,
        peers: Vec::new(),
        compared: Vec::new(),
        extra: Vec::new(),
        left_out: Vec::new(),
    };
    let mut book = Book::default();
    for line in lines {
        let row: Row = line.call.parse()?;
        let who = contender(&line.contender)?;
        let call = match &*line.figure {
            MEDIAN => row.to_string(),
            SPAN => span(row),
            other => return Err(format!("there is no figure {other}")),
        };
        for (&round, &time) in &line.rounds {
            book.record(round, who, call.clone(), time);
        }
        if who != Contender::Ours {
            add(&mut contest.peers, who);
        }
        let rows = if compared.contains(&row) {
            &mut contest.compared
        } else {
            &mut contest.extra
        };
        add(rows, row);
    }
    Ok(Results {
        contest,
        book,
        good: true,
    })
}

fn add<T: PartialEq>(list: &mut Vec<T>, one: T) {
    if !list.contains(&one) {
        list.push(one);
    }
}

fn contender(name: &str) -> Result<Contender, String> {
    let peers = Peer::ALL.into_iter();
    let peers = peers.flat_map(|peer| [Contender::Peer(peer), Contender::Mpir(peer)]);
    let mut all = [Contender::Ours].into_iter().chain(peers);
    all.find(|who| who.name() == name)
        .ok_or_else(|| format!("there is no contender {name}"))
}

#[cfg(test)]
mod tests {
    use super::super::super::row::Op;
    use super::super::super::tests::{figure, setting};
    use super::*;

    #[test]
    fn results_are_the_same_after_they_were_written_and_read() {
        let (told, alone) = (Row::new(Op::Broadcast, 8), Row::new(Op::Exchange, 8));
        let mpir = Contender::Mpir(Peer::Mpich);
        let mut book = Book::default();
        for round in [1, 3] {
            book.figure(round, Contender::Ours, &figure(told, 2.0));
            book.figure(round, Contender::Ours, &figure(alone, 0.5));
            book.figure(round, mpir, &figure(told, 4.0));
        }
        let contest = Contest {
            setting: setting(Backend::Shm, 8, true),
            peers: vec![Contender::Peer(Peer::OpenMpi), mpir],
            compared: vec![told],
            extra: vec![alone],
            left_out: Vec::new(),
        };
        let before = Results {
            contest,
            book,
            good: true,
        };
        let mut sheet = Sheet {
            lines: lines(&[before]),
            ..Sheet::default()
        };
        assert_eq!(sheet.lines.len(), 5);
        let after = results(&Sheet::parse(&sheet.text().unwrap()).unwrap(), 2).unwrap();
        assert_eq!(lines(&after), sheet.lines);
        let contest = &after[0].contest;
        assert_eq!(
            (&contest.compared, &contest.extra),
            (&vec![told], &vec![alone])
        );
        assert_eq!(contest.peers, [mpir]);
        assert!(contest.setting.crowded);
        "nobody".clone_into(&mut sheet.lines[0].contender);
        assert!(results(&sheet, 2).is_err());
    }
}
