use rstest::rstest;

use super::*;
use crate::error::InitErrorKind;

fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    let mut map = BTreeMap::from([
        ("COBRE_TCP_COORDINATOR".to_owned(), "localhost".to_owned()),
        ("COBRE_TCP_RANK".to_owned(), "1".to_owned()),
        ("COBRE_TCP_SIZE".to_owned(), "4".to_owned()),
    ]);
    for &(name, value) in pairs {
        map.insert(name.to_owned(), value.to_owned());
    }
    map
}

#[test]
fn every_variable_reaches_its_field() {
    let config = TcpConfig::from_map(&map(&[
        ("COBRE_TCP_PORT", "4000"),
        ("COBRE_TCP_TIMEOUT_SECS", "1.5"),
        ("COBRE_TCP_CONNECT_TIMEOUT_MS", " 250 "),
        ("COBRE_TCP_BIND_ADDR", "::1"),
        ("COBRE_TCP_WORKER_PORTS", "29501 - 29600"),
        ("COBRE_TCP_SECRET", "hush"),
        ("COBRE_TCP_INSECURE", "1"),
        ("COBRE_TCP_ENCRYPT", "0"),
        ("COBRE_TCP_LISTEN_FD", "3"),
        ("COBRE_JOB_ID", "j"),
    ]));
    let mut expected = TcpConfig::new("localhost", 1, 4);
    expected.port = 4000;
    expected.timeout = Some(Duration::from_millis(1500));
    expected.connect_timeout = Duration::from_millis(250);
    expected.bind_addr = Some("::1".parse().unwrap());
    expected.worker_ports = Some(29501..=29600);
    expected.secret = Some("hush".into());
    expected.insecure = true;
    expected.encryption = Encryption::Off;
    expected.listen_fd = Some(3);
    expected.job_id = Some("j".into());
    assert_eq!(config, Ok(expected));
}

#[test]
fn empty_counts_as_not_set_and_zero_waits_for_ever() {
    let config = TcpConfig::from_map(&map(&[
        ("COBRE_TCP_PORT", ""),
        ("COBRE_TCP_SECRET", "  "),
        ("COBRE_TCP_TIMEOUT_SECS", "0"),
    ]));
    let config = config.unwrap();
    assert_eq!(
        (config.port, config.secret, config.timeout),
        (29500, None, None)
    );
}

#[test]
fn everything_wrong_is_named_at_once_with_its_value_but_never_the_secret() {
    let mut map = map(&[
        ("COBRE_TCP_PORT", "http"),
        ("COBRE_TCP_TIMEOUT_SECS", "-1"),
        ("COBRE_TCP_BIND_ADDR", "eth0"),
        ("COBRE_TCP_SECRET", "hush-hush"),
        ("COBRE_TCP_SECRET_FILE", "key.txt"),
        ("COBRE_TCP_INSECURE", "yes"),
    ]);
    map.remove("COBRE_TCP_RANK");
    let error = TcpConfig::from_map(&map).unwrap_err();
    assert_eq!(error.kind, InitErrorKind::MissingConfiguration);
    assert_eq!(
        error.variables,
        [
            "COBRE_TCP_RANK",
            "COBRE_TCP_PORT",
            "COBRE_TCP_TIMEOUT_SECS",
            "COBRE_TCP_BIND_ADDR",
            "COBRE_TCP_INSECURE",
            "COBRE_TCP_SECRET",
            "COBRE_TCP_SECRET_FILE",
        ]
    );
    for shown in ["\"http\"", "\"-1\"", "\"eth0\"", "\"yes\""] {
        assert!(error.message.contains(shown), "{shown} in {error}");
    }
    assert!(!format!("{error:?}").contains("hush"));
}

#[rstest]
#[case::port("COBRE_TCP_PORT", "65536")]
#[case::rank_too_high("COBRE_TCP_RANK", "4")]
#[case::rank_negative("COBRE_TCP_RANK", "-1")]
#[case::no_ranks("COBRE_TCP_SIZE", "0")]
#[case::too_many("COBRE_TCP_SIZE", "4097")]
#[case::with_port("COBRE_TCP_COORDINATOR", "node:29500")]
#[case::with_port_v6("COBRE_TCP_COORDINATOR", "[::1]:29500")]
#[case::timeout("COBRE_TCP_TIMEOUT_SECS", "NaN")]
#[case::encrypt("COBRE_TCP_ENCRYPT", "yes")]
#[case::connect("COBRE_TCP_CONNECT_TIMEOUT_MS", "1.5")]
#[case::one_end("COBRE_TCP_WORKER_PORTS", "29501-")]
#[case::downwards("COBRE_TCP_WORKER_PORTS", "29600-29501")]
#[case::port_0("COBRE_TCP_WORKER_PORTS", "0-29501")]
#[case::port_too_high("COBRE_TCP_WORKER_PORTS", "29501-65536")]
fn a_value_that_cannot_be_used_is_named(#[case] variable: &str, #[case] value: &str) {
    let error = TcpConfig::from_map(&map(&[(variable, value)])).unwrap_err();
    assert_eq!(error.kind, InitErrorKind::InvalidConfiguration);
    assert!(error.variables.contains(&variable.to_owned()), "{error:?}");
    assert!(error.message.contains(value), "{error}");
}

#[rstest]
#[case::none(&[], false)]
#[case::insecure(&[("COBRE_TCP_INSECURE", "1")], false)]
#[case::text(&[("COBRE_TCP_SECRET", "hush")], true)]
#[case::file(&[("COBRE_TCP_SECRET_FILE", "key.txt")], true)]
fn encryption_on_request_needs_a_secret(#[case] secret: &[(&str, &str)], #[case] works: bool) {
    let mut map = map(secret);
    map.insert("COBRE_TCP_ENCRYPT".to_owned(), "1".to_owned());
    let read = TcpConfig::from_map(&map);
    assert_eq!(read.is_ok(), works, "{read:?}");
    if let Err(error) = read {
        assert_eq!(error.variables[0], "COBRE_TCP_ENCRYPT");
        assert!(error.message.contains("COBRE_TCP_SECRET"), "{error}");
    }
}

#[test]
fn debug_shows_no_secret() {
    let mut config = TcpConfig::new("localhost", 0, 1);
    config.secret = Some("hush".into());
    let shown = format!("{config:?}");
    assert!(!shown.contains("hush") && shown.contains("redacted"));
}

/// An empty secret file, which somebody meant to fill, protects nothing.
#[rstest]
#[case::nothing("")]
#[case::white_space(" \n\t\n")]
fn an_empty_secret_file_is_refused(#[case] contents: &str) {
    let name = format!("comm-tcp-secret-{}-{}", std::process::id(), contents.len());
    let path = std::env::temp_dir().join(name);
    std::fs::write(&path, contents).unwrap();
    let mut config = TcpConfig::new("localhost", 0, 2);
    config.secret_file = Some(path.clone());
    let result = config.proof_of(&mut Countdown::new(Duration::from_secs(20)));
    std::fs::remove_file(&path).unwrap();
    let error = result.unwrap_err();
    assert_eq!(error.variables, ["COBRE_TCP_SECRET_FILE"]);
    assert!(error.message.contains("the file is empty"), "{error}");
}
