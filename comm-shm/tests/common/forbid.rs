//! Revokes the permission of this thread to read other processes, as containers do.
#![allow(unsafe_code, reason = "filters of system calls have no safe interface")]

use std::io;

/// Makes `process_vm_readv` fail with `EPERM` on this thread from here on, and on the threads it starts.
pub fn forbid_reading() -> io::Result<()> {
    const LOAD_WORD: u16 = 0x20;
    const JUMP_IF_EQUAL: u16 = 0x15;
    const RETURN: u16 = 0x06;
    let step = |code, jt, jf, k| libc::sock_filter { code, jt, jf, k };
    let number = u32::try_from(libc::SYS_process_vm_readv).map_err(io::Error::other)?;
    let denied = libc::SECCOMP_RET_ERRNO | libc::EPERM.cast_unsigned();
    let mut steps = [
        // The number of the system call comes first in what a filter sees.
        step(LOAD_WORD, 0, 0, 0),
        step(JUMP_IF_EQUAL, 0, 1, number),
        step(RETURN, 0, 0, denied),
        step(RETURN, 0, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let filter = libc::sock_fprog {
        len: 4,
        filter: steps.as_mut_ptr(),
    };
    // SAFETY: passes numbers.
    check(unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) })?;
    // SAFETY: the kernel copies the four steps, which outlive the call.
    check(unsafe {
        libc::prctl(
            libc::PR_SET_SECCOMP,
            libc::SECCOMP_MODE_FILTER,
            &raw const filter,
        )
    })
}

fn check(result: libc::c_int) -> io::Result<()> {
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}
