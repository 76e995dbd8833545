//! Advice for errors of the system.

use std::io;

use rustix::io::Errno;

/// Returns the message of a system error, with advice where there is any.
pub(crate) fn told(error: &io::Error) -> String {
    let errno = Errno::from_io_error(error);
    match errno.and_then(remedy) {
        Some(remedy) => format!("{error}; {remedy}"),
        None => error.to_string(),
    }
}

fn remedy(errno: Errno) -> Option<&'static str> {
    match errno {
        Errno::MFILE => Some("raise the limit of this process on open files (ulimit -n)"),
        Errno::NFILE => Some("raise the limit of the system on open files (sysctl fs.file-max)"),
        Errno::NOMEM => {
            Some("check the limits on address space and mappings (ulimit -v, vm.max_map_count)")
        }
        Errno::AGAIN => Some("check the limit on locked memory (ulimit -l)"),
        Errno::NOLCK => Some("the system has run out of locks"),
        Errno::OPNOTSUPP | Errno::NOSYS => Some("mount a tmpfs at /dev/shm"),
        Errno::DQUOT => Some("raise the quota of this user on /dev/shm"),
        // Concerns a file without bytes: no other file can be created. Room for bytes is checked by `room`.
        Errno::NOSPC => {
            Some("remove files from /dev/shm (df -i), or mount it with more inodes (nr_inodes)")
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_known_error_has_a_remedy_and_an_unknown_one_its_words() {
        let told = |errno: Errno| told(&errno.into());
        let full = told(Errno::MFILE);
        assert!(
            full.contains("open files") && full.contains("; raise") && full.contains("ulimit -n"),
            "{full}"
        );
        assert_eq!(told(Errno::IO), io::Error::from(Errno::IO).to_string());
    }
}
