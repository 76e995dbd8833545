//! The variables of the launchers, and the backends they speak for. `comm-kit` has the table of
//! launchers.

use comm_kit::InitError;
use comm_kit::config::value;
use comm_kit::launcher::{ALL, Announcement, Family, Given, is_slurm_step};

use crate::error::BackendError;
use crate::name::Name;
use crate::select::{Filled, Variables};

/// Returns the backends that can connect the ranks of a launcher, best first.
pub(crate) const fn backends(family: Family) -> &'static [Name] {
    match family {
        Family::Tcp | Family::Kubernetes => &[Name::Tcp],
        Family::Shm => &[Name::Shm],
        Family::Mpi | Family::MpiOfOneMachine => &[Name::Mpi],
        Family::Scheduler => &[Name::Mpi, Name::Tcp],
        Family::Torch => &[Name::Tcp, Name::Shm],
    }
}

/// Returns the variable that shows that an MPI launcher, or a scheduler that acts as one, started this
/// process.
pub(crate) fn mpi_variable(variables: &Variables) -> Option<&'static str> {
    let mut launchers = ALL
        .iter()
        .filter(|launcher| backends(launcher.family)[0] == Name::Mpi);
    launchers.find_map(|launcher| launcher.sign(variables))
}

/// Returns all variables that this module reads.
pub(crate) fn variables() -> impl Iterator<Item = &'static str> {
    let addresses = ADDRESSES
        .iter()
        .flat_map(|&(variable, from)| [variable, from]);
    let known = comm_kit::launcher::variables();
    known.chain(addresses).chain(NODE_LISTS)
}

/// Lists the variables, with their values, by which a launcher announced ranks.
pub(crate) fn announcement(announced: &Announcement, variables: &Variables) -> String {
    let launcher = announced.launcher;
    let names = std::iter::once(&launcher.rank).chain(launcher.sizes);
    let given = names.filter_map(|name| Some(format!("{name}={}", value(variables, name)?)));
    given.collect::<Vec<_>>().join(" ")
}

/// Lists the variables by which a launcher announced ranks, with their values, if one did.
#[cfg(any(feature = "mpi", feature = "tcp", feature = "shm"))]
pub(crate) fn announced_by(variables: &Variables) -> Option<String> {
    let announced = comm_kit::launcher::announced(variables).ok()??;
    Some(announcement(&announced, variables))
}

/// Returns the first of `names` that is set.
pub(crate) fn first_set(variables: &Variables, names: &[&'static str]) -> Option<&'static str> {
    let mut names = names.iter();
    names.find(|name| value(variables, name).is_some()).copied()
}

/// Lists the variables that `backend` needs and that are neither set nor filled in.
pub(crate) fn missing(backend: Name, variables: &Variables, filled: &[Filled]) -> Vec<String> {
    let needed: &[&str] = match backend {
        Name::Tcp => &[COORDINATOR, RANK, SIZE],
        Name::Shm => &["COBRE_SHM_NAME", "COBRE_SHM_RANK", "COBRE_SHM_SIZE"],
        Name::Mpi | Name::Local => &[],
    };
    needed
        .iter()
        .filter(|name| value(variables, name).is_none())
        .filter(|name| filled.iter().all(|filled| filled.variable != **name))
        .map(ToString::to_string)
        .collect()
}

const COORDINATOR: &str = "COBRE_TCP_COORDINATOR";
const RANK: &str = "COBRE_TCP_RANK";
const SIZE: &str = "COBRE_TCP_SIZE";

/// Variables of the coordinator's address, and those of other launchers with the same meaning.
const ADDRESSES: [(&str, &str); 2] = [
    (COORDINATOR, "MASTER_ADDR"),
    ("COBRE_TCP_PORT", "MASTER_PORT"),
];

/// The nodes of a SLURM step, or of the job around it.
const NODE_LISTS: [&str; 2] = ["SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST"];

/// Fills in missing `COBRE_TCP_*` variables from those of other launchers.
///
/// All launchers that give a rank or a size must agree: a rank from one launcher and a size from another would describe a job that
/// does not exist. The error about a contradiction also lists missing variables.
pub(crate) fn fill_tcp(variables: &Variables) -> Result<Vec<Filled>, BackendError> {
    let addresses = fill_addresses(variables);
    match fill_place(variables) {
        Ok(place) => Ok([place, addresses].concat()),
        Err(mut message) => {
            let missing = missing(Name::Tcp, variables, &addresses);
            if !missing.is_empty() {
                message = format!("{message}; not set: {}", missing.join(", "));
            }
            Err(BackendError::contradiction(Name::Tcp, message))
        }
    }
}

/// Fills in the address of rank 0.
fn fill_addresses(variables: &Variables) -> Vec<Filled> {
    let mut filled = Vec::new();
    for (variable, from) in ADDRESSES {
        if value(variables, variable).is_none()
            && let Some(text) = value(variables, from)
        {
            filled.push(Filled {
                variable,
                value: text.to_owned(),
                from,
            });
        }
    }
    let coordinator_known = value(variables, COORDINATOR).is_some()
        || filled.iter().any(|filled| filled.variable == COORDINATOR);
    if !coordinator_known
        && is_slurm_step(variables)
        && let Some(from) = first_set(variables, &NODE_LISTS)
        && let Some(host) = value(variables, from).and_then(first_host)
    {
        filled.push(Filled {
            variable: COORDINATOR,
            value: host,
            from,
        });
    }
    filled
}

/// Fills in rank and size; the error tells what is wrong with the given ones.
fn fill_place(variables: &Variables) -> Result<Vec<Filled>, String> {
    let known = |error: InitError| error.message;
    let (mut rank, mut size) = (None, None);
    for launcher in &ALL {
        // Our own variables are first in the table. A rank within one machine, or within its shared memory,
        // is no rank of the job.
        if !matches!(launcher.family, Family::Shm | Family::MpiOfOneMachine) {
            let (its_rank, its_size) = launcher.place(variables).map_err(known)?;
            agree("rank", &mut rank, its_rank)?;
            agree("size", &mut size, its_size)?;
        }
        if launcher.family == Family::Tcp && rank.is_some() && size.is_some() {
            // Both are given, so the variables of other launchers do not matter.
            return Ok(Vec::new());
        }
    }
    if let (Some((rank, rank_from)), Some((size, size_from))) = (rank, size)
        && rank >= size
    {
        return Err(format!(
            "rank {rank} ({rank_from}) is not below size {size} ({size_from}); correct one of them"
        ));
    }
    let mut filled = Vec::new();
    for (variable, given) in [(RANK, rank), (SIZE, size)] {
        if let Some((number, from)) = given.filter(|(_, from)| *from != variable) {
            filled.push(Filled {
                variable,
                value: number.to_string(),
                from,
            });
        }
    }
    Ok(filled)
}

fn agree(what: &str, known: &mut Given, given: Given) -> Result<(), String> {
    match (*known, given) {
        (Some((a, a_from)), Some((b, b_from))) if a != b => Err(format!(
            "{a_from}={a} and {b_from}={b} disagree about the {what}; unset the one that does not belong to this job"
        )),
        (None, given) => {
            *known = given;
            Ok(())
        }
        _ => Ok(()),
    }
}

/// Returns the first host of a SLURM list: `node[07-09,12],login` begins with `node07`.
fn first_host(list: &str) -> Option<String> {
    let end = list.find(',').unwrap_or(list.len());
    let host = match list.find('[') {
        Some(open) if open < end => {
            let (ranges, rest) = list[open + 1..].split_once(']')?;
            let first = ranges.split([',', '-']).next()?;
            let suffix = rest.split(',').next()?;
            if suffix.contains('[') {
                return None;
            }
            format!("{}{first}{suffix}", &list[..open])
        }
        _ => list[..end].to_owned(),
    };
    (!host.is_empty()).then_some(host)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::first_host;

    #[rstest]
    #[case("node1", Some("node1"))]
    #[case("node1,node2", Some("node1"))]
    #[case("node[07-09,12],login", Some("node07"))]
    #[case("a,node[07-09]", Some("a"))]
    #[case("rack[1-2]n", Some("rack1n"))]
    #[case("rack[1-2]n[3-4]", None)]
    #[case("node[1-2", None)]
    #[case("", None)]
    fn finds_the_first_host(#[case] list: &str, #[case] expected: Option<&str>) {
        assert_eq!(first_host(list).as_deref(), expected);
    }
}
