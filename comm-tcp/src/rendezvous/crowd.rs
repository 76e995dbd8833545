//! Which handshakes give way when too many are in progress.
//!
//! The source with the most handshakes loses one, at random. So a flood from elsewhere costs an honest rank
//! nothing. A flood from its own address may cost it an attempt, but cannot choose which: one of the next
//! attempts succeeds. The oldest must not be the one to go, because an honest handshake needs a round trip,
//! and a flood is faster than that.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The source by which handshakes are counted: the addresses that one machine can use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Source(Ipv6Addr);

impl Source {
    pub(crate) fn of(address: IpAddr) -> Self {
        /// The part of an address that names a network; a machine chooses the rest by itself.
        const NETWORK: u128 = !(u64::MAX as u128);
        Self(match address.to_canonical() {
            IpAddr::V4(ip) if ip.is_loopback() => Ipv4Addr::LOCALHOST.to_ipv6_mapped(),
            IpAddr::V4(ip) => ip.to_ipv6_mapped(),
            IpAddr::V6(ip) => (ip.to_bits() & NETWORK).into(),
        })
    }
}

/// Returns which `excess` of these give way, in ascending order; `None` stands for a handshake that must not.
/// Among the candidates, `draw` chooses. Looks at each once: a flood is long, and comes again.
pub(crate) fn give_way(
    sources: &[Option<Source>],
    excess: usize,
    mut draw: impl FnMut() -> usize,
) -> Vec<usize> {
    // The positions of each source, in the order in which the sources appear.
    let mut groups: Vec<Vec<usize>> = Vec::new();
    let mut known: HashMap<Source, usize> = HashMap::new();
    for (place, source) in sources.iter().enumerate() {
        let Some(source) = source else {
            continue;
        };
        let group = *known.entry(*source).or_insert(groups.len());
        if group == groups.len() {
            groups.push(Vec::new());
        }
        groups[group].push(place);
    }
    // The groups of each length.
    let longest = groups.iter().map(Vec::len).max().unwrap_or(0);
    let mut lengths: Vec<Vec<usize>> = vec![Vec::new(); longest + 1];
    for (group, places) in groups.iter().enumerate() {
        lengths[places.len()].push(group);
    }
    let mut gone: Vec<usize> = Vec::new();
    let mut most = longest;
    while gone.len() < excess && most > 0 {
        if lengths[most].is_empty() {
            most -= 1;
            continue;
        }
        let drawn = draw() % (lengths[most].len() * most);
        let group = lengths[most].swap_remove(drawn / most);
        gone.push(groups[group].swap_remove(drawn % most));
        lengths[most - 1].push(group);
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

    /// Whatever is drawn, the source with more handshakes loses; a client that has proved itself never does.
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

    /// Every handshake of one source is equally likely to go, including the oldest and the youngest.
    #[test]
    fn of_one_source_any_gives_way() {
        let sources = [Some(source("10.0.0.1")); 5];
        let gone: Vec<usize> = (0..5).flat_map(|d| give_way(&sources, 1, || d)).collect();
        assert_eq!(gone, [0, 1, 2, 3, 4]);
    }

    /// A job of thousands of ranks has room for thousands of handshakes, from any number of sources, and a
    /// flood makes room there again and again.
    #[test]
    fn a_flood_of_a_large_job_costs_little_time() {
        let each = |n: u32| Some(Source::of(IpAddr::V4(n.into())));
        for sources in [1, 8512].map(|count| (0..8512).map(|n| each(n % count)).collect::<Vec<_>>())
        {
            let began = std::time::Instant::now();
            for drawn in 0..20 {
                assert_eq!(give_way(&sources, 64, || drawn).len(), 64);
            }
            let took = began.elapsed();
            assert!(took < std::time::Duration::from_secs(5), "took {took:?}");
        }
    }
}
