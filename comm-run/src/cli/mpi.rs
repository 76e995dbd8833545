//! `--backend mpi`: mpiexec replaces this process, and starts and watches the ranks.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::io::ErrorKind;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::process::CommandExt;
use std::process::Command;

use comm_run::{Variables, gives_a_place, without_identity};

use super::{Handover, dry, messages};
use crate::shown;

/// Defaults for variables that the user has not set: without them Open MPI 4 and 5 refuse more ranks than cores.
/// Other MPI libraries ignore them.
const DEFAULTS: [(&str, &str); 2] = [
    ("OMPI_MCA_rmaps_base_oversubscribe", "1"),
    ("PRTE_MCA_rmaps_default_mapping_policy", ":oversubscribe"),
];

/// Replaces this process with mpiexec. Returns an exit code only if that fails, or for a dry run.
pub(crate) fn hand_over(handover: &Handover) -> i32 {
    let inherited: Variables = std::env::vars_os().collect();
    let mut variables = variables(&inherited);
    variables.extend(handover.variables.iter().cloned());
    let mut words: Vec<OsString> = vec!["mpiexec".into(), "-n".into()];
    words.push(handover.ranks.to_string().into());
    words.extend(kept_from_mpiexec(&handover.command));
    if handover.dry_run {
        let ours = DEFAULTS.map(|(name, _)| OsStr::new(name));
        let given = handover.variables.iter().map(|(name, _)| name.as_os_str());
        let ours: BTreeSet<_> = ours.into_iter().chain(given).collect();
        let ours = std::iter::once(OsStr::new("COBRE_COMM_BACKEND")).chain(ours);
        let set = ours.filter_map(|name| Some((name, variables.get(name)?.as_os_str())));
        return shown(dry::print_one(set, &words, &mut std::io::stdout().lock()));
    }
    if handover.verbose {
        let ranks = handover.ranks;
        messages::line(&format!("mpi: {ranks} ranks, started by mpiexec"));
    }
    let mut command = Command::new(&words[0]);
    let error = command.args(&words[1..]).env_clear().envs(variables).exec();
    if error.kind() == ErrorKind::NotFound {
        messages::line(
            "cannot start mpiexec: not found in PATH; install MPICH or Open MPI, or use another --backend",
        );
        return 127;
    }
    messages::line(&format!("cannot start mpiexec: {error}"));
    126
}

/// Returns the program and its arguments in a form that is safe for mpiexec, which would read a `:` as the start of a
/// second program: a shell hides it.
fn kept_from_mpiexec(command: &[OsString]) -> Vec<OsString> {
    if !command.iter().any(|word| word == ":") {
        return command.to_vec();
    }
    let words: Vec<_> = command.iter().map(|word| dry::quoted(word)).collect();
    let script = [b"exec ".to_vec(), words.join(&b' ')].concat();
    vec!["sh".into(), "-c".into(), OsString::from_vec(script)]
}

/// Returns whether mpiexec tells the ranks their place with this variable, so that users must not set it. Settings of
/// Open MPI are not among these.
pub(crate) fn is_own(name: &OsStr) -> bool {
    gives_a_place(name) && !is_setting(name)
}

fn is_setting(name: &OsStr) -> bool {
    let name = name.to_string_lossy();
    name.starts_with("OMPI_MCA_") || name.starts_with("PRTE_MCA_")
}

/// Returns the variables for mpiexec: those of this process without the ones that identify a rank of a job, but with the
/// user's settings of Open MPI.
fn variables(inherited: &Variables) -> Variables {
    let mut variables = without_identity(inherited);
    // Inside a job of Open MPI, variables of this kind describe that job and are no user settings.
    let nested = inherited.contains_key(OsStr::new("OMPI_COMM_WORLD_RANK"));
    for (name, value) in inherited {
        let text = name.to_string_lossy();
        let setting = text.starts_with("OMPI_ALLOW_RUN_AS_ROOT") || (!nested && is_setting(name));
        if setting {
            variables.insert(name.clone(), value.clone());
        }
    }
    for (name, value) in DEFAULTS {
        variables.entry(name.into()).or_insert_with(|| value.into());
    }
    variables.insert("COBRE_COMM_BACKEND".into(), "mpi".into());
    variables
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;

    use comm_run::Variables;

    use super::variables;

    fn get(pairs: &[(&str, &str)], name: &str) -> Option<String> {
        let pairs = pairs
            .iter()
            .map(|(name, value)| (name.into(), value.into()));
        let variables = variables(&pairs.collect::<Variables>());
        let value = variables.get(OsStr::new(name))?;
        Some(value.to_string_lossy().into_owned())
    }

    #[test]
    fn settings_reach_mpiexec_and_identities_do_not() {
        let oversubscribe = "OMPI_MCA_rmaps_base_oversubscribe";
        let mine = [
            ("OMPI_MCA_btl", "self"),
            (oversubscribe, "0"),
            ("PMI_RANK", "1"),
        ];
        assert_eq!(get(&mine, "OMPI_MCA_btl").as_deref(), Some("self"));
        assert_eq!(get(&mine, oversubscribe).as_deref(), Some("0"));
        assert_eq!(get(&mine, "PMI_RANK"), None);
        assert_eq!(get(&mine, "COBRE_COMM_BACKEND").as_deref(), Some("mpi"));
        assert_eq!(get(&[], oversubscribe).as_deref(), Some("1"));
    }

    #[test]
    fn what_describes_an_outer_job_of_open_mpi_is_cleared() {
        let outer = [
            ("OMPI_COMM_WORLD_RANK", "0"),
            ("OMPI_MCA_ess_base_vpid", "0"),
            ("OMPI_ALLOW_RUN_AS_ROOT", "1"),
        ];
        assert_eq!(get(&outer, "OMPI_MCA_ess_base_vpid"), None);
        assert_eq!(get(&outer, "OMPI_COMM_WORLD_RANK"), None);
        assert_eq!(get(&outer, "OMPI_ALLOW_RUN_AS_ROOT").as_deref(), Some("1"));
    }
}
