//! A forked child does not find the mark of its parent, and can set a mark of its own.
#![expect(unsafe_code, reason = "fork has no safe interface")]

use comm_api::{CommError, Operation};
use comm_kit::{Gate, Owner, Transport};

#[derive(Debug)]
struct Silent;

impl Transport for Silent {
    type State = usize;

    fn refuse(&self, refusals: &mut usize, _: &str) {
        *refusals += 1;
    }

    fn panicked(&self, _: &mut usize) {}
}

/// Runs `child` in a forked child and returns its exit code.
fn forked(child: impl FnOnce() -> bool) -> i32 {
    // SAFETY: the child only looks at marks and locks that no other thread holds, and exits.
    let pid = unsafe { libc::fork() };
    assert!(pid >= 0, "fork");
    if pid == 0 {
        let code = i32::from(!child());
        // SAFETY: ends the child without running the exit handlers of the parent.
        unsafe { libc::_exit(code) }
    }
    let mut status = 0;
    // SAFETY: `status` outlives the call.
    let waited = unsafe { libc::waitpid(pid, &raw mut status, 0) };
    assert_eq!(waited, pid);
    assert!(libc::WIFEXITED(status), "status {status}");
    libc::WEXITSTATUS(status)
}

#[test]
fn a_forked_child_is_somebody_else() {
    let owner = Owner::mark();
    let mut gate = Gate::new(1, Silent, 0);
    assert!(owner.is_here());
    let code = forked(|| {
        let refused = CommError::invalid_root(Operation::Broadcast, 7, 2);
        let strange = !owner.is_here()
            && gate.enter(Operation::Barrier).err() == Some(CommError::invalid_communicator())
            && gate.checked::<()>(Err(refused)) == Err(CommError::invalid_communicator())
            && gate.leave().is_none();
        let own = Owner::mark();
        strange && own.is_here() && !owner.is_here() && gate.enter(Operation::Barrier).is_err()
    });
    assert_eq!(code, 0, "the child used what belongs to its parent");
    assert!(owner.is_here(), "the child's mark is its own");
    assert!(gate.enter(Operation::Barrier).is_ok());
    assert_eq!(gate.leave().map(|(_, refusals)| *refusals), Some(0));
}
