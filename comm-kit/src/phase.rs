//! The phases of a shared region.

/// Keeps the phase of one handle to a region, and panics where the phase does not permit an access.
///
/// A region begins in its write phase. A fence [closes](Self::close) the phase, meets the other
/// ranks and [opens](Self::open) the next one. A handle whose fence did not get that far is broken.
///
/// ```
/// use comm_kit::Phases;
///
/// let mut phases = Phases::new();
/// phases.expect_write();
/// let ended = phases.close();
/// // .. all ranks meet; an early return here leaves the handle broken ..
/// phases.open(ended);
/// phases.expect_read();
/// ```
#[derive(Debug)]
pub struct Phases {
    phase: Phase,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Write,
    Read,
    Broken,
}

/// Proves that a phase was closed on this rank; the next can be opened with it.
#[derive(Debug)]
#[must_use = "without it the next phase cannot be opened"]
pub struct Ended(Phase);

impl Ended {
    /// Returns whether it was a write phase: then others read next what this rank wrote.
    #[must_use]
    pub fn was_write(&self) -> bool {
        self.0 == Phase::Write
    }
}

impl Default for Phases {
    fn default() -> Self {
        Self::new()
    }
}

impl Phases {
    /// Begins with the write phase.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            phase: Phase::Write,
        }
    }

    /// Permits `as_slice`.
    ///
    /// # Panics
    ///
    /// Outside a read phase, saying what to do.
    #[inline]
    pub fn expect_read(&self) {
        match self.phase {
            Phase::Read => {}
            Phase::Write => panic!(
                "as_slice: the region is in its write phase; call fence() to end it, then read"
            ),
            Phase::Broken => panic!("as_slice: {BROKEN}"),
        }
    }

    /// Permits `as_mut_slice`.
    ///
    /// # Panics
    ///
    /// Outside a write phase, saying what to do.
    #[inline]
    pub fn expect_write(&self) {
        match self.phase {
            Phase::Write => {}
            Phase::Read => panic!(
                "as_mut_slice: the region is in its read phase; call fence() to end it, then write"
            ),
            Phase::Broken => panic!("as_mut_slice: {BROKEN}"),
        }
    }

    /// Ends the phase on this rank. The handle is broken until the next is opened.
    pub fn close(&mut self) -> Ended {
        Ended(std::mem::replace(&mut self.phase, Phase::Broken))
    }

    /// Begins the phase after `ended`, once all ranks have closed theirs. A broken handle stays
    /// broken.
    #[expect(
        clippy::needless_pass_by_value,
        reason = "a phase that ended is followed by one other"
    )]
    pub fn open(&mut self, ended: Ended) {
        self.phase = match ended.0 {
            Phase::Write => Phase::Read,
            Phase::Read => Phase::Write,
            Phase::Broken => Phase::Broken,
        };
    }
}

const BROKEN: &str = "a fence of this region failed, so what it holds cannot be relied on; drop it \
                      and create another";

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;

    fn panics(access: impl FnOnce()) -> String {
        let panic = catch_unwind(AssertUnwindSafe(access)).expect_err("permitted");
        let text = panic.downcast_ref::<String>().cloned();
        text.or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string))
            .expect("a message")
    }

    #[test]
    fn phases_alternate() {
        let mut phases = Phases::new();
        for _ in 0..2 {
            phases.expect_write();
            assert!(panics(|| phases.expect_read()).contains("call fence()"));
            let ended = phases.close();
            assert!(ended.was_write());
            phases.open(ended);
            phases.expect_read();
            assert!(panics(|| phases.expect_write()).contains("call fence()"));
            let ended = phases.close();
            assert!(!ended.was_write());
            phases.open(ended);
        }
    }

    #[test]
    fn a_fence_that_does_not_open_breaks_the_handle_for_good() {
        let mut phases = Phases::new();
        drop(phases.close());
        assert!(panics(|| phases.expect_read()).contains("create another"));
        assert!(panics(|| phases.expect_write()).contains("create another"));
        let ended = phases.close();
        phases.open(ended);
        assert!(panics(|| phases.expect_read()).contains("create another"));
    }
}
