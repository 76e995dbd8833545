//! Ranks that stop, die in pairs, fork, or are late: what the suite of all backends does not cover.
//!
//! Ranks are processes: this program starts itself again, as the test `one_rank`, with a role.

#![expect(clippy::unwrap_used, reason = "helpers of tests")]

mod common;

use std::io::Read;
use std::net::TcpListener;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use comm_api::{CommError, Communicator, FailureKind, ReduceOp};
use comm_kit::interrupt;
use comm_tcp::{TcpBackend, TcpConfig};
use common::ranks::{Rank, config, role, say, start_with};
use rstest::rstest;
use rustix::io::{FdFlags, fcntl_setfd};
use rustix::process::Signal;

const WATCHDOG: Duration = Duration::from_mins(1);

fn start(role: &str, size: usize) -> Vec<Rank> {
    start_with(role, size, "20")
}

/// The main function of a rank; run by the other tests as a separate program.
#[test]
fn one_rank() {
    let Some(role) = role(WATCHDOG) else {
        return;
    };
    let mut config = config();
    config.ring = !role.ends_with("without a ring");
    let comm = TcpBackend::connect(config).unwrap();
    comm.barrier().unwrap();
    say("ready", comm.rank());
    match role.as_str() {
        "bulk" | "bulk without a ring" => say("end", describe(bulk(&comm, usize::MAX))),
        "chain" | "chain without a ring" => say("end", describe(chain(&comm))),
        "some bulk" => say("end", describe(bulk(&comm, 150))),
        "interrupted" => {
            if comm.rank() == 0 {
                interrupt::set_hook(|| true);
                let interrupted = comm.barrier();
                assert!(interrupted.is_err(), "rank 2 has not come");
                // Drops nothing, and ends the watch with the process.
                std::process::exit(1);
            }
            if comm.rank() == 2 {
                std::thread::sleep(Duration::from_millis(300));
            }
            match comm.barrier() {
                Err(CommError::CollectiveFailed { kind, rank, .. }) => {
                    say("end", format!("{kind:?} {rank:?}"));
                }
                other => say("end", format!("{other:?}")),
            }
        }
        "slow" => {
            if comm.rank() == 0 {
                // A second and a half of run time of this process, however long it is suspended.
                for _ in 0..60 {
                    std::thread::sleep(Duration::from_millis(25));
                }
            }
            say("end", describe(comm.barrier()));
        }
        "late" => {
            if comm.rank() == 0 {
                std::thread::sleep(Duration::from_secs(2));
            }
            let before = cpu();
            let result = comm.barrier();
            say(
                "end",
                format!(
                    "{} {}",
                    describe(result),
                    cpu().saturating_sub(before).as_millis()
                ),
            );
        }
        _ => unreachable!("{role}"),
    }
    // No rank leaves before the others have seen what they must see.
    std::thread::sleep(Duration::from_millis(300));
}

fn describe(result: Result<(), CommError>) -> String {
    match result {
        Ok(()) => "ok".to_owned(),
        Err(ref error @ CommError::CollectiveFailed { kind, rank, .. }) => {
            // The rank, the machine, and the reason.
            let (text, rank_text) = (error.to_string(), rank.map(|rank| format!("rank {rank}")));
            for part in [rank_text.as_deref().unwrap_or("no rank"), "(127.0.0.1"] {
                assert!(text.contains(part), "no {part} in: {text}");
            }
            assert!(text.len() > 50, "no reason in: {text}");
            format!(
                "{kind:?} {}",
                rank.map_or("none".to_owned(), |r| r.to_string())
            )
        }
        Err(other) => other.to_string(),
    }
}

/// Gathers, reduces and broadcasts large buffers, in turn.
fn bulk(comm: &TcpBackend, rounds: usize) -> Result<(), CommError> {
    let size = comm.size();
    let mine = vec![1.0_f64; 150_000];
    let mut sum = mine.clone();
    let mut all = vec![0.0; size * mine.len()];
    let displs: Vec<usize> = (0..size).map(|rank| rank * mine.len()).collect();
    for _ in 0..rounds {
        comm.allgatherv(&mine, &mut all, &vec![mine.len(); size], &displs)?;
        comm.allreduce(&mine, &mut sum, ReduceOp::Sum)?;
        comm.broadcast(&mut sum, size - 1)?;
    }
    Ok(())
}

/// Sends large buffers down the chain until that fails.
fn chain(comm: &TcpBackend) -> Result<(), CommError> {
    let mut buffer = vec![1_u8; 8 << 20];
    loop {
        comm.broadcast(&mut buffer, 0)?;
    }
}

/// The processor time this process has used.
fn cpu() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let after = stat.rsplit_once(')').unwrap().1;
    let ticks = after.split_whitespace().skip(11).take(2);
    let ticks: u64 = ticks.map(|word| word.parse::<u64>().unwrap()).sum();
    Duration::from_millis(ticks * 10)
}

/// All other ranks name a rank that is killed in the middle of bulk, not its neighbours.
#[rstest]
fn a_rank_killed_in_the_middle_of_bulk_is_named(
    #[values(2, 3, 5)] size: usize,
    #[values(0, 1)] victim: usize,
    #[values(1, 7, 23)] after_millis: u64,
) {
    let mut ranks = start("bulk", size);
    for rank in &mut ranks {
        rank.wait_for("ready");
    }
    std::thread::sleep(Duration::from_millis(after_millis));
    ranks[victim].signal(Signal::KILL);
    for (rank, process) in ranks
        .iter_mut()
        .enumerate()
        .filter(|&(rank, _)| rank != victim)
    {
        assert_eq!(
            process.wait_for("end"),
            format!("PeerLost {victim}"),
            "on rank {rank}"
        );
    }
}

/// The same if all bytes go through rank 0.
#[rstest]
fn a_rank_killed_in_the_middle_of_bulk_without_a_ring_is_named(#[values(0, 1, 3)] victim: usize) {
    let mut ranks = start("bulk without a ring", 4);
    for rank in &mut ranks {
        rank.wait_for("ready");
    }
    std::thread::sleep(Duration::from_millis(9));
    ranks[victim].signal(Signal::KILL);
    for (rank, process) in ranks.iter_mut().enumerate() {
        if rank != victim {
            let expected = format!("PeerLost {victim}");
            assert_eq!(process.wait_for("end"), expected, "on rank {rank}");
        }
    }
}

/// A rank that stops in the middle of a chain is named, not the ranks that are stuck behind it. That includes
/// the root, which is done with the call and waits in the next.
#[rstest]
fn a_rank_that_stops_in_the_middle_of_a_chain_is_named(#[values(1, 2, 3)] stopped: usize) {
    let mut ranks = start_with("chain", 4, "2");
    for rank in &mut ranks {
        rank.wait_for("ready");
    }
    std::thread::sleep(Duration::from_millis(50));
    ranks[stopped].signal(Signal::STOP);
    for (rank, process) in ranks.iter_mut().enumerate() {
        if rank != stopped {
            let expected = format!("TimedOut {stopped}");
            assert_eq!(process.wait_for("end"), expected, "on rank {rank}");
        }
    }
}

/// The same for a rank that stops in the middle of a call in pieces, of which rank 0 waits for the next
/// piece: it is named, not rank 0, for which the others wait.
#[rstest]
fn a_rank_that_stops_in_the_middle_of_a_call_in_pieces_is_named(
    #[values(1, 2, 3)] stopped: usize,
    #[values(30, 50, 70)] after_millis: u64,
) {
    let mut ranks = start_with("chain without a ring", 4, "2");
    for rank in &mut ranks {
        rank.wait_for("ready");
    }
    std::thread::sleep(Duration::from_millis(after_millis));
    ranks[stopped].signal(Signal::STOP);
    for (rank, process) in ranks.iter_mut().enumerate() {
        if rank != stopped {
            let expected = format!("TimedOut {stopped}");
            assert_eq!(process.wait_for("end"), expected, "on rank {rank}");
        }
    }
}

/// Of two ranks that die at once, all survivors name the same one.
#[test]
fn two_deaths_at_once_have_one_cause() {
    for _ in 0..5 {
        let mut ranks = start("bulk", 5);
        for rank in &mut ranks {
            rank.wait_for("ready");
        }
        ranks[1].signal(Signal::KILL);
        ranks[3].signal(Signal::KILL);
        let causes: Vec<String> = [0, 2, 4].map(|rank| ranks[rank].wait_for("end")).into();
        assert!(
            ["PeerLost 1", "PeerLost 3"].contains(&causes[0].as_str()),
            "{causes:?}"
        );
        assert!(causes.iter().all(|cause| *cause == causes[0]), "{causes:?}");
    }
}

/// Five seconds of silence in the middle of bulk make no rank count as lost.
#[rstest]
fn a_rank_that_is_stopped_for_a_while_is_not_lost(#[values(0, 1)] stopped: usize) {
    let mut ranks = start("some bulk", 3);
    for rank in &mut ranks {
        rank.wait_for("ready");
    }
    ranks[stopped].signal(Signal::STOP);
    std::thread::sleep(Duration::from_secs(5));
    ranks[stopped].signal(Signal::CONT);
    for rank in &mut ranks {
        assert_eq!(rank.wait_for("end"), "ok");
    }
}

/// Rank 0 is interrupted and ends its process at once: the others learn of the interruption, not of the exit
/// of the notifying process.
#[test]
fn an_interruption_of_rank_0_is_told_before_its_process_can_end() {
    for _ in 0..5 {
        let mut ranks = start("interrupted", 3);
        for rank in &mut ranks[1..] {
            assert_eq!(rank.wait_for("end"), "Aborted Some(0)");
        }
    }
}

/// A job that is suspended as a whole, for longer than its timeout, continues where it was.
#[test]
fn a_job_that_is_suspended_for_longer_than_its_timeout_goes_on() {
    let mut ranks = start_with("slow", 3, "4");
    for rank in &mut ranks {
        rank.wait_for("ready");
    }
    std::thread::sleep(Duration::from_millis(200));
    for rank in &ranks {
        rank.signal(Signal::STOP);
    }
    std::thread::sleep(Duration::from_secs(5));
    for rank in &ranks {
        rank.signal(Signal::CONT);
    }
    for rank in &mut ranks {
        assert_eq!(rank.wait_for("end"), "ok");
    }
}

/// Waiting for a late rank costs almost no processor time.
#[test]
fn waiting_sleeps() {
    for rank in &mut start("late", 3)[1..] {
        let end = rank.wait_for("end");
        let (result, millis) = end.split_once(' ').unwrap();
        assert_eq!(result, "ok");
        assert!(
            millis.parse::<u64>().unwrap() < 100,
            "{millis} ms of processor time"
        );
    }
}

/// Returns whether a program that this process starts inherits the descriptor.
fn reaches_children(number: i32) -> bool {
    let descriptor = format!("/dev/fd/{number}");
    let found = std::process::Command::new("test")
        .args(["-e", &descriptor])
        .status();
    found.unwrap().success()
}

/// A listener passed on by number serves all communicators of a process, one after the other; anything else
/// than a listener is refused.
#[test]
fn a_listener_is_inherited_by_number() {
    use std::os::fd::{AsRawFd, IntoRawFd};
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let config = move |rank| {
        let mut config = TcpConfig::new("127.0.0.1", rank, 2);
        config.port = port;
        config
    };
    let file = std::fs::File::open("/dev/null").unwrap();
    let udp = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let stream = std::net::TcpStream::connect(("127.0.0.1", port)).unwrap();
    let path = std::env::temp_dir().join(format!("comm-tcp-unix-{}", std::process::id()));
    let unix = std::os::unix::net::UnixListener::bind(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    for (number, what) in [
        (1, "standard"),
        (file.as_raw_fd(), "file"),
        (udp.as_raw_fd(), "udp"),
        (stream.as_raw_fd(), "a connection"),
        (unix.as_raw_fd(), "a listener on a path"),
        (-1, "nothing"),
        (9999, "closed"),
    ] {
        let mut config = config(0);
        config.listen_fd = Some(number);
        let error = TcpBackend::connect(config).unwrap_err();
        assert_eq!(error.variables, ["COBRE_TCP_LISTEN_FD"], "{what}: {error}");
    }
    // The refused descriptors are still ours.
    assert!(file.as_fd().try_clone_to_owned().is_ok());
    // As a launcher passes it on.
    fcntl_setfd(&listener, FdFlags::empty()).unwrap();
    let number = listener.into_raw_fd();
    assert!(reaches_children(number));
    let mut zero = config(0);
    zero.listen_fd = Some(number);
    let both = |config: TcpConfig| {
        let [first, second] = [(); 2].map(|()| TcpBackend::connect(config.clone()).unwrap());
        second.barrier().unwrap();
        first.barrier().unwrap();
    };
    let one = std::thread::spawn(move || both(config(1)));
    both(zero.clone());
    one.join().unwrap();
    assert!(!reaches_children(number), "a child keeps the port busy");
    // No rank joins, and a second thread does not wait for the first.
    zero.connect_timeout = Duration::from_secs(3);
    let alone = zero.clone();
    let waiting = std::thread::spawn(move || TcpBackend::connect(alone).unwrap_err());
    // Rank 0 sends first, so it is listening.
    let mut stranger = std::net::TcpStream::connect(("127.0.0.1", port)).unwrap();
    stranger.read_exact(&mut [0]).unwrap();
    let refused = TcpBackend::connect(zero).unwrap_err();
    assert!(refused.message.contains("another thread"), "{refused}");
    waiting.join().unwrap();
}

/// A secret in a file works as one in a variable; a file without one is refused.
#[test]
fn a_secret_comes_from_a_file() {
    let path = std::env::temp_dir().join(format!("comm-tcp-secret-{}", std::process::id()));
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let config = |rank| {
        let mut config = TcpConfig::new("127.0.0.1", rank, 2);
        config.port = port;
        config
    };
    let mut zero = config(0);
    zero.secret_file = Some(path.clone());
    std::fs::write(&path, " \n").unwrap();
    let error = TcpBackend::connect(zero.clone()).unwrap_err();
    assert_eq!(error.variables, ["COBRE_TCP_SECRET_FILE"], "{error}");
    std::fs::write(&path, "a long random string\n").unwrap();
    let mut one = config(1);
    one.secret = Some("a long random string".into());
    let one = std::thread::spawn(move || TcpBackend::connect(one).map(drop));
    TcpBackend::connect_with_listener(zero, listener)
        .map(drop)
        .unwrap();
    one.join().unwrap().unwrap();
    std::fs::remove_file(path).unwrap();
}

/// A refusal while the other ranks mismatch: the refusal wins, and the next call works.
#[test]
fn a_refusal_wins_over_a_mismatch() {
    let started = Instant::now();
    let results: Vec<_> = {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let mut listener = Some(listener);
        let ranks: Vec<_> = (0..4)
            .map(|rank| {
                let mut config = TcpConfig::new("127.0.0.1", rank, 4);
                config.port = port;
                let listener = listener.take();
                std::thread::spawn(move || {
                    let comm = match listener {
                        Some(listener) => TcpBackend::connect_with_listener(config, listener),
                        None => TcpBackend::connect(config),
                    }
                    .unwrap();
                    let first = match rank {
                        2 => comm.broadcast(&mut [0_u8], 9),
                        3 => comm.broadcast(&mut [0_u8], 0),
                        _ => comm.barrier(),
                    };
                    (first, comm.barrier())
                })
            })
            .collect();
        ranks.into_iter().map(|rank| rank.join().unwrap()).collect()
    };
    for (rank, (first, second)) in results.into_iter().enumerate() {
        second.unwrap();
        match first.unwrap_err() {
            CommError::InvalidRoot {
                root: 9, size: 4, ..
            } => assert_eq!(rank, 2),
            CommError::CollectiveFailed {
                kind, rank: blamed, ..
            } => {
                assert_eq!(
                    (kind, blamed),
                    (FailureKind::Refused, Some(2)),
                    "on rank {rank}"
                );
            }
            other => panic!("{other} on rank {rank}"),
        }
    }
    assert!(started.elapsed() < WATCHDOG);
}
