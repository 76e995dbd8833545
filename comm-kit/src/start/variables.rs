//! All environment variables of the project, so that unknown ones can be reported: a setting with a misspelt
//! name has no effect and would otherwise go unnoticed.

use std::ffi::{OsStr, OsString};

use crate::start::near::nearest;

/// The prefix of all our variables. Variables of the program may have it too.
const PREFIX: &str = "COBRE_";
/// Prefixes that only our variables have.
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

/// Finds the variables of this process that look like ours but are not read; returns one sentence about each.
#[must_use]
pub fn unknown_here() -> Vec<String> {
    unknown(std::env::vars_os().map(|(name, _)| name))
}

/// Finds the names that look like ours but are not read: those with one of our own prefixes, and those close
/// to one of our names. Returns one sentence about each.
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
