//! Mutants that chaos must catch, each with one defect that only shows under faults.
//!
//! They are here, not beside the other mutants of the suite, because they need ranks that are processes.

use std::fs::File;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use comm_api::{CommError, Communicator, FailureKind, ReduceOp, ScalarKind};
use comm_conformance::mutant::{Mutant, Mutation, ordered_subject, rank_role, run_chaos};
use comm_conformance::{Failure, Model, Seat, Subject};
use comm_shm::{OneCopy, ShmBackend, ShmConfig};
use libtest_mimic::{Arguments, Failed, Trial};

/// Which fault must expose a mutant, and with which message.
struct Known {
    name: &'static str,
    fault: &'static str,
    says: &'static str,
}

const KNOWN: [Known; 14] = [
    Known {
        name: "unchanged",
        fault: "kill-one",
        says: "",
    },
    Known {
        name: "blames-the-wrong-rank",
        fault: "kill-one",
        says: "who did not die",
    },
    Known {
        name: "tells-late",
        fault: "kill-one",
        says: "bound 100ms",
    },
    Known {
        name: "forgets-the-cause",
        fault: "leave",
        says: "; later: ",
    },
    Known {
        name: "hangs-after-a-death",
        fault: "kill-several",
        says: "hangs: after 6s still at",
    },
    Known {
        name: "loses-who-is-stopped",
        fault: "stop",
        says: "lost somebody where nobody died",
    },
    Known {
        name: "leaks-a-segment",
        fault: "kill-all",
        says: "left behind: /dev/shm/",
    },
    Known {
        name: "adds-wrongly",
        fault: "flood",
        says: "a reduction: element",
    },
    Known {
        name: "counts-a-suspension",
        fault: "suspend",
        says: "a mutant says so",
    },
    Known {
        name: "needs-a-descriptor",
        fault: "no-descriptors",
        says: "lost somebody where nobody died",
    },
    Known {
        name: "tells-of-a-dump-late",
        fault: "dump-core",
        says: "bound 100ms",
    },
    Known {
        name: "logs-before-it-tells",
        fault: "block-log-and-kill",
        says: "bound 100ms",
    },
    Known {
        name: "needs-a-fast-link",
        fault: "slow-link",
        says: "the link is too slow",
    },
    Known {
        name: "lets-a-stranger-in",
        fault: "storm-at-start",
        says: "a stranger came",
    },
];

/// Is the subject of all mutants; the driver orders one by name.
struct Wrong;

impl Subject for Wrong {
    type Comm = Mutant<ShmBackend, Wrongly>;
    const NAME: &'static str = "wrong";
    const MODEL: Model = Model::FULL;
    // One of them hangs: the watchdog ends it soon.
    const LIMIT: Duration = Duration::from_secs(6);

    fn open(seat: &Seat) -> Result<Self::Comm, Failure> {
        let mutation = Wrongly {
            name: ordered_subject().unwrap_or_default(),
            told: AtomicBool::new(false),
            is_broken: AtomicBool::new(false),
            returned: Mutex::new(Instant::now()),
        };
        let mut config = ShmConfig::new(seat.name(), seat.rank(), seat.size());
        config.timeout = seat.timeout();
        config.connect_timeout = seat.connect_timeout();
        // Ranks inherit it: the same tests with and without.
        if std::env::var("COBRE_SHM_ONE_COPY").is_ok_and(|value| value == "0") {
            config.one_copy = OneCopy::Off;
        }
        if mutation.name == "loses-who-is-stopped" {
            config.timeout = Some(Duration::from_millis(40));
        }
        if mutation.name == "leaks-a-segment" {
            std::fs::write(format!("/dev/shm/{}-leak", seat.name()), "")?;
        }
        match mutation.name.as_str() {
            "needs-a-fast-link" => needs_a_fast_link(seat)?,
            "lets-a-stranger-in" if seat.rank() == 0 => lets_a_stranger_in(seat)?,
            _ => {}
        }
        Ok(Mutant::new(ShmBackend::attach(config)?, Arc::new(mutation)))
    }
}

/// What a link between neighbours transfers in a moment, and a slow link does not.
const MUCH: usize = 1 << 20;

/// Fails if the transfer from rank 0 is slow.
fn needs_a_fast_link(seat: &Seat) -> Result<(), Failure> {
    let mut bytes = vec![0; MUCH];
    if seat.rank() == 0 {
        let listener = seat.listen()?;
        for _ in 1..seat.size() {
            let (mut stream, _) = listener.accept()?;
            // The rank that found the link too slow has gone.
            std::thread::spawn(move || stream.write_all(&vec![0; MUCH]));
        }
        return Ok(());
    }
    let start = Instant::now();
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, seat.port()?))?;
    stream.read_exact(&mut bytes)?;
    if start.elapsed() > Duration::from_millis(250) {
        return Err("the link is too slow".into());
    }
    Ok(())
}

/// Fails if another process connects to a port that is open for a while.
fn lets_a_stranger_in(seat: &Seat) -> Result<(), Failure> {
    let listener = seat.listen()?;
    listener.set_nonblocking(true)?;
    let start = Instant::now();
    while start.elapsed() < Duration::from_millis(600) {
        if listener.accept().is_ok() {
            return Err("a stranger came".into());
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}

/// Returns the error of a rank that believes rank 0 to be lost.
fn lost() -> CommError {
    CommError::failed(
        "allreduce",
        FailureKind::PeerLost,
        Some(0),
        "a mutant says so",
    )
}

/// Runs the defect of the mutant with this name.
struct Wrongly {
    name: String,
    /// Whether a call has reported a death.
    told: AtomicBool,
    /// Whether a call has failed without a reason.
    is_broken: AtomicBool,
    /// When the last reduction returned, or the rank started.
    returned: Mutex<Instant>,
}

impl Mutation<ShmBackend> for Wrongly {
    fn allreduce(
        &self,
        comm: &ShmBackend,
        send: &[u8],
        recv: &mut [u8],
        scalar: ScalarKind,
        op: ReduceOp,
    ) -> Result<(), CommError> {
        if self.is_broken.load(Ordering::Relaxed) {
            return Err(lost());
        }
        comm.allreduce_bytes(send, recv, scalar, op)?;
        let now = Instant::now();
        let before = std::mem::replace(
            &mut *self.returned.lock().unwrap_or_else(PoisonError::into_inner),
            now,
        );
        let broken = match self.name.as_str() {
            "counts-a-suspension" => now - before > Duration::from_millis(1500),
            "needs-a-descriptor" => File::open("/dev/null").is_err(),
            _ => false,
        };
        if broken {
            self.is_broken.store(true, Ordering::Relaxed);
            return Err(lost());
        }
        if self.name == "adds-wrongly" && scalar != ScalarKind::U64 {
            recv[0] ^= 1;
        }
        Ok(())
    }

    fn error(&self, comm: &ShmBackend, mut error: CommError) -> CommError {
        let CommError::CollectiveFailed {
            kind: FailureKind::PeerLost,
            rank: Some(rank),
            ..
        } = &mut error
        else {
            return error;
        };
        let told = self.told.swap(true, Ordering::Relaxed);
        match self.name.as_str() {
            "blames-the-wrong-rank" => *rank = (*rank + 1) % comm.size(),
            "logs-before-it-tells" if !told => {
                let log = std::thread::spawn(|| tracing::error!("somebody is lost"));
                // It writes one line and cannot panic.
                let _ = log.join();
            }
            "tells-late" | "tells-of-a-dump-late" if !told => {
                std::thread::sleep(Duration::from_secs(2));
            }
            "forgets-the-cause" if told => *rank = comm.rank(),
            "hangs-after-a-death" => loop {
                std::thread::park();
            },
            _ => {}
        }
        error
    }
}

/// How many rounds a mutant has to show its defect. The correct communicator passes all of them.
const ROUNDS: u64 = 8;

/// Returns the trial of a mutant: some round fails with the expected message. The correct communicator passes
/// every round.
///
/// Which call reports a death depends on timing. A call that bypasses the wrapper, such as a fence or a call
/// on a split, may report it first, correctly: such a round fails with another message, and the next one
/// follows.
fn trial(known: &'static Known) -> Trial {
    Trial::test(format!("chaos::{}", known.name), || {
        let (fault, says) = (known.fault, known.says);
        let mut other = format!("survived {fault}");
        for seed in 1..=ROUNDS {
            match run_chaos::<Wrong>(known.name, fault, 3, seed) {
                Ok(()) => {}
                Err(reason) if says.is_empty() => return Err(Failed::from(reason)),
                Err(reason) if reason.contains(says) => return Ok(()),
                Err(reason) => other = format!("{fault} did not end with '{says}':\n{reason}"),
            }
        }
        if says.is_empty() {
            Ok(())
        } else {
            Err(Failed::from(other))
        }
    })
}

fn main() -> ExitCode {
    if ordered_subject().is_some() {
        return rank_role::<Wrong>();
    }
    let mut arguments = Arguments::from_args();
    arguments.test_threads.get_or_insert(1);
    let trials = KNOWN.iter().map(trial).collect();
    libtest_mimic::run(&arguments, trials).exit_code()
}
