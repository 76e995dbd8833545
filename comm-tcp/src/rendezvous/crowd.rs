//! Who gives way when more handshakes are under way than there is room for.
//!
//! Whoever has most of them loses one, whichever. So a flood from elsewhere costs an honest rank
//! nothing. A flood from its own address may cost it an attempt, but does not choose which: of the
//! next attempts one comes through. The oldest must not be the one to go, because an honest
//! handshake needs a round trip, and a flood is faster than that.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// What handshakes are counted by: the addresses that one machine has at its disposal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Source(Ipv6Addr);

impl Source {
    pub(crate) fn of(address: IpAddr) -> Self {
        /// The part of an address that names a network; the rest a machine chooses for itself.
        const NETWORK: u128 = !(u64::MAX as u128);
        Self(match address.to_canonical() {
            IpAddr::V4(ip) if ip.is_loopback() => Ipv4Addr::LOCALHOST.to_ipv6_mapped(),
            IpAddr::V4(ip) => ip.to_ipv6_mapped(),
            IpAddr::V6(ip) => (ip.to_bits() & NETWORK).into(),
        })
    }
}

/// Returns which `excess` of these give way, in ascending order; `None` stands for one that does
/// not. Among those that could, `draw` chooses.
pub(crate) fn give_way(
    sources: &[Option<Source>],
    excess: usize,
    mut draw: impl FnMut() -> usize,
) -> Vec<usize> {
    let mut counts: HashMap<Source, usize> = HashMap::new();
    for source in sources.iter().flatten() {
        *counts.entry(*source).or_default() += 1;
    }
    let mut gone: Vec<usize> = Vec::new();
    for _ in 0..excess {
        let most = counts.values().copied().max().unwrap_or(0);
        let count = |source: &Source| counts.get(source).copied();
        let candidates = (0..sources.len()).filter(|place| {
            let counted = sources[*place].as_ref().and_then(count);
            counted == Some(most) && !gone.contains(place)
        });
        let candidates: Vec<usize> = candidates.collect();
        if candidates.is_empty() {
            break;
        }
        let place = candidates[draw() % candidates.len()];
        if let Some(count) = sources[place].and_then(|source| counts.get_mut(&source)) {
            *count -= 1;
        }
        gone.push(place);
    }
    gone.sort_unstable();
    gone
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn source(address: &str) -> Source {
        Source::of(address.parse().unwrap())
    }

    #[rstest]
    #[case::the_same("10.0.0.1", "10.0.0.1", true)]
    #[case::neighbours("10.0.0.1", "10.0.0.2", false)]
    #[case::mapped("::ffff:10.0.0.1", "10.0.0.1", true)]
    #[case::all_of_loopback("127.0.0.1", "127.9.9.9", true)]
    #[case::one_network("2001:db8::1", "2001:db8::ffff:1", true)]
    #[case::two_networks("2001:db8::1", "2001:db8:0:1::1", false)]
    #[case::mapped_are_not_one_network("::ffff:10.0.0.1", "::ffff:10.0.0.2", false)]
    fn one_machine_is_one_source(#[case] a: &str, #[case] b: &str, #[case] same: bool) {
        assert_eq!(source(a) == source(b), same);
    }

    /// Whatever is drawn, who has more loses; who has proven itself never does.
    #[test]
    fn who_has_most_gives_way() {
        let (flood, honest) = (source("10.0.0.9"), source("10.0.0.1"));
        let sources = [honest, flood, flood, honest, flood, flood].map(Some);
        for drawn in 0..16 {
            let gone = give_way(&sources, 2, || drawn);
            assert_eq!(gone.len(), 2);
            assert!(gone.iter().all(|&place| sources[place] == Some(flood)));
        }
        let proven = [Some(honest), None, None, None];
        assert_eq!(give_way(&proven, 3, || 7), [0]);
        assert_eq!(give_way(&[], 1, || 0), [0; 0]);
    }

    /// Each of one source is as likely to go as any other, the oldest and the youngest included.
    #[test]
    fn of_one_source_any_gives_way() {
        let sources = [Some(source("10.0.0.1")); 5];
        let gone: Vec<usize> = (0..5).flat_map(|d| give_way(&sources, 1, || d)).collect();
        assert_eq!(gone, [0, 1, 2, 3, 4]);
    }
}
