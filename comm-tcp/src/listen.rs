//! Where rank 0 listens, and whether that requires a secret.

use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};
use std::sync::Once;

use crate::config::TcpConfig;
use crate::error::InitError;
use crate::inherited::{self, Turn};
use crate::secret::Secret;
use crate::variables;

/// How many connections may wait to be accepted; the system may permit fewer.
const BACKLOG: i32 = 4096;

/// Takes the listener that rank 0 was given, or opens one. Hundreds of ranks may connect to it at once. The
/// turn of an inherited listener is held until the start is over.
pub(crate) fn take(
    given: Option<TcpListener>,
    config: &TcpConfig,
) -> Result<(TcpListener, Option<Turn>), InitError> {
    let (listener, turn) = match given {
        Some(listener) => (listener, None),
        None => open(config)?,
    };
    make_room(&listener);
    Ok((listener, turn))
}

/// Opens the listener of rank 0: the inherited one if there is one.
fn open(config: &TcpConfig) -> Result<(TcpListener, Option<Turn>), InitError> {
    if let Some(fd) = config.listen_fd {
        let inherited = inherited::listener(fd).map_err(|reason| {
            let name = variables::LISTEN_FD;
            InitError::invalid(&[name], format!("{name} is {fd}: {reason}"))
        });
        return inherited.map(|(listener, turn)| (listener, Some(turn)));
    }
    let choices = match config.bind_addr {
        Some(ip) => vec![ip],
        None => by_coordinator(&config.coordinator),
    };
    let mut failure = None;
    for ip in choices {
        match TcpListener::bind((ip, config.port)) {
            Ok(listener) => return Ok((listener, None)),
            // A busy port is an error: on another port, this rank would be where the workers of the other job
            // look, and its own workers would find the other job.
            Err(error) if error.kind() == ErrorKind::AddrInUse => {
                failure = Some((ip, error));
                break;
            }
            Err(error) => {
                failure.get_or_insert((ip, error));
            }
        }
    }
    let Some((ip, error)) = failure else {
        return Err(InitError::failed(&[], "there is no address to listen on"));
    };
    let address = SocketAddr::new(ip, config.port);
    let (names, advice): (&[&str], String) = match error.kind() {
        ErrorKind::AddrInUse => (
            &[variables::PORT],
            format!(
                "another program holds the port; set {} to a free one on every rank",
                variables::PORT
            ),
        ),
        ErrorKind::AddrNotAvailable => (
            &[variables::BIND_ADDR, variables::COORDINATOR],
            format!(
                "this machine does not have that address; set {} to one it has, and run rank 0 on {}",
                variables::BIND_ADDR,
                variables::COORDINATOR
            ),
        ),
        _ => (
            &[variables::PORT, variables::BIND_ADDR],
            format!("set {} or {}", variables::PORT, variables::BIND_ADDR),
        ),
    };
    let message = format!("rank 0 cannot listen on {address}: {error}; {advice}");
    Err(InitError::failed(names, message))
}

/// Lets many connections wait. If this fails, the default stays.
pub(crate) fn make_room(listener: &TcpListener) {
    let _ = rustix::net::listen(listener, BACKLOG);
}

/// Decides by how the coordinator is written, never by what its name resolves to: many systems resolve their
/// own name to a loopback address, at which no other machine could reach this one. If the coordinator is an
/// address, rank 0 listens only there, unless the machine does not have it, as behind a network address
/// translation.
fn by_coordinator(coordinator: &str) -> Vec<IpAddr> {
    let all = [
        IpAddr::V6(Ipv6Addr::UNSPECIFIED),
        IpAddr::V4(Ipv4Addr::UNSPECIFIED),
    ];
    match coordinator.parse::<IpAddr>().map(|ip| ip.to_canonical()) {
        Ok(ip) if ip.is_loopback() => vec![ip],
        Ok(ip @ IpAddr::V4(_)) => vec![ip, all[1]],
        Ok(ip @ IpAddr::V6(_)) => vec![ip, all[0]],
        Err(_) if is_localhost(coordinator) => {
            vec![localhost()]
        }
        Err(_) => all.to_vec(),
    }
}

/// Returns the one address that `localhost` stands for, whatever it resolves to: rank 0 listens there, and
/// workers do not look elsewhere, where another program could impersonate it.
pub(crate) fn localhost() -> IpAddr {
    let ip = IpAddr::from(Ipv4Addr::LOCALHOST);
    match TcpListener::bind((ip, 0)) {
        Err(error) if error.kind() == ErrorKind::AddrNotAvailable => Ipv6Addr::LOCALHOST.into(),
        _ => ip,
    }
}

/// Rejects a listener on a loopback address where no worker looks for rank 0.
pub(crate) fn findable(address: IpAddr, config: &TcpConfig) -> Result<(), InitError> {
    let (address, sought) = (address.to_canonical(), localhost());
    if !is_localhost(&config.coordinator) || !address.is_loopback() || address == sought {
        return Ok(());
    }
    let names = [variables::COORDINATOR, variables::BIND_ADDR];
    let message = format!(
        "the ranks look for {} at {sought}, and rank 0 listens on {address}; set {} to {address}",
        config.coordinator, names[0]
    );
    Err(InitError::invalid(&names, message))
}

pub(crate) fn is_localhost(name: &str) -> bool {
    let name = name.trim_end_matches('.').to_ascii_lowercase();
    name == "localhost" || name.ends_with(".localhost")
}

/// Rejects a job beyond loopback without a secret.
pub(crate) fn permit(
    address: IpAddr,
    what: &str,
    secret: Option<&Secret>,
    config: &TcpConfig,
) -> Result<(), InitError> {
    if secret.is_some() {
        return Ok(());
    }
    let loopback = address.to_canonical().is_loopback();
    if loopback || config.insecure {
        // A worker gets here at every attempt; warning once is enough.
        static SAID: Once = Once::new();
        let who = if loopback {
            "any user of this machine"
        } else {
            "any process that reaches the port"
        };
        SAID.call_once(|| tracing::warn!(%address, "no secret is set: {who} may join the job, and nothing is encrypted"));
        return Ok(());
    }
    let names = [
        variables::SECRET,
        variables::SECRET_FILE,
        variables::INSECURE,
    ];
    let [secret, file, insecure] = names;
    Err(InitError::invalid(
        &names,
        format!(
            "{what} {address} is not on loopback, so the ranks need a secret: set {secret} or {file} \
             to the same value on all of them ({insecure}=1 lets any process join)"
        ),
    ))
}

#[cfg(test)]
mod tests;
