//! Wrong communicators that chaos must catch, each wrong in one way that only shows under violence.
//!
//! They stand here and not beside the other wrong ones of the suite, because they need ranks that are processes.

use std::process::ExitCode;
use std::sync::Mutex;
use std::time::Duration;

use comm_api::{
    CommData, CommError, Communicator, FailureKind, ReduceOp, ScalarKind, SharedMemoryProvider,
};
use comm_conformance::teeth::{ordered_subject, rank_role, run_chaos};
use comm_conformance::{Failure, Model, Seat, Subject};
use comm_shm::{ShmBackend, ShmConfig, ShmRegion};
use libtest_mimic::{Arguments, Failed, Trial};

/// Says which violence must show a tooth, and in which words.
struct Bite {
    name: &'static str,
    violence: &'static str,
    says: &'static str,
}

const BITES: [Bite; 8] = [
    Bite {
        name: "straight",
        violence: "kill-one",
        says: "",
    },
    Bite {
        name: "blames-the-wrong-rank",
        violence: "kill-one",
        says: "who did not die",
    },
    Bite {
        name: "tells-late",
        violence: "kill-one",
        says: "bound 100ms",
    },
    Bite {
        name: "forgets-the-cause",
        violence: "leave",
        says: "; later: ",
    },
    Bite {
        name: "hangs-after-a-death",
        violence: "kill-several",
        says: "hangs: after 6s still at",
    },
    Bite {
        name: "loses-who-is-stopped",
        violence: "stop",
        says: "lost somebody where nobody died",
    },
    Bite {
        name: "leaks-a-segment",
        violence: "kill-all",
        says: "left behind: /dev/shm/",
    },
    Bite {
        name: "adds-wrongly",
        violence: "flood",
        says: "a reduction: element",
    },
];

/// Is the subject of all teeth; which one, the driver says by name.
struct Wrong;

impl Subject for Wrong {
    type Comm = Bent;
    const NAME: &'static str = "wrong";
    const MODEL: Model = Model::FULL;
    // One of them hangs: the watchdog ends it soon.
    const LIMIT: Duration = Duration::from_secs(6);

    fn open(seat: &Seat) -> Result<Bent, Failure> {
        let tooth = ordered_subject().unwrap_or_default();
        let mut config = ShmConfig::new(seat.name(), seat.rank(), seat.size());
        config.timeout = seat.timeout();
        config.connect_timeout = seat.connect_timeout();
        if tooth == "loses-who-is-stopped" {
            config.timeout = Some(Duration::from_millis(40));
        }
        if tooth == "leaks-a-segment" {
            std::fs::write(format!("/dev/shm/{}-leak", seat.name()), "")?;
        }
        Ok(Bent {
            comm: ShmBackend::attach(config)?,
            tooth,
            told: Mutex::new(false),
        })
    }
}

/// Wraps the backend and bends what its tooth is about.
struct Bent {
    comm: ShmBackend,
    tooth: String,
    told: Mutex<bool>,
}

impl Bent {
    /// Passes a result on, bent if it is about a death.
    fn bend<T>(&self, mut result: Result<T, CommError>) -> Result<T, CommError> {
        let Err(CommError::CollectiveFailed {
            kind: FailureKind::PeerLost,
            rank: Some(rank),
            ..
        }) = &mut result
        else {
            return result;
        };
        let mut told = self
            .told
            .lock()
            .map_err(|_| CommError::InvalidCommunicator)?;
        match self.tooth.as_str() {
            "blames-the-wrong-rank" => *rank = (*rank + 1) % self.comm.size(),
            "tells-late" if !*told => std::thread::sleep(Duration::from_secs(2)),
            "forgets-the-cause" if *told => *rank = self.comm.rank(),
            "hangs-after-a-death" => loop {
                std::thread::park();
            },
            _ => {}
        }
        *told = true;
        result
    }
}

impl Communicator for Bent {
    fn rank(&self) -> usize {
        self.comm.rank()
    }

    fn size(&self) -> usize {
        self.comm.size()
    }

    fn barrier(&self) -> Result<(), CommError> {
        self.bend(self.comm.barrier())
    }

    fn abort(&self, code: i32) -> ! {
        self.comm.abort(code)
    }

    fn allgatherv_bytes(
        &self,
        send: &[u8],
        recv: &mut [u8],
        counts: &[usize],
        displs: &[usize],
        elem_size: usize,
    ) -> Result<(), CommError> {
        self.bend(
            self.comm
                .allgatherv_bytes(send, recv, counts, displs, elem_size),
        )
    }

    fn allreduce_bytes(
        &self,
        send: &[u8],
        recv: &mut [u8],
        scalar: ScalarKind,
        op: ReduceOp,
    ) -> Result<(), CommError> {
        self.bend(self.comm.allreduce_bytes(send, recv, scalar, op))?;
        if self.tooth == "adds-wrongly" && scalar != ScalarKind::U64 {
            recv[0] ^= 1;
        }
        Ok(())
    }

    fn broadcast_bytes(
        &self,
        buf: &mut [u8],
        elem_size: usize,
        root: usize,
    ) -> Result<(), CommError> {
        self.bend(self.comm.broadcast_bytes(buf, elem_size, root))
    }

    fn refuse(&self, operation: &'static str, error: &CommError) {
        self.comm.refuse(operation, error);
    }
}

impl SharedMemoryProvider for Bent {
    type Region<T: CommData> = ShmRegion<T>;

    fn create_shared_region<T: CommData>(&self, count: usize) -> Result<ShmRegion<T>, CommError> {
        self.bend(self.comm.create_shared_region(count))
    }

    fn create_partitioned_region<T: CommData>(
        &self,
        local_count: usize,
    ) -> Result<ShmRegion<T>, CommError> {
        self.bend(self.comm.create_partitioned_region(local_count))
    }

    fn split_local(&self) -> Result<Box<dyn Communicator>, CommError> {
        self.bend(self.comm.split_local())
    }

    fn is_leader(&self) -> bool {
        self.comm.is_leader()
    }
}

/// How many rounds a tooth has to show itself in, and none may fail in with nothing bent.
const ROUNDS: u64 = 8;

/// Gives the trial of a tooth: some round fails and says what is expected; with nothing bent none does.
///
/// Which call hears of a death is a matter of time. What does not go through the wrapper, a fence or a call on a
/// split, may hear of it first, and is right: such a round fails in other words, and the next one has its turn.
fn trial(bite: &'static Bite) -> Trial {
    Trial::test(format!("chaos::{}", bite.name), || {
        let (violence, says) = (bite.violence, bite.says);
        let mut other = format!("survived {violence}");
        for seed in 1..=ROUNDS {
            match run_chaos::<Wrong>(bite.name, violence, 3, seed) {
                Ok(()) => {}
                Err(reason) if says.is_empty() => return Err(Failed::from(reason)),
                Err(reason) if reason.contains(says) => return Ok(()),
                Err(reason) => other = format!("{violence} did not end with '{says}':\n{reason}"),
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
    let trials = BITES.iter().map(trial).collect();
    libtest_mimic::run(&arguments, trials).exit_code()
}
