//! Ranks on several machines: network namespaces joined by a bridge, each with an address of its own.
//!
//! Needs root and iproute2; prints one line where it cannot run. Everything it creates lies in namespaces
//! that it removes.

#![expect(
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_precision_loss,
    reason = "helpers of tests; the numbers are small"
)]

#[path = "../common/clock.rs"]
mod clock;
mod network;
mod outage;
#[path = "../common/reset.rs"]
mod reset;

use std::io::{BufRead, BufReader, Read};
use std::os::fd::AsRawFd;
use std::process::Child;
use std::time::{Duration, Instant};

use clock::millis;
use comm_api::{CommError, Communicator, ReduceOp};
use comm_conformance::events::{assert_heard, listen};
use comm_kit::report::{Pipe, VARIABLE};
use comm_tcp::{TcpBackend, TcpConfig};
use comm_testing::not_run;
use network::{Network, ip, reports};
use rstest::rstest;
use rustix::fs::fstat;
use rustix::io::{FdFlags, fcntl_setfd};

const HOSTS: usize = 4;
/// How long a rank may take before it ends itself, and before the test ends it.
const WATCHDOG: Duration = Duration::from_mins(1);
const ROLE: &str = "COMM_TCP_TEST_ROLE";

/// The main function of a rank; run as a separate test by the other tests only.
#[test]
fn one_rank() {
    let Ok(role) = std::env::var(ROLE) else {
        return;
    };
    let limit = if role == "vanish" {
        WATCHDOG * 2
    } else {
        WATCHDOG
    };
    std::thread::spawn(move || {
        std::thread::sleep(limit);
        eprintln!("the rank did not end in time");
        std::process::exit(3);
    });
    let rank = std::env::var("COBRE_TCP_RANK").unwrap().parse().unwrap();
    let size = std::env::var("COBRE_TCP_SIZE").unwrap().parse().unwrap();
    let coordinator = std::env::var("COBRE_TCP_COORDINATOR");
    let coordinator = coordinator.unwrap_or_else(|_| "10.99.0.1".to_owned());
    let mut config = TcpConfig::new(coordinator, rank, size);
    config.secret = Some("between the hosts".into());
    let seconds = match role.as_str() {
        "slow" => 2,
        "cut" | "one way" => 3,
        "mute" | "outage" => 8,
        _ => 30,
    };
    config.timeout = Some(Duration::from_secs(seconds));
    if role == "short start" {
        config.connect_timeout = Duration::from_millis(4500);
    }
    if role == "vanish" {
        config.timeout = None;
    }
    config.ring = role != "star";
    if role == "some ports" {
        config.worker_ports = Some(PORTS);
    }
    let _turn = listen();
    let comm = TcpBackend::connect(config).unwrap();
    if role == "one link" {
        assert_heard(0, &["there is no ring"]);
    }
    // Encrypted by default, since the links leave loopback.
    assert_heard(1, &["INFO", "links are encrypted"]);
    let report = match role.as_str() {
        "some ports" => {
            let from = listened_on(PORTS);
            assert_eq!(from.len(), usize::from(rank > 0), "{from:?}");
            core(&comm).map(|()| "ok".to_owned())
        }
        "core" | "short start" | "one link" => core(&comm).map(|()| "ok".to_owned()),
        "cut" | "one way" => Ok(until_failure(&comm)),
        "slow" => small(&comm).map(|()| "ok".to_owned()),
        "vanish" | "mute" => Ok(until_barrier_fails(&comm)),
        "outage" => Ok(outage::work(&comm)),
        "reset" if rank > 0 => {
            reset::on_close();
            comm.barrier().unwrap();
            println!("begun");
            // Computes, and is killed in this time.
            std::thread::sleep(WATCHDOG);
            return;
        }
        "reset" => {
            comm.barrier().unwrap();
            let told = until_barrier_fails(&comm);
            Ok(format!("{} {told}", millis()))
        }
        _ => timed(&comm).map(|time| format!("{}", time.as_secs_f64())),
    };
    println!("report: {}", report.unwrap());
}

/// The ports on which workers may listen in a test.
const PORTS: std::ops::RangeInclusive<u16> = 29_601..=29_603;

/// Returns the local ports of this host's connections that are among these.
fn listened_on(ports: std::ops::RangeInclusive<u16>) -> Vec<u16> {
    let table = std::fs::read_to_string("/proc/self/net/tcp").unwrap();
    let local = |row: &str| {
        let address = row.split_whitespace().nth(1)?;
        u16::from_str_radix(address.split_once(':')?.1, 16).ok()
    };
    let local = table.lines().filter_map(local);
    local.filter(|port| ports.contains(port)).collect()
}

/// Runs every collective, small and large, and checks the results.
fn core(comm: &TcpBackend) -> Result<(), CommError> {
    for count in [1_usize, 500, 400_000] {
        comm.barrier()?;
        let mine: Vec<u64> = (0..count as u64)
            .map(|i| i * 7 + comm.rank() as u64)
            .collect();
        let mut sum = vec![0; count];
        comm.allreduce(&mine, &mut sum, ReduceOp::Sum)?;
        assert!((0..count as u64).all(|i| sum[i as usize] == 4 * 7 * i + 6));
        let mut shared = mine.clone();
        comm.broadcast(&mut shared, 2)?;
        assert!((0..count as u64).all(|i| shared[i as usize] == i * 7 + 2));
        let displs: Vec<usize> = (0..HOSTS).map(|rank| rank * count).collect();
        let mut all = vec![0; HOSTS * count];
        comm.allgatherv(&mine, &mut all, &[count; HOSTS], &displs)?;
        for rank in 0..HOSTS as u64 {
            let block = &all[displs[rank as usize]..][..count];
            assert!((0..count as u64).all(|i| block[i as usize] == i * 7 + rank));
        }
    }
    Ok(())
}

/// Gathers until that fails; returns the error, and how long after the beginning of the call it came.
fn until_failure(comm: &TcpBackend) -> String {
    let mine = vec![1_u8; 500_000];
    let mut all = vec![0; HOSTS * mine.len()];
    let displs: Vec<usize> = (0..HOSTS).map(|rank| rank * mine.len()).collect();
    loop {
        let began = Instant::now();
        let result = comm.allgatherv(&mine, &mut all, &[mine.len(); HOSTS], &displs);
        if let Err(ref error @ CommError::CollectiveFailed { kind, rank, .. }) = result {
            let seconds = began.elapsed().as_secs_f64();
            return format!(
                "{kind:?} {} {seconds:.2} {error}",
                rank.map_or(-1, |rank| rank as i64)
            );
        }
        result.unwrap();
    }
}

/// Sends as much as small calls may, so much that each takes longer than the timeout, and then makes some
/// ranks wait for the others.
fn small(comm: &TcpBackend) -> Result<(), CommError> {
    let mine = vec![comm.rank() as u64; 1 << 17];
    let mut sum = mine.clone();
    comm.allreduce(&mine, &mut sum, ReduceOp::Sum)?;
    assert!(sum.iter().all(|&sum| sum == 1));
    let mut buffer = vec![comm.rank() as u8; 7 << 19];
    for root in [0, 1] {
        comm.broadcast(&mut buffer, root)?;
        assert!(buffer.iter().all(|&byte| byte == 0));
        comm.barrier()?;
    }
    Ok(())
}

/// Enters barriers until one fails; returns the error, and how long after the beginning of that barrier it
/// came.
fn until_barrier_fails(comm: &TcpBackend) -> String {
    loop {
        let began = Instant::now();
        match comm.barrier() {
            Ok(()) => {}
            Err(ref error @ CommError::CollectiveFailed { kind, rank, .. }) => {
                let (rank, took) = (rank.map_or(-1, |rank| rank as i64), began.elapsed());
                return format!("{kind:?} {rank} {:.2} {error}", took.as_secs_f64());
            }
            Err(other) => panic!("{other}"),
        }
    }
}

const BYTES: usize = 100_000_000;

/// Gathers [`BYTES`] twice and returns the duration of the second call on the slowest rank.
fn timed(comm: &TcpBackend) -> Result<Duration, CommError> {
    let mine = vec![comm.rank() as u8; BYTES / HOSTS];
    let mut all = vec![0; BYTES];
    let displs: Vec<usize> = (0..HOSTS).map(|rank| rank * mine.len()).collect();
    let mut nanos = [0_u64];
    for _ in 0..2 {
        comm.barrier()?;
        let began = Instant::now();
        comm.allgatherv(&mine, &mut all, &[mine.len(); HOSTS], &displs)?;
        let took = u64::try_from(began.elapsed().as_nanos()).unwrap();
        comm.allreduce(&[took], &mut nanos, ReduceOp::Max)?;
    }
    assert!((0..HOSTS).all(|rank| all[displs[rank] + 17] == rank as u8));
    Ok(Duration::from_nanos(nanos[0]))
}

#[test]
fn four_hosts_run_every_collective() {
    let Some(network) = Network::build() else {
        return;
    };
    assert_eq!(reports(network.start("core", &[])), ["ok"; HOSTS]);
}

/// The predecessor of each worker finds it on one of the ports that a firewall would permit.
#[test]
fn workers_listen_on_the_ports_that_are_allowed() {
    let Some(network) = Network::build() else {
        return;
    };
    assert_eq!(reports(network.start("some ports", &[])), ["ok"; HOSTS]);
}

/// IPv6 addresses that are valid on one link only, which each machine numbers by itself: rank 0 is found at
/// one, and the ring is built of such addresses.
#[test]
fn hosts_that_have_addresses_of_one_link_only_run_every_collective_along_the_ring() {
    let Some(network) = Network::build() else {
        return;
    };
    for rank in 0..HOSTS {
        let host = network.host(rank);
        let address = format!("fe80::{}/64 dev eth0 nodad", rank + 1);
        if let Err(reason) = ip(&format!("-n {host} addr add {address}")) {
            not_run(format_args!("there is no IPv6 here: {reason}"));
            return;
        }
    }
    let coordinator = [("COBRE_TCP_COORDINATOR", "fe80::1%eth0")];
    assert_eq!(
        reports(network.start("one link", &coordinator)),
        ["ok"; HOSTS]
    );
}

#[test]
fn a_host_cut_off_without_a_word_is_named_by_all_others() {
    let Some(network) = Network::build() else {
        return;
    };
    let children = network.start("cut", &[]);
    // Long enough for the job to be in the middle of its calls; whatever it is doing then must end.
    std::thread::sleep(Duration::from_secs(2));
    network.cut(2);
    let reports = reports(children);
    for survivor in [0, 1, 3] {
        let words: Vec<&str> = reports[survivor].split(' ').collect();
        assert!(matches!(words[0], "TimedOut" | "PeerLost"), "{reports:?}");
        assert_lives(&reports[survivor..=survivor]);
        assert_eq!(words[1], "2", "{reports:?}");
        assert!(words[2].parse::<f64>().unwrap() < 5.0, "{reports:?}");
    }
}

/// Only the network has failed: no error says that a process has ended.
fn assert_lives(reports: &[String]) {
    let ended = reports
        .iter()
        .find(|report| report.contains("process ended"));
    assert_eq!(ended, None);
}

/// The host of rank 0 is gone, and every worker had sent it bytes that are never acknowledged. There is no
/// timeout, and all ranks notice within a minute.
#[test]
fn the_host_of_rank_0_vanishes_and_all_know_within_a_minute_without_a_timeout() {
    let Some(network) = Network::build() else {
        return;
    };
    let children = network.start("vanish", &[]);
    std::thread::sleep(Duration::from_secs(2));
    network.cut(0);
    let reports = reports(children);
    for (rank, report) in reports.iter().enumerate() {
        let words: Vec<&str> = report.split(' ').collect();
        assert_eq!(words[0], "PeerLost", "{reports:?}");
        // Rank 0 lives and reaches no other rank. As far as it knows, it has lost one of the others.
        assert!(rank == 0 || words[1] == "0", "{reports:?}");
        assert_lives(&reports);
        assert!(words[2].parse::<f64>().unwrap() < 70.0, "{reports:?}");
    }
}

/// Nothing that rank 0 sends arrives any longer, and everything that the others send does. All others name
/// rank 0, which cannot tell whose link it is and names any of them. They are all in one call, or some of
/// them one call ahead.
#[rstest]
fn rank_0_that_can_send_nothing_any_more_is_the_one_that_all_others_name(
    #[values(true, false)] at_once: bool,
) {
    let Some(network) = Network::build() else {
        return;
    };
    let children = network.start("mute", &[]);
    std::thread::sleep(Duration::from_secs(2));
    if at_once {
        network.mute(0);
    } else {
        (1..HOSTS).for_each(|worker| network.cut_one_way(0, worker));
    }
    let reports = reports(children);
    for (rank, report) in reports.iter().enumerate() {
        let words: Vec<&str> = report.split(' ').collect();
        // `Io` names both ends of a link.
        let kinds = ["TimedOut", "PeerLost", "Io"];
        assert!(kinds.contains(&words[0]), "{reports:#?}");
        assert!(rank == 0 || words[1] == "0", "{reports:#?}");
        assert!(words[2].parse::<f64>().unwrap() < 10.0, "{reports:#?}");
    }
}

/// Kills workers whose links end with a reset while they compute, with a pause in between. Returns how long
/// after the first death rank 0 got its error, and the error.
fn told_of_resets(network: &Network, hosts: usize, killed: &[usize], pause: u64) -> (u128, String) {
    let mut children = network.start_on(hosts, "reset", &[]);
    for child in &mut children[1..] {
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        assert!(lines.any(|line| line.unwrap().contains("begun")));
    }
    let mut gone = None;
    for &rank in killed {
        children[rank].kill().unwrap();
        children[rank].wait().unwrap();
        // Its sockets are closed.
        gone.get_or_insert_with(millis);
        std::thread::sleep(Duration::from_millis(pause));
    }
    let rank_0: Vec<Child> = children.drain(..1).collect();
    let report = reports(rank_0).remove(0);
    for mut other in children {
        other.kill().unwrap();
        other.wait().unwrap();
    }
    let (told, what) = report.split_once(' ').unwrap();
    let told: u128 = told.parse().unwrap();
    (told.saturating_sub(gone.unwrap()), what.to_owned())
}

/// A rank dies with unread bytes on its links, which the system therefore resets. That counts as its end, at
/// once, although all others compute and no rank can confirm that rank 0 reaches any of them.
#[test]
fn a_death_that_resets_links_is_told_at_once() {
    let Some(network) = Network::build() else {
        return;
    };
    // On a busy machine one of several attempts suffices.
    let mut fastest = u128::MAX;
    for _ in 0..5 {
        let (took, told) = told_of_resets(&network, HOSTS, &[2], 0);
        assert!(told.starts_with("PeerLost 2 "), "{told}");
        fastest = fastest.min(took);
        if fastest <= 100 {
            return;
        }
    }
    panic!("told after {fastest} ms");
}

/// All workers die that way, one soon after the other: rank 0 names one of them, not itself or its network.
#[rstest]
fn two_deaths_that_reset_links_are_no_fault_of_rank_0(#[values(0, 300)] pause: u64) {
    let Some(network) = Network::build() else {
        return;
    };
    let (_, told) = told_of_resets(&network, 3, &[1, 2], pause);
    let lost = ["PeerLost 1 ", "PeerLost 2 "];
    assert!(lost.iter().any(|lost| told.starts_with(lost)), "{told}");
}

/// A small call takes longer than the timeout, because its links are slow; its bytes move all the time.
#[test]
fn a_small_call_on_slow_links_takes_the_time_it_needs() {
    let Some(network) = Network::build() else {
        return;
    };
    if let Err(reason) = network.slow_down("4mbit") {
        not_run(format_args!("links cannot be limited here: {reason}"));
        return;
    }
    let began = Instant::now();
    let ranks = network.start_on(2, "slow", &[]);
    assert_eq!(reports(ranks), ["ok"; 2]);
    let took = began.elapsed();
    assert!(took > Duration::from_secs(12), "only {took:?}: not slow");
}

/// What rank 1 sends to rank 2 does not arrive any longer; each waits for the other, and both live.
#[test]
fn a_ring_link_cut_one_way_is_named_with_both_its_ends() {
    let Some(network) = Network::build() else {
        return;
    };
    let children = network.start("one way", &[]);
    std::thread::sleep(Duration::from_secs(2));
    network.cut_one_way(1, 2);
    let reports = reports(children);
    for report in &reports {
        for part in ["link between", "rank 1 (10.99.0.2)", "rank 2 (10.99.0.3)"] {
            assert!(report.contains(part), "no {part} in {reports:?}");
        }
    }
}

/// Rank 1 gets no answer from rank 2, and there is little time left to start.
#[test]
fn a_ring_that_a_silent_firewall_prevents_is_relayed_with_little_time_left() {
    let Some(network) = Network::build() else {
        return;
    };
    network.cut_one_way(1, 2);
    // A launcher would pass such a pipe on.
    let (mut reader, writer) = std::io::pipe().unwrap();
    fcntl_setfd(&writer, FdFlags::empty()).unwrap();
    let place = Pipe {
        descriptor: writer.as_raw_fd().cast_unsigned(),
        inode: fstat(&writer).unwrap().st_ino,
        rank: 0,
    };
    let launched = [(VARIABLE, &*place.to_string())];
    assert_eq!(
        reports(network.start("short start", &launched)),
        ["ok"; HOSTS]
    );
    let mut told = [0; 100];
    let length = reader.read(&mut told).unwrap();
    assert_eq!(told[..length], *b"cobre-report 0 no-ring -\n");
}

#[test]
fn bulk_fills_every_link_and_through_rank_0_it_would_not() {
    let Some(network) = Network::build_alone() else {
        return;
    };
    if let Err(reason) = network.limit("500mbit") {
        not_run(format_args!("links cannot be limited here: {reason}"));
        return;
    }
    let floor = (BYTES / HOSTS * (HOSTS - 1) * 8) as f64 / 500e6;
    let time = |role| reports(network.start(role, &[]))[0].parse::<f64>().unwrap();
    let within = |time: f64| time <= 1.25 * floor;
    // Other work on the machine makes a call slower, never faster.
    let mut ring = time("ring");
    for _ in 0..2 {
        if within(ring) {
            break;
        }
        ring = ring.min(time("ring"));
    }
    let star = time("star");
    println!("floor {floor:.3} s, ring {ring:.3} s, star {star:.3} s");
    assert!(within(ring), "ring {ring:.3} s, floor {floor:.3} s");
    assert!(!within(star), "star {star:.3} s, floor {floor:.3} s");
}
