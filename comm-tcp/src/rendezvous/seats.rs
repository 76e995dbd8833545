//! Who has come to rank 0 so far.

use std::io::ErrorKind;
use std::net::{SocketAddr, TcpStream};

use super::accept::{Admission, Proven};
use super::{Identity, NOWHERE, number};
use crate::handshake::{Hello, LinkKind, SESSION, Status};
use crate::link::Channel;

/// The seats of all workers: a seat is kept for a rank until its links have come.
#[derive(Debug)]
pub(crate) struct Seats<'a> {
    identity: &'a Identity,
    seats: Vec<Seat>,
}

/// The links of one worker, as far as they have come.
#[derive(Debug, Default)]
pub(crate) struct Seat {
    pub(crate) data: Option<Proven>,
    pub(crate) watch: Option<Channel>,
}

impl<'a> Seats<'a> {
    pub(crate) fn new(identity: &'a Identity) -> Self {
        let seats = (1..identity.size).map(|_| Seat::default()).collect();
        Self { identity, seats }
    }

    /// Returns the ranks that have not come.
    pub(crate) fn missing(&self) -> Vec<usize> {
        let empty = |seat: &Seat| seat.data.is_none() || seat.watch.is_none();
        let seats = self.seats.iter().enumerate();
        let missing = seats.filter(|(_, seat)| empty(seat));
        missing.map(|(place, _)| place + 1).collect()
    }

    /// Returns the data links there are, with their places.
    pub(crate) fn streams(&self) -> impl Iterator<Item = (usize, &TcpStream)> {
        let seats = self.seats.iter().enumerate();
        seats.filter_map(|(place, seat)| Some((place, &*seat.data.as_ref()?.stream)))
    }

    /// Frees a seat whose worker has gone again; a worker has nothing to say before all are there.
    pub(crate) fn recheck(&mut self, place: usize) {
        let seat = &mut self.seats[place];
        let Some(data) = &seat.data else {
            return;
        };
        let silent = data.stream.peek(&mut [0]);
        if !silent.is_err_and(|error| error.kind() == ErrorKind::WouldBlock) {
            let rank = place + 1;
            tracing::warn!(rank, address = %data.address, "a rank left before all had come");
            *seat = Seat::default();
        }
    }

    /// Takes the data links there are, with their ranks.
    pub(crate) fn take_data(&mut self) -> Vec<(usize, Channel)> {
        let seats = self.seats.iter_mut().zip(1..);
        let data = seats.filter_map(|(seat, rank)| Some((rank, seat.data.take()?.stream)));
        data.collect()
    }

    pub(crate) fn into_seats(self) -> Vec<Seat> {
        self.seats
    }

    /// Returns where rank `of` finds its successor. An address on loopback means the machine of rank
    /// 0, which others reach by the address they reached rank 0 at.
    pub(crate) fn successor(&self, of: usize) -> SocketAddr {
        let next = (of + 1) % self.identity.size;
        let data = |rank: usize| self.seats.get(rank.wrapping_sub(1))?.data.as_ref();
        let Some(there) = data(next) else {
            return NOWHERE;
        };
        let mut address = there.hello.ring;
        if let Some(here) = data(of)
            && address.ip().is_loopback()
            && !here.address.ip().to_canonical().is_loopback()
            && let Ok(local) = here.stream.local_addr()
        {
            address.set_ip(local.ip().to_canonical());
        }
        address
    }

    /// Counts the ranks on the machine of rank `of`, itself included.
    pub(crate) fn neighbours(&self, of: usize) -> usize {
        let host = |rank: usize| match rank {
            0 => Some(self.identity.host),
            _ => Some(self.seats[rank - 1].data.as_ref()?.hello.host),
        };
        let home = host(of);
        (0..self.identity.size)
            .filter(|&rank| host(rank) == home)
            .count()
    }
}

impl Admission for Seats<'_> {
    fn decide(&mut self, hello: &Hello) -> Status {
        if let Some(status) = self.identity.differs(hello) {
            return status;
        }
        let place = usize::try_from(hello.from).unwrap_or(0).wrapping_sub(1);
        if hello.link == LinkKind::Data && place < self.seats.len() {
            self.recheck(place);
        }
        let Some(seat) = self.seats.get(place) else {
            return if hello.from == number(self.identity.rank) {
                Status::Taken
            } else {
                Status::NoSuchRank
            };
        };
        match hello.link {
            LinkKind::Data if hello.session != [0; SESSION] => Status::OtherSession,
            LinkKind::Data if seat.data.is_some() => Status::Taken,
            LinkKind::Watch if hello.session != self.identity.session => Status::OtherSession,
            LinkKind::Watch if seat.data.is_none() => Status::NotExpected,
            LinkKind::Watch if seat.watch.is_some() => Status::Taken,
            LinkKind::Data | LinkKind::Watch => Status::Welcome,
            LinkKind::Ring => Status::NotExpected,
        }
    }

    fn keep(&mut self, proven: Proven) {
        let place = usize::try_from(proven.hello.from)
            .unwrap_or(0)
            .wrapping_sub(1);
        if let Some(seat) = self.seats.get_mut(place) {
            match proven.hello.link {
                LinkKind::Data => seat.data = Some(proven),
                LinkKind::Watch => seat.watch = Some(proven.stream),
                LinkKind::Ring => {}
            }
        }
    }
}
