//! The kinds of faults, one per round.

use clap::ValueEnum;

use crate::noise::Noise;

/// The fault of one round, as named in the table and by `--fault`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub(crate) enum Fault {
    /// None: what must work after every other round.
    Nothing,
    /// One rank is killed.
    KillOne,
    /// Several ranks are killed at once.
    KillSeveral,
    /// One rank is killed, and a little later another.
    KillInTurn,
    /// One rank is killed while all are about to finish.
    KillAtEnd,
    /// All ranks are killed.
    KillAll,
    /// A rank exits, panics, drops its communicator or aborts.
    Leave,
    /// The same, and another one is killed a little later.
    LeaveAndKill,
    /// Ranks are stopped for a while.
    Stop,
    /// One rank is stopped for a while; one is killed.
    StopAndKill,
    /// Ranks get many signals, for which they have handlers.
    Flood,
    /// The same, and one is killed.
    FloodAndKill,
    /// Strangers connect to the ports that the ranks listen on.
    Knock,
    /// The same, and one is killed.
    KnockAndKill,
    /// All ranks are stopped at once, for longer than the timeout.
    Suspend,
    /// The same, and one is killed meanwhile.
    SuspendAndKill,
    /// Ranks have no file descriptors left.
    NoDescriptors,
    /// The same, and one is killed.
    NoDescriptorsAndKill,
    /// A rank dumps core.
    DumpCore,
    /// The log of every rank blocks, and one is killed.
    BlockLogAndKill,
    /// Bytes to and from some ranks arrive slowly, for longer than the timeout.
    SlowLink,
    /// Strangers connect to the ports all the time while ranks start late.
    StormAtStart,
    /// Ranks start late.
    LateStart,
    /// A rank is stopped at the start.
    StopAtStart,
    /// A rank is killed at the start.
    KillAtStart,
    /// All ranks are killed at the start.
    KillAllAtStart,
}

impl Fault {
    /// Draws a fault. A job without faults follows every round anyway, and is not drawn.
    pub(crate) fn draw(seed: u64) -> Self {
        let mut noise = Noise::new(seed, &[0x7e3e]);
        // The deaths in the middle of a program, where most can go wrong, are drawn twice as often.
        let each = &Self::value_variants()[1..];
        let twice = [
            Self::KillOne,
            Self::KillOne,
            Self::KillSeveral,
            Self::KillInTurn,
            Self::Leave,
            Self::LeaveAndKill,
        ];
        let at = noise.below(each.len() + twice.len());
        let again = |at: usize| twice[at - each.len()];
        each.get(at).copied().unwrap_or_else(|| again(at))
    }

    /// Returns the name.
    pub(crate) fn name(self) -> String {
        let value = self.to_possible_value();
        value.map_or_else(String::new, |value| value.get_name().to_owned())
    }

    /// Returns whether ranks die or leave, so that the others cannot finish, except perhaps at the very end.
    pub(crate) fn is_deadly(self) -> bool {
        !matches!(
            self,
            Self::Nothing
                | Self::Stop
                | Self::Flood
                | Self::Knock
                | Self::Suspend
                | Self::NoDescriptors
                | Self::SlowLink
                | Self::StormAtStart
                | Self::LateStart
                | Self::StopAtStart
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_reads_back() {
        for &fault in Fault::value_variants() {
            assert_eq!(Fault::from_str(&fault.name(), false), Ok(fault));
        }
        assert_eq!(Fault::KillAllAtStart.name(), "kill-all-at-start");
    }

    #[test]
    fn every_fault_is_in_the_table_of_the_documentation() {
        for fault in &Fault::value_variants()[1..] {
            let name = format!("`{}`", fault.name());
            assert!(include_str!("../../README.md").contains(&name), "{name}");
        }
    }

    #[test]
    fn every_fault_but_none_is_drawn() {
        let drawn: std::collections::BTreeSet<Fault> = (0..500).map(Fault::draw).collect();
        assert_eq!(drawn.len(), Fault::value_variants().len() - 1);
        assert!(!drawn.contains(&Fault::Nothing));
    }
}
