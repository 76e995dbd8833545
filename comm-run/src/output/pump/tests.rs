//! Scripted readers: all ways in which bytes can arrive, and the lines that must come out.

use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::AsyncRead;
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;
use tokio_test::io::Builder;

use super::{LAST_BYTES, LINE_LIMIT, Outlet, Pump};
use crate::output::delivery::Lanes;
use crate::output::lane::ROOM;
use crate::output::pump::{Quota, UNFINISHED_BYTES};
use crate::output::{Line, LineEnd, Sink, Stream};
use crate::supervise::tasks::Event;
use crate::verdict::tail::Tail;

type Lines = Vec<(Vec<u8>, LineEnd)>;

/// The other end of an outlet.
struct Taker {
    lanes: Arc<Lanes>,
    events: mpsc::UnboundedReceiver<Event>,
    taken: std::sync::mpsc::Receiver<(usize, Vec<u8>, LineEnd)>,
}

impl Taker {
    /// Creates an outlet to a sink that calls `before` for each line.
    fn new(before: impl FnMut() -> io::Result<()> + Send + 'static) -> (Outlet, Self) {
        let mut before = before;
        let (sender, taken) = std::sync::mpsc::channel();
        let sink = move |line: Line<'_>| {
            before()?;
            let kept = (line.rank, line.bytes.to_vec(), line.end);
            sender.send(kept).map_err(io::Error::other)
        };
        let lanes = Arc::new(Lanes::start(vec![Box::new(sink) as Box<dyn Sink>]).unwrap());
        let (report, events) = mpsc::unbounded_channel();
        let outlet = Outlet::begin(&lanes, &report);
        let other_end = Self {
            lanes,
            events,
            taken,
        };
        (outlet, other_end)
    }

    /// Waits until the sink has everything, and returns it with the ranks.
    async fn all_of_ranks(mut self) -> Vec<(usize, Vec<u8>, LineEnd)> {
        while !matches!(self.events.recv().await, Some(Event::Delivered)) {}
        assert_eq!(self.lanes.left(), 0);
        self.taken.try_iter().collect()
    }

    async fn all(self) -> Lines {
        let lines = self.all_of_ranks().await.into_iter();
        lines.map(|(_, line, end)| (line, end)).collect()
    }
}

fn outlet() -> (Outlet, Taker) {
    Taker::new(|| Ok(()))
}

fn pump(outlet: &Outlet, rank: usize, limit: usize) -> (Pump, watch::Sender<bool>) {
    let (leave, leaving) = watch::channel(false);
    let tail = Arc::new(Mutex::new(Tail::default()));
    (
        Pump {
            rank,
            stream: Stream::Stdout,
            outlet: outlet.clone(),
            tail,
            leaving,
            limit,
            quota: Quota::for_streams(1)(),
            patience: None,
            open: false,
        },
        leave,
    )
}

async fn read_limited(reader: impl AsyncRead + Unpin, limit: usize) -> (io::Result<()>, Lines) {
    let (outlet, taker) = outlet();
    let (pump, _leave) = pump(&outlet, 0, limit);
    drop(outlet);
    let result = pump.run(reader).await;
    (result, taker.all().await)
}

async fn read(reader: impl AsyncRead + Unpin) -> Lines {
    let (result, lines) = read_limited(reader, LINE_LIMIT).await;
    result.unwrap();
    lines
}

fn whole(texts: &[&[u8]]) -> Lines {
    texts
        .iter()
        .map(|text| (text.to_vec(), LineEnd::Newline))
        .collect()
}

#[tokio::test]
async fn a_line_in_pieces_comes_out_whole() {
    let reader = Builder::new()
        .read(b"one ")
        .read(b"li")
        .read(b"ne\ntwo")
        .read(b"\n")
        .build();
    assert_eq!(read(reader).await, whole(&[b"one line", b"two"]));
}

#[tokio::test]
async fn a_last_line_without_newline_is_marked() {
    let lines = read(Builder::new().read(b"one\ntwo").build()).await;
    assert_eq!(
        lines,
        [
            (b"one".to_vec(), LineEnd::Newline),
            (b"two".to_vec(), LineEnd::Missing)
        ]
    );
}

#[tokio::test]
async fn empty_lines_and_carriage_returns_pass() {
    let lines = read(Builder::new().read(b"\n\n a\r").read(b"\n\r\n").build()).await;
    assert_eq!(lines, whole(&[b"", b"", b" a\r", b"\r"]));
}

#[tokio::test]
async fn bytes_that_are_no_text_pass_untouched() {
    // A snowman split between two reads, then bytes that are not UTF-8, zeros included.
    let reader = Builder::new()
        .read(b"\xe2\x98")
        .read(b"\x83\n\xff\x00\xfe\n")
        .build();
    assert_eq!(
        read(reader).await,
        whole(&["\u{2603}".as_bytes(), b"\xff\x00\xfe"])
    );
}

#[tokio::test]
async fn nothing_at_all_gives_no_line() {
    assert_eq!(read(Builder::new().build()).await, whole(&[]));
}

#[tokio::test]
async fn ten_megabytes_in_one_line_come_out_whole() {
    let long: Vec<u8> = (0..10_000_000_u32).map(|n| b'a' + (n % 26) as u8).collect();
    let mut script = Builder::new();
    for piece in long.chunks(65_536) {
        script.read(piece);
    }
    let lines = read(script.read(b"\nnext\n").build()).await;
    assert!(lines == whole(&[&long, b"next"]), "{} lines", lines.len());
}

#[tokio::test]
async fn a_line_above_the_limit_is_split_and_marked() {
    let (result, lines) =
        read_limited(Builder::new().read(b"abcdefgh").read(b"ij\nk\n").build(), 4).await;
    result.unwrap();
    let expected = [
        (b"abcd".to_vec(), LineEnd::Limit),
        (b"efgh".to_vec(), LineEnd::Limit),
        (b"ij".to_vec(), LineEnd::Newline),
        (b"k".to_vec(), LineEnd::Newline),
    ];
    assert_eq!(lines, expected);
}

#[tokio::test]
async fn what_came_before_an_error_is_kept() {
    let reader = Builder::new()
        .read(b"one\ntw")
        .read_error(io::Error::other("torn"))
        .build();
    let (result, lines) = read_limited(reader, LINE_LIMIT).await;
    assert_eq!(result.unwrap_err().to_string(), "torn");
    assert_eq!(
        lines,
        [
            (b"one".to_vec(), LineEnd::Newline),
            (b"tw".to_vec(), LineEnd::Missing)
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn two_streams_never_mix_within_a_line() {
    let (outlet, taker) = outlet();
    let pause = Duration::from_millis(1);
    let mut first = Builder::new();
    let mut second = Builder::new();
    for _ in 0..100 {
        first
            .read(b"aaa")
            .wait(pause)
            .read(b"aaa\naa")
            .wait(pause)
            .read(b"a\n");
        second
            .wait(pause)
            .read(b"b")
            .wait(pause)
            .read(b"bb\nb\nbb\n");
    }
    let (one, _leave_one) = pump(&outlet, 0, LINE_LIMIT);
    let (two, _leave_two) = pump(&outlet, 1, LINE_LIMIT);
    drop(outlet);
    let (one, two) = tokio::join!(one.run(first.build()), two.run(second.build()));
    one.unwrap();
    two.unwrap();
    let mut seen = [Vec::new(), Vec::new()];
    let mut changes = 0;
    let mut last = 0;
    for (rank, line, _) in taker.all_of_ranks().await {
        changes += usize::from(std::mem::replace(&mut last, rank) != rank);
        seen[rank].extend_from_slice(&line);
        seen[rank].push(b'\n');
    }
    assert_eq!(seen[0], b"aaaaaa\naaa\n".repeat(100));
    assert_eq!(seen[1], b"bbb\nb\nbb\n".repeat(100));
    assert!(changes > 100, "the streams did interleave: {changes}");
}

#[tokio::test]
async fn a_slow_writer_stops_the_reader_and_loses_nothing() {
    let (go_on, wait) = std::sync::mpsc::channel::<()>();
    // Blocks until it may continue, then no longer.
    let (outlet, taker) = Taker::new(move || {
        let _ = wait.recv();
        Ok(())
    });
    let (pump, _leave) = pump(&outlet, 0, LINE_LIMIT);
    drop(outlet);
    let line = [vec![b'x'; 99_999], b"\n".to_vec()].concat();
    let total = 4 * ROOM / line.len();
    let mut script = Builder::new();
    for _ in 0..total {
        script.read(&line);
    }
    let mut pumping = tokio_test::task::spawn(pump.run(script.build()));
    // Polled until it waits for room, while no sink takes lines.
    assert!(pumping.poll().is_pending());
    let left = taker.lanes.left();
    assert!((1..total).contains(&left), "{left} of {total} wait");
    drop(go_on);
    pumping.await.unwrap();
    let lines = taker.all().await;
    assert!(lines.iter().all(|(bytes, _)| bytes.len() == 99_999));
    assert_eq!(lines.len(), total);
}

#[tokio::test]
async fn a_writer_that_is_gone_does_not_stop_the_reader() {
    let (outlet, mut taker) = Taker::new(|| Err(io::Error::other("gone")));
    let (pump, _leave) = pump(&outlet, 0, LINE_LIMIT);
    drop(outlet);
    let line = [vec![b'x'; 99_999], b"\n".to_vec()].concat();
    let mut script = Builder::new();
    for _ in 0..2 * ROOM / line.len() {
        script.read(&line);
    }
    pump.run(script.build()).await.unwrap();
    // Once, and before the end.
    assert!(
        matches!(taker.events.recv().await, Some(Event::Lost(error)) if error.to_string() == "gone")
    );
    assert!(taker.all().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_pipe_held_open_after_the_end_is_not_waited_for() {
    let (outlet, taker) = outlet();
    let (pump, leave) = pump(&outlet, 0, LINE_LIMIT);
    drop(outlet);
    // The output of the rank is in the pipe; the process that still holds the pipe would write again in an hour.
    let (mut holder, reader) = tokio::io::duplex(64);
    tokio::io::AsyncWriteExt::write_all(&mut holder, b"last words")
        .await
        .unwrap();
    leave.send(true).unwrap();
    let since = Instant::now();
    pump.run(reader).await.unwrap();
    assert!(
        since.elapsed() < Duration::from_secs(1),
        "{:?}",
        since.elapsed()
    );
    assert_eq!(
        taker.all().await,
        [(b"last words".to_vec(), LineEnd::Missing)]
    );
    drop(holder);
}

#[tokio::test]
async fn a_pipe_filled_for_ever_after_the_end_is_left() {
    let (outlet, taker) = outlet();
    let (pump, leave) = pump(&outlet, 0, LINE_LIMIT);
    drop(outlet);
    leave.send(true).unwrap();
    pump.run(tokio::io::repeat(b'\n')).await.unwrap();
    // A read or two more: the first happens before the flag is seen, and the last may be long.
    let lines = taker.all().await.len();
    assert!(
        (LAST_BYTES..LAST_BYTES + (1 << 20)).contains(&lines),
        "{lines}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_live_line_is_passed_on_when_it_pauses_and_not_between_two_reads() {
    let pause = Duration::from_millis(30);
    let reader = Builder::new()
        .read(b"one ")
        .read(b"line\n10%")
        .wait(pause)
        .read(b"\r20")
        .read(b"%")
        .wait(pause)
        .read(b"\nlast")
        .build();
    let (outlet, taker) = outlet();
    let (mut pump, _leave) = pump(&outlet, 0, LINE_LIMIT);
    pump.patience = Some(Duration::from_millis(20));
    let tail = Arc::clone(&pump.tail);
    drop(outlet);
    pump.run(reader).await.unwrap();
    let expected = [
        (&b"one line"[..], LineEnd::Newline),
        (b"10%", LineEnd::Open),
        (b"\r20%", LineEnd::Open),
        (b"", LineEnd::Newline),
        (b"last", LineEnd::Missing),
    ];
    assert_eq!(
        taker.all().await,
        expected.map(|(line, end)| (line.to_vec(), end))
    );
    let kept = tail.lock().unwrap().take();
    let kept: Vec<_> = kept.into_iter().map(|line| line.bytes).collect();
    assert_eq!(kept, [&b"one line"[..], b"10%\r20%", b"last"]);
}

#[tokio::test(start_paused = true)]
async fn a_line_that_was_passed_on_whole_is_ended_by_the_end_of_the_stream() {
    let reader = Builder::new()
        .read(b"name? ")
        .wait(Duration::from_millis(30))
        .build();
    let (outlet, taker) = outlet();
    let (mut pump, _leave) = pump(&outlet, 0, LINE_LIMIT);
    pump.patience = Some(Duration::from_millis(20));
    drop(outlet);
    pump.run(reader).await.unwrap();
    let expected = [
        (b"name? ".to_vec(), LineEnd::Open),
        (Vec::new(), LineEnd::Missing),
    ];
    assert_eq!(taker.all().await, expected);
}

#[tokio::test]
async fn streams_that_hold_too_much_together_pass_it_on() {
    let (outlet, taker) = outlet();
    let mut quota = Quota::for_streams(2);
    let piece = vec![b'x'; 64 << 10];
    let mut script = Builder::new();
    for _ in 0..=UNFINISHED_BYTES / piece.len() / 2 {
        script.read(&piece);
    }
    let (mut one, _leave) = pump(&outlet, 0, LINE_LIMIT);
    one.quota = quota();
    let mut other = quota();
    other.set(UNFINISHED_BYTES / 2);
    drop(outlet);
    one.run(script.read(b"y\n").build()).await.unwrap();
    let ends: Vec<_> = taker.all().await;
    let ends: Vec<_> = ends.iter().map(|(line, end)| (line.len(), *end)).collect();
    let expected = [
        (UNFINISHED_BYTES / 2 + piece.len(), LineEnd::Limit),
        (1, LineEnd::Newline),
    ];
    assert_eq!(ends, expected);
}

#[test]
fn one_stream_may_hold_everything_and_many_their_share() {
    let mut stream = Quota::for_streams(4);
    let (mut one, mut two) = (stream(), stream());
    one.set(UNFINISHED_BYTES);
    assert!(!one.is_too_much());
    two.set(1);
    // The stream that holds little continues.
    assert!(one.is_too_much() && !two.is_too_much());
    one.set(UNFINISHED_BYTES / 4);
    two.set(UNFINISHED_BYTES);
    assert!(two.is_too_much() && !one.is_too_much());
    drop(one);
    assert!(!two.is_too_much());
}
