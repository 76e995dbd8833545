//! What rank 0 sends to a worker once all ranks are there, as bytes.

use std::net::{Ipv6Addr, SocketAddr};
use std::time::Duration;

use super::number;

/// The body of [`FrameKind::Seat`](crate::frame::FrameKind::Seat).
///
/// ```text
/// 0 address   16 port   18 local ranks   22 ring   23 limit, milliseconds
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Seated {
    /// Where the worker finds its successor in the ring; [`NOWHERE`](super::NOWHERE) stands for rank 0.
    pub(crate) successor: SocketAddr,
    /// How many ranks share the processors of the worker, itself included.
    pub(crate) local_ranks: usize,
    /// How long building the ring may take, if there is to be one.
    pub(crate) ring: Option<Duration>,
}

impl Seated {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let ip = match self.successor {
            SocketAddr::V4(address) => address.ip().to_ipv6_mapped(),
            SocketAddr::V6(address) => *address.ip(),
        };
        let limit = self.ring.unwrap_or_default().as_millis();
        [
            &ip.octets()[..],
            &self.successor.port().to_be_bytes(),
            &number(self.local_ranks).to_be_bytes(),
            &[u8::from(self.ring.is_some())],
            &u32::try_from(limit).unwrap_or(u32::MAX).to_be_bytes(),
        ]
        .concat()
    }

    /// Decodes the bytes for a worker of a job of `size` ranks; `None` if rank 0 never sends such bytes.
    pub(crate) fn decode(bytes: &[u8], size: usize) -> Option<Self> {
        let (ip, rest) = bytes.split_first_chunk::<16>()?;
        let (port, rest) = rest.split_first_chunk()?;
        let (local, rest) = rest.split_first_chunk()?;
        let (&[ring], rest) = rest.split_first_chunk()?;
        let limit = u32::from_be_bytes(rest.try_into().ok()?);
        let ip = Ipv6Addr::from(*ip).to_canonical();
        let local_ranks = usize::try_from(u32::from_be_bytes(*local)).ok()?;
        let limit = Duration::from_millis(limit.into());
        (1..=size).contains(&local_ranks).then_some(Self {
            successor: SocketAddr::new(ip, u16::from_be_bytes(*port)),
            local_ranks,
            ring: flag(ring)?.then_some(limit),
        })
    }
}

/// The body of [`FrameKind::Start`](crate::frame::FrameKind::Start): two bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Start {
    /// Whether the ring is complete on all ranks.
    pub(crate) ring: bool,
    /// Whether rank 0 found more ranks on its machine than processors.
    pub(crate) crowded: bool,
}

impl Start {
    pub(crate) fn encode(self) -> [u8; 2] {
        [u8::from(self.ring), u8::from(self.crowded)]
    }

    /// Decodes the bytes; `None` if rank 0 never sends such bytes.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let &[ring, crowded] = bytes else {
            return None;
        };
        Some(Self {
            ring: flag(ring)?,
            crowded: flag(crowded)?,
        })
    }
}

fn flag(byte: u8) -> Option<bool> {
    match byte {
        0 => Some(false),
        1 => Some(true),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rstest::rstest;

    use super::super::NOWHERE;
    use super::*;

    const LENGTH: usize = 27;

    #[rstest]
    #[case::v4("10.0.0.2:4000", Some(5000))]
    #[case::v6("[2001:db8::2]:4000", Some(0))]
    #[case::loopback("127.0.0.1:1", None)]
    #[case::rank_0(&NOWHERE.to_string(), None)]
    fn a_seat_arrives_as_it_was_sent(#[case] successor: &str, #[case] ring: Option<u64>) {
        let seated = Seated {
            successor: successor.parse().unwrap(),
            local_ranks: 4,
            ring: ring.map(Duration::from_millis),
        };
        let bytes = seated.encode();
        assert_eq!(bytes.len(), LENGTH);
        assert_eq!(Seated::decode(&bytes, 4), Some(seated));
        assert_eq!(Seated::decode(&bytes, 3), None, "more ranks than there are");
    }

    /// All ranks of a job agree on the bytes, whichever build they run.
    #[test]
    fn a_seat_has_its_bytes_in_this_order() {
        let seated = Seated {
            successor: "1.2.3.4:1286".parse().unwrap(),
            local_ranks: 7,
            ring: Some(Duration::from_millis(0x0809)),
        };
        let mut expected = [0; LENGTH];
        expected[10..].copy_from_slice(&[0xff, 0xff, 1, 2, 3, 4, 5, 6, 0, 0, 0, 7, 1, 0, 0, 8, 9]);
        assert_eq!(seated.encode(), expected);
    }

    #[test]
    fn a_limit_that_is_too_long_for_its_bytes_is_the_longest() {
        let seated = Seated {
            successor: NOWHERE,
            local_ranks: 1,
            ring: Some(Duration::MAX),
        };
        let ring = Seated::decode(&seated.encode(), 1).unwrap().ring;
        assert_eq!(ring, Some(Duration::from_millis(u32::MAX.into())));
    }

    #[test]
    fn a_start_is_two_bytes_that_say_yes_or_no() {
        for (ring, crowded) in [(false, false), (false, true), (true, false), (true, true)] {
            let start = Start { ring, crowded };
            assert_eq!(start.encode(), [u8::from(ring), u8::from(crowded)]);
            assert_eq!(Start::decode(&start.encode()), Some(start));
        }
        for bytes in [&[][..], &[1], &[2, 0], &[0, 255], &[1, 1, 0]] {
            assert_eq!(Start::decode(bytes), None, "{bytes:?}");
        }
    }

    proptest! {
        /// Invalid bytes are rejected; accepted ones describe a job of this size, and encode to the same
        /// bytes again.
        #[test]
        fn any_bytes_are_a_seat_or_none(
            mut bytes in prop::collection::vec(any::<u8>(), 0..2 * LENGTH),
            nearly in any::<bool>(),
            size in 1_usize..70_000,
        ) {
            if nearly {
                bytes.resize(LENGTH, 0);
                bytes[18..23].iter_mut().for_each(|byte| *byte %= 3);
            }
            match Seated::decode(&bytes, size) {
                None => {
                    let local = bytes.get(18..22).map(|it| u32::from_be_bytes(it.try_into().unwrap()));
                    let fits = local.is_some_and(|local| (1..=size).contains(&(local as usize)));
                    prop_assert!(bytes.len() != LENGTH || !fits || bytes[22] > 1);
                }
                Some(seated) => {
                    prop_assert_eq!(bytes.len(), LENGTH);
                    prop_assert!((1..=size).contains(&seated.local_ranks));
                    prop_assert_eq!(Seated::decode(&seated.encode(), size), Some(seated));
                }
            }
        }
    }
}
