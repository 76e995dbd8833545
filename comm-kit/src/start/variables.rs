//! Every variable of ours, so that one that nobody reads can be warned of: a setting with a misspelt name changes nothing, and
//! says nothing.

use std::ffi::{OsStr, OsString};

use crate::start::near::nearest;

/// What the names of all our variables begin with. A program may have others that begin so.
const PREFIX: &str = "COBRE_";
/// What only names of ours begin with.
const OWN: [&str; 4] = ["COBRE_COMM_", "COBRE_MPI_", "COBRE_SHM_", "COBRE_TCP_"];

/// Every variable that a backend, the factory or the launcher reads.
pub const ALL: [&str; 26] = [
    "COBRE_COMM_BACKEND",
    "COBRE_COMM_CHECK",
    "COBRE_COMM_REPORT_FD",
    "COBRE_JOB_ID",
    "COBRE_MPI_REDUCE",
    "COBRE_MPI_TIMEOUT_SECS",
    "COBRE_RESTART",
    "COBRE_SHM_CONNECT_TIMEOUT_MS",
    "COBRE_SHM_NAME",
    "COBRE_SHM_ONE_COPY",
    "COBRE_SHM_RANK",
    "COBRE_SHM_SIZE",
    "COBRE_SHM_TIMEOUT_SECS",
    "COBRE_TCP_BIND_ADDR",
    "COBRE_TCP_CONNECT_TIMEOUT_MS",
    "COBRE_TCP_COORDINATOR",
    "COBRE_TCP_ENCRYPT",
    "COBRE_TCP_INSECURE",
    "COBRE_TCP_LISTEN_FD",
    "COBRE_TCP_PORT",
    "COBRE_TCP_RANK",
    "COBRE_TCP_SECRET",
    "COBRE_TCP_SECRET_FILE",
    "COBRE_TCP_SIZE",
    "COBRE_TCP_TIMEOUT_SECS",
    "COBRE_TCP_WORKER_PORTS",
];

/// Finds the variables of this process that nobody reads although they are named like ours; one sentence about each.
#[must_use]
pub fn unknown_here() -> Vec<String> {
    unknown(std::env::vars_os().map(|(name, _)| name))
}

/// Finds, among the names of variables, those that nobody reads although they begin as only ours do, or are nearly one of ours; one
/// sentence about each.
///
/// ```
/// let found = comm_kit::variables::unknown(["COBRE_COM_BACKEND".into(), "HOME".into()]);
/// assert_eq!(found, ["COBRE_COM_BACKEND is set, and nothing reads it; did you mean COBRE_COMM_BACKEND?"]);
/// ```
pub fn unknown(names: impl IntoIterator<Item = OsString>) -> Vec<String> {
    let ours = |name: &OsString| name.as_encoded_bytes().starts_with(PREFIX.as_bytes());
    let known = |name: &OsString| ALL.iter().any(|known| OsStr::new(known) == name);
    let mut found: Vec<_> = names.into_iter().filter(ours).collect();
    found.retain(|name| !known(name));
    found.sort();
    found.iter().filter_map(|name| sentence(name)).collect()
}

fn sentence(name: &OsStr) -> Option<String> {
    let name = name.display().to_string();
    let advice = match nearest(&name, ALL) {
        Some(known) => format!("did you mean {known}?"),
        None if OWN.iter().any(|own| name.starts_with(own)) => {
            String::from("unset it, or correct its name")
        }
        None => return None,
    };
    Some(format!("{name} is set, and nothing reads it; {advice}"))
}

#[cfg(test)]
mod tests;
