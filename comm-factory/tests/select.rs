//! All branches of the choice, as tables of variables.

use comm_factory::{BackendError, Name, Selection, Variables, select};
use rstest::rstest;

const ALL: &[Name] = &Name::ALL;
const LOCAL: &[Name] = &[Name::Local];
const NO_MPI: &[Name] = &[Name::Tcp, Name::Shm, Name::Local];
const SHM: &[Name] = &[Name::Shm, Name::Local];

/// Reads `A=1 B=two`; a value may be empty.
fn variables(text: &str) -> Variables {
    let pair = |word: &str| {
        let (name, value) = word.split_once('=').expect("NAME=value");
        (name.to_owned(), value.replace('~', " "))
    };
    text.split_whitespace().map(pair).collect()
}

fn choose(text: &str, compiled: &[Name]) -> Result<Selection, BackendError> {
    select(&variables(text), compiled)
}

#[rstest]
#[case::nothing("", ALL, Name::Local, None)]
#[case::empty("COBRE_COMM_BACKEND=", ALL, Name::Local, None)]
#[case::blank("COBRE_COMM_BACKEND=~", ALL, Name::Local, None)]
#[case::auto("COBRE_COMM_BACKEND=Auto", ALL, Name::Local, None)]
#[case::named("COBRE_COMM_BACKEND=shm", ALL, Name::Shm, Some("COBRE_COMM_BACKEND"))]
#[case::upper_case("COBRE_COMM_BACKEND=~MPI~", ALL, Name::Mpi, Some("COBRE_COMM_BACKEND"))]
#[case::a_name_beats_launchers(
    "COBRE_COMM_BACKEND=local PMI_SIZE=4 PMI_RANK=1",
    ALL,
    Name::Local,
    Some("COBRE_COMM_BACKEND")
)]
#[case::mpich("PMI_RANK=0 PMI_SIZE=4", ALL, Name::Mpi, Some("PMI_RANK"))]
#[case::mpich_size_only("PMI_SIZE=4", ALL, Name::Mpi, Some("PMI_SIZE"))]
#[case::open_mpi(
    "OMPI_COMM_WORLD_RANK=3 OMPI_COMM_WORLD_SIZE=4",
    ALL,
    Name::Mpi,
    Some("OMPI_COMM_WORLD_RANK")
)]
#[case::open_mpi_size_only("OMPI_COMM_WORLD_SIZE=4", ALL, Name::Mpi, Some("OMPI_COMM_WORLD_SIZE"))]
#[case::intel("MPI_LOCALRANKID=0", ALL, Name::Mpi, Some("MPI_LOCALRANKID"))]
#[case::slurm_step(
    "SLURM_PROCID=0 SLURM_STEP_ID=0 SLURM_NTASKS=4",
    ALL,
    Name::Mpi,
    Some("SLURM_PROCID")
)]
#[case::slurm_batch_script("SLURM_PROCID=0 SLURM_NTASKS=4", ALL, Name::Local, None)]
#[case::slurm_batch_step(
    "SLURM_PROCID=0 SLURM_STEP_ID=batch SLURM_NTASKS=4",
    ALL,
    Name::Local,
    None
)]
#[case::slurm_batch_number(
    "SLURM_PROCID=0 SLURM_STEP_ID=4294967291 SLURM_NTASKS=4",
    ALL,
    Name::Local,
    None
)]
#[case::mpi_before_tcp(
    "PMI_RANK=0 COBRE_TCP_RANK=0 COBRE_SHM_NAME=x",
    ALL,
    Name::Mpi,
    Some("PMI_RANK")
)]
#[case::empty_is_unset(
    "PMI_RANK= COBRE_TCP_RANK=~ COBRE_SHM_NAME=x",
    ALL,
    Name::Shm,
    Some("COBRE_SHM_NAME")
)]
#[case::tcp_coordinator(
    "COBRE_TCP_COORDINATOR=host",
    ALL,
    Name::Tcp,
    Some("COBRE_TCP_COORDINATOR")
)]
#[case::tcp_rank(
    "COBRE_TCP_RANK=0 COBRE_SHM_NAME=x",
    ALL,
    Name::Tcp,
    Some("COBRE_TCP_RANK")
)]
#[case::tcp_size("COBRE_TCP_SIZE=4", ALL, Name::Tcp, Some("COBRE_TCP_SIZE"))]
#[case::tcp_without_mpi(
    "PMI_RANK=0 PMI_SIZE=4 COBRE_TCP_COORDINATOR=host",
    NO_MPI,
    Name::Tcp,
    Some("COBRE_TCP_COORDINATOR")
)]
#[case::shm("COBRE_SHM_NAME=x", ALL, Name::Shm, Some("COBRE_SHM_NAME"))]
#[case::shm_without_tcp(
    "COBRE_TCP_RANK=0 COBRE_TCP_SIZE=2 COBRE_SHM_NAME=x",
    SHM,
    Name::Shm,
    Some("COBRE_SHM_NAME")
)]
#[case::alone_under_mpiexec("PMI_RANK=0 PMI_SIZE=1", LOCAL, Name::Local, None)]
#[case::alone_under_torchrun("RANK=0 WORLD_SIZE=1", ALL, Name::Local, None)]
#[case::alone_in_an_indexed_job("JOB_COMPLETION_INDEX=0 WORLD_SIZE=1", ALL, Name::Local, None)]
#[case::pmix("PMIX_RANK=0", ALL, Name::Mpi, Some("PMIX_RANK"))]
#[case::flux(
    "FLUX_TASK_RANK=0 FLUX_JOB_SIZE=2",
    ALL,
    Name::Mpi,
    Some("FLUX_TASK_RANK")
)]
#[case::pals("PALS_RANKID=1", ALL, Name::Mpi, Some("PALS_RANKID"))]
#[case::mvapich("MV2_COMM_WORLD_RANK=0", ALL, Name::Mpi, Some("MV2_COMM_WORLD_RANK"))]
#[case::reserved_step(
    "SLURM_PROCID=0 SLURM_STEP_ID=4294967291 SLURM_NTASKS=4",
    ALL,
    Name::Local,
    None
)]
fn chooses(
    #[case] text: &str,
    #[case] compiled: &[Name],
    #[case] backend: Name,
    #[case] decided_by: Option<&str>,
) {
    let selection = choose(text, compiled).expect("a choice");
    assert_eq!(selection.backend, backend);
    assert_eq!(selection.decided_by.as_deref(), decided_by);
}

#[rstest]
#[case("smh", ALL, "did you mean \"shm\"")]
#[case("infiniband", LOCAL, "this program has local")]
fn an_unknown_name(#[case] name: &str, #[case] compiled: &[Name], #[case] text: &str) {
    let error = choose(&format!("COBRE_COMM_BACKEND={name}"), compiled).unwrap_err();
    let message = error.to_string();
    assert!(
        message.contains(text) && !message.contains('\n'),
        "{message}"
    );
    let BackendError::InvalidBackend {
        requested,
        available,
    } = error
    else {
        panic!("{message}");
    };
    assert_eq!(
        (requested.as_str(), available.len()),
        (name, compiled.len())
    );
}

#[rstest]
#[case::asked_for("COBRE_COMM_BACKEND=mpi", NO_MPI, "mpi")]
#[case::asked_for_tcp("COBRE_COMM_BACKEND=TCP", LOCAL, "tcp")]
#[case::mpich("PMI_RANK=0 PMI_SIZE=4", LOCAL, "mpi")]
#[case::mpich_with_others("PMI_RANK=0 PMI_SIZE=4", NO_MPI, "mpi")]
#[case::open_mpi_without_size("OMPI_COMM_WORLD_RANK=3", LOCAL, "mpi")]
#[case::intel("MPI_LOCALRANKID=1", LOCAL, "mpi")]
#[case::slurm("SLURM_PROCID=0 SLURM_STEP_ID=0 SLURM_STEP_NUM_TASKS=4", LOCAL, "mpi")]
#[case::tcp("COBRE_TCP_SIZE=4", LOCAL, "tcp")]
#[case::shm("COBRE_SHM_NAME=x COBRE_SHM_SIZE=4", LOCAL, "shm")]
#[case::torch("RANK=0 WORLD_SIZE=4", LOCAL, "tcp")]
// Two ranks are the smallest job that must not become separate jobs.
#[case::two_of_mpich("PMI_RANK=0 PMI_SIZE=2", LOCAL, "mpi")]
#[case::two_of_open_mpi("OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=2", LOCAL, "mpi")]
#[case::two_of_intel("MPI_LOCALRANKID=0 MPI_LOCALNRANKS=2", LOCAL, "mpi")]
#[case::two_of_slurm("SLURM_PROCID=0 SLURM_STEP_ID=0 SLURM_NTASKS=2", LOCAL, "mpi")]
#[case::two_of_tcp("COBRE_TCP_RANK=0 COBRE_TCP_SIZE=2", LOCAL, "tcp")]
#[case::two_of_shm("COBRE_SHM_RANK=0 COBRE_SHM_SIZE=2", LOCAL, "shm")]
#[case::two_of_torch("RANK=0 WORLD_SIZE=2", LOCAL, "tcp")]
#[case::indexed_job("JOB_COMPLETION_INDEX=2", LOCAL, "tcp")]
#[case::first_of_an_indexed_job("JOB_COMPLETION_INDEX=0", LOCAL, "tcp")]
#[case::pmix_without_size("PMIX_RANK=0", NO_MPI, "mpi")]
#[case::pals_without_size("PALS_RANKID=0", LOCAL, "mpi")]
#[case::alps("ALPS_APP_PE=3", LOCAL, "mpi")]
#[case::jsm("JSM_NAMESPACE_RANK=0 JSM_NAMESPACE_SIZE=2", LOCAL, "mpi")]
#[case::flux("FLUX_TASK_RANK=0 FLUX_JOB_SIZE=2", LOCAL, "mpi")]
#[case::first_on_shm("COBRE_SHM_RANK=0", LOCAL, "shm")]
fn never_many_that_believe_to_be_alone(
    #[case] text: &str,
    #[case] compiled: &[Name],
    #[case] wanted: &str,
) {
    let error = choose(text, compiled).unwrap_err();
    let message = error.to_string();
    let BackendError::BackendNotAvailable {
        requested,
        available,
    } = error
    else {
        panic!("{message}");
    };
    assert_eq!(
        (requested.as_str(), available.len()),
        (wanted, compiled.len())
    );
    assert!(
        message.contains(&format!("feature {wanted:?}")),
        "{message}"
    );
}

#[rstest]
#[case::torch("RANK=0 WORLD_SIZE=4", ALL, "tcp", &["COBRE_TCP_COORDINATOR"])]
#[case::torch_complete("RANK=0 WORLD_SIZE=4 MASTER_ADDR=host", ALL, "tcp", &["COBRE_COMM_BACKEND"])]
#[case::torch_on_shm("RANK=0 WORLD_SIZE=4", SHM, "shm", &["COBRE_SHM_NAME", "COBRE_SHM_RANK", "COBRE_SHM_SIZE"])]
#[case::slurm_on_tcp("SLURM_PROCID=1 SLURM_STEP_ID=0 SLURM_NTASKS=2", NO_MPI, "tcp", &["COBRE_TCP_COORDINATOR"])]
#[case::shm_without_a_name("COBRE_SHM_SIZE=4 COBRE_SHM_RANK=1", ALL, "shm", &["COBRE_SHM_NAME"])]
#[case::indexed_job("JOB_COMPLETION_INDEX=2", ALL, "tcp", &["COBRE_TCP_COORDINATOR", "COBRE_TCP_SIZE"])]
#[case::first_of_an_indexed_job("JOB_COMPLETION_INDEX=0", ALL, "tcp", &["COBRE_TCP_COORDINATOR", "COBRE_TCP_SIZE"])]
#[case::first_on_shm("COBRE_SHM_RANK=0", ALL, "shm", &["COBRE_SHM_NAME", "COBRE_SHM_SIZE"])]
fn many_ranks_and_nothing_to_connect_them(
    #[case] text: &str,
    #[case] compiled: &[Name],
    #[case] chosen: &str,
    #[case] missing: &[&str],
) {
    let error = choose(text, compiled).unwrap_err();
    let message = error.to_string();
    let BackendError::MissingConfiguration {
        backend,
        missing_vars,
        announced_by,
    } = error
    else {
        panic!("{message}");
    };
    assert_eq!(backend, chosen);
    assert_eq!(missing_vars, missing);
    // The message names the rank and the size that the launcher gives, but not the place of a process on its machine.
    let by = announced_by.expect("the variables of a launcher");
    assert!(by.split(' ').all(|pair| text.contains(pair)), "{by}");
    assert!(
        message.contains(&format!("{chosen}: {by} announces ranks")),
        "{message}"
    );
}

#[rstest]
#[case::nothing_open("COBRE_TCP_RANK=1 COBRE_TCP_SIZE=4 COBRE_TCP_COORDINATOR=h PMI_RANK=2", &[])]
#[case::slurm(
    "SLURM_PROCID=3 SLURM_STEP_ID=0 SLURM_STEP_NUM_TASKS=4 SLURM_NTASKS=9 SLURM_STEP_NODELIST=n[07-09]",
    &["COBRE_TCP_RANK=3 SLURM_PROCID", "COBRE_TCP_SIZE=4 SLURM_STEP_NUM_TASKS", "COBRE_TCP_COORDINATOR=n07 SLURM_STEP_NODELIST"]
)]
// The nodes of the step take precedence over those of the job: rank 0 of the step is on the first of them.
#[case::slurm_step_on_some_nodes(
    "SLURM_PROCID=3 SLURM_STEP_ID=0 SLURM_STEP_NUM_TASKS=4 SLURM_JOB_NODELIST=n[01-09] SLURM_STEP_NODELIST=n[07-09]",
    &["COBRE_TCP_RANK=3 SLURM_PROCID", "COBRE_TCP_SIZE=4 SLURM_STEP_NUM_TASKS", "COBRE_TCP_COORDINATOR=n07 SLURM_STEP_NODELIST"]
)]
#[case::mpich("PMI_RANK=1 PMI_SIZE=2 COBRE_TCP_COORDINATOR=h", &["COBRE_TCP_RANK=1 PMI_RANK", "COBRE_TCP_SIZE=2 PMI_SIZE"])]
#[case::open_mpi("OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=2", &["COBRE_TCP_RANK=1 OMPI_COMM_WORLD_RANK", "COBRE_TCP_SIZE=2 OMPI_COMM_WORLD_SIZE"])]
#[case::torch(
    "RANK=1 WORLD_SIZE=2 MASTER_ADDR=10.0.0.1 MASTER_PORT=4000",
    &["COBRE_TCP_RANK=1 RANK", "COBRE_TCP_SIZE=2 WORLD_SIZE", "COBRE_TCP_COORDINATOR=10.0.0.1 MASTER_ADDR", "COBRE_TCP_PORT=4000 MASTER_PORT"]
)]
#[case::indexed_job("JOB_COMPLETION_INDEX=2 COBRE_TCP_SIZE=4", &["COBRE_TCP_RANK=2 JOB_COMPLETION_INDEX"])]
#[case::two_that_agree("PMI_RANK=1 PMI_SIZE=2 RANK=1 WORLD_SIZE=2", &["COBRE_TCP_RANK=1 PMI_RANK", "COBRE_TCP_SIZE=2 PMI_SIZE"])]
#[case::half_a_pair("COBRE_TCP_RANK=1 RANK=1 WORLD_SIZE=2", &["COBRE_TCP_SIZE=2 WORLD_SIZE"])]
#[case::an_own_port("MASTER_PORT=4000 COBRE_TCP_PORT=5000", &[])]
#[case::batch_script("SLURM_PROCID=0 SLURM_NTASKS=4 SLURM_JOB_NODELIST=n1", &[])]
fn fills_the_gaps_of_tcp(#[case] text: &str, #[case] expected: &[&str]) {
    let selection = choose(&format!("COBRE_COMM_BACKEND=tcp {text}"), ALL).expect("a choice");
    let show = |filled: &comm_factory::Filled| {
        format!("{}={} {}", filled.variable, filled.value, filled.from)
    };
    let filled: Vec<String> = selection.filled.iter().map(show).collect();
    assert_eq!(filled, expected);
}

#[rstest]
#[case::ranks("PMI_RANK=1 PMI_SIZE=4 RANK=2 WORLD_SIZE=4", &["PMI_RANK=1", "RANK=2"])]
#[case::sizes("PMI_RANK=1 PMI_SIZE=4 OMPI_COMM_WORLD_SIZE=3", &["PMI_SIZE=4", "OMPI_COMM_WORLD_SIZE=3"])]
#[case::half_a_pair("COBRE_TCP_RANK=1 RANK=2 WORLD_SIZE=4", &["COBRE_TCP_RANK=1", "RANK=2"])]
#[case::rank_not_below_size("RANK=4 WORLD_SIZE=4", &["RANK", "WORLD_SIZE"])]
#[case::index_not_below_size("JOB_COMPLETION_INDEX=4 COBRE_TCP_SIZE=4", &["JOB_COMPLETION_INDEX", "COBRE_TCP_SIZE"])]
#[case::not_a_number("RANK=x WORLD_SIZE=4", &["RANK=\"x\""])]
#[case::negative("RANK=-1 WORLD_SIZE=4", &["RANK=\"-1\""])]
// The message lists wrong variables as well as missing ones.
#[case::missing_beside("COBRE_TCP_RANK=x", &["COBRE_TCP_RANK=\"x\"", "not set: COBRE_TCP_COORDINATOR, COBRE_TCP_SIZE"])]
fn contradictions_are_named(#[case] text: &str, #[case] named: &[&str]) {
    let error = choose(&format!("COBRE_COMM_BACKEND=tcp {text}"), ALL).unwrap_err();
    let message = error.to_string();
    assert!(
        matches!(error, BackendError::InitializationFailed { .. }),
        "{message}"
    );
    for name in named {
        assert!(message.contains(name), "{message}");
    }
}

/// A `main` that returns an error prints it with `{:?}`; logs and scripts rely on the short names.
#[rstest]
#[case("COBRE_COMM_BACKEND=smh", "invalid_backend")]
#[case("JOB_COMPLETION_INDEX=2", "missing_configuration")]
#[case("COBRE_COMM_BACKEND=tcp RANK=x WORLD_SIZE=4", "initialization_failed")]
fn errors_print_their_message_and_have_a_short_name(#[case] text: &str, #[case] name: &str) {
    let error = choose(text, ALL).unwrap_err();
    assert_eq!(format!("{error:?}"), error.to_string());
    assert!(format!("{error:#?}").contains(" {\n"), "{error:#?}");
    assert_eq!(error.as_str(), name);
}
