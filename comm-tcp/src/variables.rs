//! The names of the environment variables.

pub(crate) const COORDINATOR: &str = "COBRE_TCP_COORDINATOR";
pub(crate) const PORT: &str = "COBRE_TCP_PORT";
pub(crate) const RANK: &str = "COBRE_TCP_RANK";
pub(crate) const SIZE: &str = "COBRE_TCP_SIZE";
pub(crate) const TIMEOUT: &str = "COBRE_TCP_TIMEOUT_SECS";
pub(crate) const CONNECT_TIMEOUT: &str = "COBRE_TCP_CONNECT_TIMEOUT_MS";
pub(crate) const BIND_ADDR: &str = "COBRE_TCP_BIND_ADDR";
pub(crate) const SECRET: &str = "COBRE_TCP_SECRET";
pub(crate) const SECRET_FILE: &str = "COBRE_TCP_SECRET_FILE";
pub(crate) const INSECURE: &str = "COBRE_TCP_INSECURE";
pub(crate) const ENCRYPT: &str = "COBRE_TCP_ENCRYPT";
pub(crate) const WORKER_PORTS: &str = "COBRE_TCP_WORKER_PORTS";
pub(crate) const LISTEN_FD: &str = "COBRE_TCP_LISTEN_FD";
pub(crate) const JOB_ID: &str = "COBRE_JOB_ID";

/// All of them except the secret, whose value must not be displayed anywhere.
pub(crate) const PLAIN: [&str; 13] = [
    COORDINATOR,
    PORT,
    RANK,
    SIZE,
    TIMEOUT,
    CONNECT_TIMEOUT,
    BIND_ADDR,
    SECRET_FILE,
    INSECURE,
    ENCRYPT,
    WORKER_PORTS,
    LISTEN_FD,
    JOB_ID,
];
