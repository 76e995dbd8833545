//! What to do about an error of the system.

use std::io;

use rustix::io::Errno;

/// Returns an error of the system in words, with what to do about it as far as that is known.
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
            Some("look at the limits on address space and mappings (ulimit -v, vm.max_map_count)")
        }
        Errno::AGAIN => Some("look at the limit on locked memory (ulimit -l)"),
        Errno::NOLCK => Some("the system has no room for locks"),
        Errno::OPNOTSUPP | Errno::NOSYS => Some("mount a tmpfs at /dev/shm"),
        Errno::DQUOT => Some("raise the quota of this user on /dev/shm"),
        // Of a file without bytes: there is room for no other one. Bytes are looked for by `room`.
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
