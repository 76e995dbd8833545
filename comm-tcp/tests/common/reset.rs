//! Makes the system reset the links of a process when it closes them, as it does when received bytes are
//! unread.

/// Makes all sockets of this process end with a reset, however the process ends.
#[cfg(target_os = "linux")]
pub(crate) fn on_close() {
    use rustix::process::{PidfdFlags, PidfdGetfdFlags, getpid, pidfd_getfd, pidfd_open};
    let own = pidfd_open(getpid(), PidfdFlags::empty()).unwrap();
    for entry in std::fs::read_dir("/proc/self/fd").unwrap() {
        let number = entry.unwrap().file_name().into_string().unwrap();
        // Descriptors that are not sockets do not have that option.
        if let Ok(fd) = pidfd_getfd(&own, number.parse().unwrap(), PidfdGetfdFlags::empty()) {
            let at_once = Some(std::time::Duration::ZERO);
            let _ = rustix::net::sockopt::set_socket_linger(fd, at_once);
        }
    }
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn on_close() {}
