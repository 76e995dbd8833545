use std::net::TcpStream;
use std::time::Duration;

use comm_testing::not_run;
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

/// The address of a machine behind a network address translation is not one of its own.
#[test]
fn an_address_that_this_machine_does_not_have_means_all() {
    let mut config = TcpConfig::new("192.0.2.1", 0, 2);
    config.port = 0;
    let (listener, _) = open(&config).unwrap();
    assert!(listener.local_addr().unwrap().ip().is_unspecified());
}

/// The process that holds the port of one protocol would be contacted by workers that try that protocol
/// first.
#[test]
fn a_port_that_is_busy_for_one_protocol_is_busy() {
    use rustix::net::{
        AddressFamily, SocketType, bind, getsockname, ipproto, listen, socket, sockopt,
    };
    let other = socket(AddressFamily::INET6, SocketType::STREAM, Some(ipproto::TCP)).unwrap();
    sockopt::set_ipv6_v6only(&other, true).unwrap();
    let Ok(()) = bind(&other, &SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0))) else {
        not_run("there is no IPv6 here");
        return;
    };
    listen(&other, 1).unwrap();
    let address = SocketAddr::try_from(getsockname(&other).unwrap()).unwrap();
    let mut config = TcpConfig::new("node-0", 0, 2);
    config.port = address.port();
    let error = open(&config).unwrap_err();
    assert!(error.message.contains(variables::PORT), "{error}");
}

/// No worker would find a rank 0 that listens on the other loopback address.
#[rstest]
#[case::the_other("localhost", "::1", false)]
#[case::as_written("::1", "::1", true)]
#[case::where_it_is_sought("localhost", "127.0.0.1", true)]
#[case::everywhere("localhost", "::", true)]
fn rank_0_listens_where_localhost_is_sought(
    #[case] coordinator: &str,
    #[case] listens: &str,
    #[case] found: bool,
) {
    if localhost().is_ipv6() {
        not_run("there is no IPv4 here");
        return;
    }
    let config = TcpConfig::new(coordinator, 0, 2);
    let result = findable(listens.parse().unwrap(), &config);
    assert_eq!(result.is_ok(), found);
    let names = result.err().map_or(Vec::new(), |error| error.variables);
    assert_eq!(names.is_empty(), found, "{names:?}");
}

/// Hundreds of ranks connect before rank 0 accepts the first of them.
#[rstest]
fn a_listener_has_room_for_many_whoever_opened_it(#[values(false, true)] given: bool) {
    let most = std::fs::read_to_string("/proc/sys/net/core/somaxconn").unwrap_or_default();
    if most.trim().parse::<u32>().unwrap_or(0) < 400 {
        not_run("the system allows no longer queue");
        return;
    }
    let mut config = TcpConfig::new("127.0.0.1", 0, 2);
    config.port = 0;
    let other = given.then(|| TcpListener::bind("127.0.0.1:0").unwrap());
    let (listener, _) = take(other, &config).unwrap();
    let address = listener.local_addr().unwrap();
    let connect = |_| TcpStream::connect_timeout(&address, Duration::from_secs(2)).unwrap();
    let waiting: Vec<TcpStream> = (0..300).map(connect).collect();
    assert_eq!(waiting.len(), 300);
}
