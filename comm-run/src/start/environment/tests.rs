//! Which variables stay, which are removed, and which are set.

use std::ffi::OsStr;

use super::{Link, Seat, Secret, Variables, environment, fresh_job_id, fresh_secret};

const SEAT: Seat<'_> = Seat {
    job: Some("0123"),
    rank: 2,
    size: 3,
    local_rank: 2,
    local_size: 3,
    host: "127.0.0.1",
    port: 4000,
    link: Link::Shm { name: "0123" },
};

fn variables(pairs: &[(&str, &str)]) -> Variables {
    pairs
        .iter()
        .map(|(name, value)| (name.into(), value.into()))
        .collect()
}

#[test]
fn an_empty_environment_gets_the_job_and_nothing_else() {
    let expected = variables(&[
        ("COBRE_COMM_BACKEND", "shm"),
        ("COBRE_JOB_ID", "0123"),
        ("COBRE_SHM_NAME", "cobre-0123"),
        ("COBRE_SHM_RANK", "2"),
        ("COBRE_SHM_SIZE", "3"),
        ("LOCAL_RANK", "2"),
        ("LOCAL_WORLD_SIZE", "3"),
        ("MASTER_ADDR", "127.0.0.1"),
        ("MASTER_PORT", "4000"),
        ("RANK", "2"),
        ("WORLD_SIZE", "3"),
    ]);
    assert_eq!(environment(&Variables::new(), SEAT), expected);
}

#[test]
fn over_tcp_a_rank_learns_where_to_meet_and_rank_0_gets_the_listener() {
    let secret = Secret::Text("hush");
    let seat = |listener| Seat {
        link: Link::Tcp { secret, listener },
        ..SEAT
    };
    let expected = variables(&[
        ("COBRE_COMM_BACKEND", "tcp"),
        ("COBRE_JOB_ID", "0123"),
        ("COBRE_TCP_COORDINATOR", "127.0.0.1"),
        ("COBRE_TCP_PORT", "4000"),
        ("COBRE_TCP_RANK", "2"),
        ("COBRE_TCP_SECRET", "hush"),
        ("COBRE_TCP_SIZE", "3"),
        ("LOCAL_RANK", "2"),
        ("LOCAL_WORLD_SIZE", "3"),
        ("MASTER_ADDR", "127.0.0.1"),
        ("MASTER_PORT", "4000"),
        ("RANK", "2"),
        ("WORLD_SIZE", "3"),
    ]);
    assert_eq!(environment(&Variables::new(), seat(None)), expected);
    let first = environment(&Variables::new(), seat(Some(7)));
    assert_eq!(first[OsStr::new("COBRE_TCP_LISTEN_FD")], "7");
    assert!(!format!("{:?}", seat(None)).contains("hush"));
    assert_eq!(format!("{secret:?}"), "Text(..)");
    let file = Secret::File("key".as_ref());
    assert_eq!(format!("{file:?}"), r#"File("key")"#);
}

#[test]
fn on_many_machines_the_secret_stays_in_its_file_and_the_users_job_id_stays() {
    let seat = Seat {
        job: None,
        local_rank: 0,
        local_size: 1,
        link: Link::Tcp {
            secret: Secret::File("key".as_ref()),
            listener: None,
        },
        ..SEAT
    };
    let inherited = variables(&[("COBRE_JOB_ID", "mine"), ("COBRE_TCP_SECRET", "old")]);
    let result = environment(&inherited, seat);
    for (name, value) in [
        ("COBRE_JOB_ID", "mine"),
        ("COBRE_TCP_SECRET_FILE", "key"),
        ("LOCAL_RANK", "0"),
        ("LOCAL_WORLD_SIZE", "1"),
        ("RANK", "2"),
    ] {
        assert_eq!(result[OsStr::new(name)], value, "{name}");
    }
    assert!(!result.contains_key(OsStr::new("COBRE_TCP_SECRET")));
}

#[test]
fn secrets_are_fresh_and_long() {
    let (one, two) = (fresh_secret().unwrap(), fresh_secret().unwrap());
    assert_ne!(one, two);
    assert_eq!(one.len(), 32);
}

#[test]
fn identities_of_other_launchers_and_jobs_are_cleared() {
    for name in [
        "PMI_RANK",
        "PMI_FD",
        "PMIX_RANK",
        "PMIX_SERVER_URI41",
        "OMPI_COMM_WORLD_RANK",
        "OMPI_MCA_ess_base_vpid",
        "MPI_LOCALRANKID",
        "MV2_COMM_WORLD_RANK",
        "SLURM_PROCID",
        "SLURM_STEP_ID",
        "JOB_COMPLETION_INDEX",
        "TORCHELASTIC_RUN_ID",
        "COBRE_TCP_COORDINATOR",
        "COBRE_TCP_RANK",
        "COBRE_TCP_SECRET",
        "COBRE_TCP_LISTEN_FD",
    ] {
        let result = environment(&variables(&[(name, "7")]), SEAT);
        assert!(!result.contains_key(OsStr::new(name)), "{name} stayed");
    }
}

#[test]
fn what_the_user_chose_stays() {
    for name in [
        "PATH",
        "PMI",
        "OMP_NUM_THREADS",
        "SLURM_JOB_ID",
        "SLURM_NNODES",
        "I_MPI_FABRICS",
        "COBRE_SHM_TIMEOUT_SECS",
        "COBRE_TCP_CONNECT_TIMEOUT_MS",
        "COBRE_TCP_WORKER_PORTS",
        "COBRE_COMM_CHECK",
        "MY_RANK",
    ] {
        let result = environment(&variables(&[(name, "7")]), SEAT);
        assert_eq!(
            result.get(OsStr::new(name)).map(AsRef::as_ref),
            Some(OsStr::new("7")),
            "{name}"
        );
    }
}

#[test]
fn an_outer_job_is_replaced_whole() {
    let outer = environment(&Variables::new(), Seat::new("outer", 0, 9));
    assert_eq!(
        environment(&outer, SEAT),
        environment(&Variables::new(), SEAT)
    );
}

#[test]
fn job_ids_are_fresh_and_fit_every_platform() {
    let (one, two) = (fresh_job_id().unwrap(), fresh_job_id().unwrap());
    assert_ne!(one, two);
    assert_eq!(one.len(), 20);
    assert!("/cobre-".len() + one.len() <= 31);
}
