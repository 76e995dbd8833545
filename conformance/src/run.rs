//! The state of a case on one rank: its seat, the notice board, and the report to the driver.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use comm_api::Communicator;

use crate::board::Board;
use crate::orders::{Orders, Placement};
use crate::report::{Leaving, RankReport};
use crate::subject::{Failure, PORT, Seat, Subject};

/// Runs a case on one rank.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) orders: Orders,
    pub(crate) rank: usize,
    pub(crate) report: RankReport,
    board: Board,
    position: Arc<Position>,
    expected: Mutex<Option<Leaving>>,
}

/// The current position of a rank, for the message of a watchdog.
#[derive(Debug, Default)]
pub(crate) struct Position(Mutex<String>);

impl Position {
    pub(crate) fn set(&self, place: String) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = place;
    }

    pub(crate) fn get(&self) -> String {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

impl Run {
    /// Takes the seat of `rank`; fails if another process has taken it.
    pub(crate) fn new(orders: Orders, rank: usize) -> std::io::Result<Self> {
        let report = RankReport::create(&orders.report(rank), rank, orders.size, &orders.name)?;
        Ok(Self {
            board: Board::new(orders.board()),
            rank,
            report,
            position: Arc::default(),
            expected: Mutex::new(None),
            orders,
        })
    }

    /// Returns the number of ranks.
    pub(crate) fn size(&self) -> usize {
        self.orders.size
    }

    /// Returns how many of `calls` to make: fewer where each takes long.
    pub(crate) fn calls(&self, calls: usize) -> usize {
        calls.min(self.orders.most)
    }

    /// Returns all ranks except this one.
    pub(crate) fn others(&self) -> impl Iterator<Item = usize> + use<> {
        let rank = self.rank;
        (0..self.size()).filter(move |&other| other != rank)
    }

    /// Returns whether ranks are processes, which can be killed individually.
    pub(crate) fn processes(&self) -> bool {
        self.orders.placement() == Placement::Processes
    }

    /// Returns the seat of this rank in the communicator `tag`. Its timeout is shorter than the watchdog's,
    /// so that a hang appears as the backend's own error if it has one.
    pub(crate) fn seat(&self, tag: &str) -> Seat {
        let name = if tag.is_empty() {
            self.orders.name.clone()
        } else {
            format!("{}-{tag}", self.orders.name)
        };
        Seat {
            rank: self.rank,
            size: self.size(),
            name,
            timeout: Some(self.orders.limit / 2),
            connect_timeout: self.orders.limit / 2,
            board: self.board.clone(),
            door: PORT,
            relayed: false,
        }
    }

    /// Opens the communicator of this job.
    pub(crate) fn open<S: Subject>(&self) -> Result<S::Comm, Failure> {
        self.open_seat::<S>(&self.seat(""))
    }

    /// Opens a communicator and reports its rank and size.
    pub(crate) fn open_seat<S: Subject>(&self, seat: &Seat) -> Result<S::Comm, Failure> {
        self.at(format_args!("opening {}", seat.name()));
        let comm = S::open(seat)?;
        let opened = (comm.rank(), comm.size());
        self.report.opened(opened.0, opened.1);
        if opened != (self.rank, self.size()) {
            let (rank, size) = (self.rank, self.size());
            let message = format!(
                "opened as rank {} of {}, ordered to be rank {rank} of {size}",
                opened.0, opened.1
            );
            return Err(message.into());
        }
        self.at(format_args!("opened {}", seat.name()));
        Ok(comm)
    }

    /// Records the current position of this rank.
    pub(crate) fn at(&self, place: fmt::Arguments<'_>) {
        self.position.set(place.to_string());
    }

    /// Returns the position for watchdogs to read.
    pub(crate) fn position(&self) -> Arc<Position> {
        Arc::clone(&self.position)
    }

    /// Announces that this rank leaves without finishing.
    pub(crate) fn leaving(&self, how: Leaving) {
        *self.expected.lock().unwrap_or_else(PoisonError::into_inner) = Some(how);
        self.report.leaving(how);
    }

    /// Returns what was announced.
    pub(crate) fn announced(&self) -> Option<Leaving> {
        *self.expected.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Posts a notice of this rank for all others.
    pub(crate) fn post(&self, key: &str, value: &str) -> Result<(), Failure> {
        Ok(self.board.post(&format!("{key}-{}", self.rank), value)?)
    }

    /// Reads a notice of `rank`, if there is one.
    pub(crate) fn posted(&self, rank: usize, key: &str) -> Option<String> {
        self.board.read(&format!("{key}-{rank}"))
    }

    /// Waits for a notice of `rank`.
    pub(crate) fn wait(&self, rank: usize, key: &str) -> Result<String, Failure> {
        self.at(format_args!("waiting for '{key}' of rank {rank}"));
        let limit = self.orders.limit / 2;
        Ok(self.board.wait(&format!("{key}-{rank}"), limit)?)
    }

    /// Waits for the same notice of all `ranks`.
    pub(crate) fn wait_all(
        &self,
        ranks: impl IntoIterator<Item = usize>,
        key: &str,
    ) -> Result<(), Failure> {
        for rank in ranks {
            self.wait(rank, key)?;
        }
        Ok(())
    }

    /// Sleeps on purpose, so that this rank is late.
    pub(crate) fn dawdle(&self, time: Duration) {
        self.at(format_args!("coming late on purpose"));
        let start = Instant::now();
        while let Some(rest) = time.checked_sub(start.elapsed()) {
            std::thread::sleep(rest);
        }
    }
}
