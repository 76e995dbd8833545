use rstest::rstest;

use super::*;

#[rstest]
#[case::loopback("127.0.0.1", &["127.0.0.1"])]
#[case::an_address("10.1.2.3", &["10.1.2.3", "0.0.0.0"])]
#[case::an_address_of_6("2001:db8::1", &["2001:db8::1", "::"])]
#[case::mapped("::ffff:10.1.2.3", &["10.1.2.3", "0.0.0.0"])]
#[case::a_name("node-0", &["::", "0.0.0.0"])]
fn rank_0_listens_where_the_coordinator_is_written(
    #[case] coordinator: &str,
    #[case] expected: &[&str],
) {
    let expected: Vec<IpAddr> = expected.iter().map(|ip| ip.parse().unwrap()).collect();
    assert_eq!(by_coordinator(coordinator), expected);
}

/// The address of a machine behind a translation is none of its own.
#[test]
fn an_address_that_this_machine_does_not_have_means_all() {
    let mut config = TcpConfig::new("192.0.2.1", 0, 2);
    config.port = 0;
    let listener = open(&config).unwrap();
    assert!(listener.local_addr().unwrap().ip().is_unspecified());
}
