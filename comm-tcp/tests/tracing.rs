//! What a job logs through `tracing`: ranks that joined and left, ranks that are waited for, failures, and a
//! missing secret.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]

mod common;

use comm_api::Communicator;
use comm_conformance::events::{assert_heard, hears, lines, listen};
use comm_tcp::Encryption;

#[test]
fn ranks_that_come_and_leave_are_told_once_each() {
    let _turn = listen();
    common::world(2, |_| {}, |comm| comm.barrier().unwrap());
    for rank in ["rank=0", "rank=1"] {
        assert_heard(1, &["INFO", "joined", rank, "size=2"]);
        assert_heard(1, &["INFO", "left", rank]);
    }
    assert_heard(0, &["WARN"]);
    assert_heard(0, &["ERROR"]);
}

/// Without a ring everything still works, and is slow: without a log line, that would go unnoticed.
#[test]
fn ranks_of_one_machine_have_a_ring() {
    let _turn = listen();
    common::world(
        4,
        |_| {},
        |comm| {
            let mut values = vec![comm.rank(); 500_000];
            comm.broadcast(&mut values, 1).unwrap();
            assert!(values.iter().all(|&value| value == 1));
        },
    );
    assert_heard(4, &["INFO", "joined", "size=4"]);
    assert_heard(0, &["there is no ring"]);
}

#[test]
fn a_slow_wait_names_who_is_missing() {
    let _turn = listen();
    common::world(
        3,
        |config| config.timeout = None,
        |comm| {
            // Rank 2 arrives when it is missed, and not before.
            let missed = comm.rank() != 2 || hears(&["WARN", "still waiting", "rank 2"]);
            comm.barrier().unwrap();
            assert!(missed, "nobody missed rank 2: {:#?}", lines());
        },
    );
    let waiting = ["WARN", "still waiting", "barrier", "seconds=1"];
    assert_heard(1, &waiting);
    assert_heard(0, &["still waiting", "rank 1"]);
}

#[test]
fn a_failure_is_told_by_every_survivor_with_the_rank_to_blame() {
    let _turn = listen();
    common::world(
        3,
        |_| {},
        |comm| {
            if comm.rank() == 1 {
                return;
            }
            comm.barrier().unwrap_err();
            // The first cause again, without another report.
            comm.barrier().unwrap_err();
        },
    );
    for rank in ["rank=0", "rank=2"] {
        assert_heard(1, &["ERROR", "collective failed", rank, "rank 1"]);
    }
    assert_heard(1, &["ERROR", "the job has failed", "rank=Some(1)"]);
}

#[test]
fn a_secret_file_that_others_may_read_is_warned_of() {
    use std::os::unix::fs::PermissionsExt;

    let _turn = listen();
    let path = std::env::temp_dir().join(format!("comm-tcp-secret-{}", std::process::id()));
    std::fs::write(&path, "a secret in a file").unwrap();
    for (mode, warnings) in [(0o600, 0), (0o640, 2), (0o604, 2)] {
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        lines().clear();
        let file = path.clone();
        common::world(
            2,
            |config| (config.secret, config.secret_file) = (None, Some(file.clone())),
            |comm| comm.barrier().unwrap(),
        );
        let (name, mode) = (path.display().to_string(), format!("{mode:03o}"));
        assert_heard(warnings, &["WARN", "chmod 600", &name, &mode]);
        assert_heard(0, &["a secret in a file"]);
    }
    std::fs::remove_file(&path).unwrap();
}

#[test]
fn encrypted_links_are_told_once_with_how_to_turn_that_off() {
    for (encryption, times) in [
        (Encryption::On, 2),
        (Encryption::Auto, 0),
        (Encryption::Off, 0),
    ] {
        let _turn = listen();
        common::world(
            2,
            |config| config.encryption = encryption,
            |comm| comm.barrier().unwrap(),
        );
        let told = ["INFO", "links are encrypted", "COBRE_TCP_ENCRYPT=0"];
        assert_heard(times, &told);
    }
}

#[test]
fn a_secret_that_can_be_guessed_is_warned_of() {
    for (secret, warnings) in [("fifteen bytes..", 2), ("sixteen bytes...", 0)] {
        let _turn = listen();
        common::world(
            2,
            |config| config.secret = Some(secret.into()),
            |comm| comm.barrier().unwrap(),
        );
        assert_heard(warnings, &["WARN", "the secret has fewer than 16 bytes"]);
        assert_heard(0, &[secret]);
    }
}
