//! The start: initialises MPI, and lets the ranks agree that they are one job.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use comm_api::Operation;
use ferrompi::{Communicator, Error, Mpi};

use crate::config::{CHECK as CHECK_VARIABLE, MpiConfig, MpiReduce};
use crate::end::{self, End};
use crate::entry;
use crate::error::{self, InitError};
use crate::launcher;
use crate::life::Life;
use crate::runtime;

/// Whether the ranks compare their calls, as the first communicator of this process decided: MPI is given the
/// memory for that only once.
static CHECK: Mutex<Option<bool>> = Mutex::new(None);

/// Permits creating a communicator: one at a time, otherwise those of two threads would match up differently
/// on different ranks.
pub(crate) type Turn = MutexGuard<'static, Option<bool>>;

/// Waits until no other thread of this process creates a communicator.
pub(crate) fn turn() -> Turn {
    CHECK.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The shared state of the ranks after the start.
pub(crate) struct Start {
    pub(crate) life: Arc<Life>,
    /// A separate communicator, so that our calls never match those of other code.
    pub(crate) world: Communicator,
    /// The ranks of this machine, in the order of the world.
    pub(crate) node: Communicator,
    /// The world rank of each of them.
    pub(crate) members: Arc<[usize]>,
}

/// Initialises MPI, if this is the first communicator of the process, and checks that the ranks can work
/// together.
pub(crate) fn start(config: &MpiConfig, turn: &mut Turn) -> Result<Start, InitError> {
    let end = match end::current() {
        Some(end) => end,
        None => initialise(config, turn)?,
    };
    if !end.permits_this_thread() {
        return Err(error::main_thread_only());
    }
    if let Some(first) = turn.filter(|&first| first != config.check) {
        return Err(error::unlike_the_first(first, CHECK_VARIABLE));
    }
    let life = Life::begin(end);
    let everybody = end.world();
    let rank = usize::try_from(everybody.rank()).unwrap_or(0);
    let inside = life.pass(Operation::Other("init"), rank);
    let inside = inside.map_err(|error| InitError::failed(&[], error.to_string()))?;
    let size = usize::try_from(everybody.size()).unwrap_or(1);
    launcher::check(size, &launcher::environment()?)?;
    agree(everybody, config)?;

    let failed = |error| error::start("the ranks could not form a communicator", &error);
    let world = everybody.duplicate().map_err(failed)?;
    let node = if cfg!(comm_mpi_two_nodes) {
        // For tests: ranks alternate between two nodes, as `--map-by node` places them.
        let rank = everybody.rank();
        everybody
            .split(Some(rank % 2), rank)
            .map_err(failed)?
            .unwrap_or(everybody.duplicate().map_err(failed)?)
    } else {
        everybody.split_shared().map_err(failed)?
    };
    let level = end.level();
    tracing::debug!(
        size,
        rank = world.rank(),
        node = node.size(),
        ?level,
        "joined"
    );
    let members = members(&node, &world)?;
    drop(inside);
    Ok(Start {
        life,
        world,
        node,
        members,
    })
}

fn initialise(config: &MpiConfig, turn: &mut Turn) -> Result<&'static End, InitError> {
    runtime::check()?;
    let check = config.check;
    // The bindings only know what they did themselves, and MPI ends a job that initialises it twice.
    let end = if Mpi::is_initialized() {
        Err(Error::AlreadyInitialized)
    } else {
        end::begin(move |mpi| if check { entry::prepare(mpi) } else { Ok(()) })
    };
    let end = end.map_err(|error| error::start("MPI could not be initialised", &error))?;
    **turn = Some(check);
    Ok(end)
}

/// Collects the world rank of each rank of the node.
fn members(node: &Communicator, world: &Communicator) -> Result<Arc<[usize]>, InitError> {
    let rank = u64::try_from(world.rank()).unwrap_or(0);
    let mut members = vec![0; usize::try_from(node.size()).unwrap_or(0)];
    let gathered = node.allgather(&[rank], &mut members);
    gathered.map_err(|error| error::start("the ranks of a node could not meet", &error))?;
    let members = members.into_iter();
    Ok(members
        .map(|rank| usize::try_from(rank).unwrap_or(0))
        .collect())
}

/// What the ranks compare, as bytes, because words may differ between machines.
type Card = [u8; 12];

/// The meaning of each byte of a card, for the message.
const FIELDS: [(usize, &str, &str); 5] = [
    (0, "byte order", ""),
    (1, "pointer width", ""),
    (2, "reductions", "COBRE_MPI_REDUCE"),
    (3, "checks", CHECK_VARIABLE),
    (4, "job ids", "COBRE_JOB_ID"),
];

fn card(config: &MpiConfig) -> Card {
    let mut card = [0; 12];
    card[0] = if cfg!(target_endian = "little") { 1 } else { 2 };
    card[1] = u8::try_from(size_of::<usize>()).unwrap_or(0);
    card[2] = match config.reduce {
        MpiReduce::Ordered => 1,
        MpiReduce::Native => 2,
    };
    card[3] = u8::from(config.check);
    let mut hasher = DefaultHasher::new();
    config.job_id.hash(&mut hasher);
    card[4..].copy_from_slice(&hasher.finish().to_le_bytes());
    card
}

/// Compares the machines and the configurations of all ranks.
fn agree(everybody: &Communicator, config: &MpiConfig) -> Result<(), InitError> {
    let own = card(config);
    let size = usize::try_from(everybody.size()).unwrap_or(1);
    let mut all = vec![0; own.len() * size];
    everybody
        .allgather(&own, &mut all)
        .map_err(|error| error::start("the ranks could not compare their settings", &error))?;
    let (cards, _) = all.as_chunks::<12>();
    compare(cards)
}

/// Finds the first field on which some rank differs from rank 0.
fn compare(cards: &[Card]) -> Result<(), InitError> {
    for (at, what, variable) in FIELDS {
        let field = |card: &Card| match at {
            4 => card[4..].to_vec(),
            _ => vec![card[at]],
        };
        let Some(odd) = cards
            .iter()
            .position(|card| field(card) != field(&cards[0]))
        else {
            continue;
        };
        let message = format!("ranks 0 and {odd} have different {what}");
        return Err(if variable.is_empty() {
            let advice = "all ranks of a job must run on machines of the same kind";
            InitError::failed(&[], format!("{message}; {advice}"))
        } else {
            let advice = format!("set {variable} to the same value on all ranks");
            InitError::invalid(&[variable], format!("{message}; {advice}"))
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::InitErrorKind;

    #[test]
    fn ranks_alike_agree() {
        let one = card(&MpiConfig::new());
        assert_eq!(compare(&[one, one, one]), Ok(()));
    }

    #[test]
    fn the_variable_that_differs_is_named() {
        let base = MpiConfig::new();
        let (mut native, mut check, mut job) = (base.clone(), base.clone(), base.clone());
        native.reduce = MpiReduce::Native;
        check.check = true;
        job.job_id = Some("another".to_owned());
        for (config, variable) in [
            (native, "COBRE_MPI_REDUCE"),
            (check, "COBRE_COMM_CHECK"),
            (job, "COBRE_JOB_ID"),
        ] {
            let error = compare(&[card(&base), card(&base), card(&config)]).unwrap_err();
            assert_eq!(error.kind, InitErrorKind::InvalidConfiguration);
            assert_eq!(error.variables, [variable]);
            assert!(error.message.contains("ranks 0 and 2"), "{error}");
        }
    }

    #[test]
    fn machines_of_another_kind_are_refused() {
        let one = card(&MpiConfig::new());
        let mut other = one;
        other[0] = 3 - other[0];
        let error = compare(&[one, other]).unwrap_err();
        assert_eq!(error.kind, InitErrorKind::Failed);
        assert!(error.message.contains("byte order"), "{error}");
    }
}
