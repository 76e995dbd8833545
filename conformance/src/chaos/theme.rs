//! What a round is about.

use crate::noise::Noise;

/// Names the violence of one round.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Theme {
    /// Nothing: what must work after every other round.
    Peace,
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
    /// Ranks get many signals that they handle.
    Flood,
    /// The same, and one is killed.
    FloodAndKill,
    /// Strangers come to the ports that the ranks listen on.
    Knock,
    /// The same, and one is killed.
    KnockAndKill,
    /// Ranks come late to the start.
    LateStart,
    /// A rank is stopped at the start.
    StopAtStart,
    /// A rank is killed at the start.
    KillAtStart,
    /// All ranks are killed at the start.
    KillAllAtStart,
}

impl Theme {
    /// All of them.
    pub(crate) const ALL: [Self; 18] = [
        Self::Peace,
        Self::KillOne,
        Self::KillSeveral,
        Self::KillInTurn,
        Self::KillAtEnd,
        Self::KillAll,
        Self::Leave,
        Self::LeaveAndKill,
        Self::Stop,
        Self::StopAndKill,
        Self::Flood,
        Self::FloodAndKill,
        Self::Knock,
        Self::KnockAndKill,
        Self::LateStart,
        Self::StopAtStart,
        Self::KillAtStart,
        Self::KillAllAtStart,
    ];

    /// Draws a theme. Peace comes after every round anyway, and is not drawn.
    pub(crate) fn draw(seed: u64) -> Self {
        let mut noise = Noise::new(seed, &[0x7e3e]);
        // The deaths in mid-program, where most can go wrong, come twice as often.
        match noise.below(23) {
            at @ 0..17 => Self::ALL[1 + at],
            17 | 18 => Self::KillOne,
            19 => Self::KillSeveral,
            20 => Self::KillInTurn,
            21 => Self::Leave,
            _ => Self::LeaveAndKill,
        }
    }

    /// Gives the name for the table and for `--violence`.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Peace => "peace",
            Self::KillOne => "kill-one",
            Self::KillSeveral => "kill-several",
            Self::KillInTurn => "kill-in-turn",
            Self::KillAtEnd => "kill-at-end",
            Self::KillAll => "kill-all",
            Self::Leave => "leave",
            Self::LeaveAndKill => "leave-and-kill",
            Self::Stop => "stop",
            Self::StopAndKill => "stop-and-kill",
            Self::Flood => "flood",
            Self::FloodAndKill => "flood-and-kill",
            Self::Knock => "knock",
            Self::KnockAndKill => "knock-and-kill",
            Self::LateStart => "late-start",
            Self::StopAtStart => "stop-at-start",
            Self::KillAtStart => "kill-at-start",
            Self::KillAllAtStart => "kill-all-at-start",
        }
    }

    /// Reads a name.
    pub(crate) fn parse(name: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|theme| theme.name() == name);
        found.ok_or_else(|| {
            let names = Self::ALL.map(Self::name).join(", ");
            format!("there is no violence '{name}'; there are: {names}")
        })
    }

    /// Tells whether ranks die or leave, so that the others cannot finish, or at the end perhaps not.
    pub(crate) fn is_deadly(self) -> bool {
        !matches!(
            self,
            Self::Peace
                | Self::Stop
                | Self::Flood
                | Self::Knock
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
        for theme in Theme::ALL {
            assert_eq!(Theme::parse(theme.name()), Ok(theme));
        }
        assert!(Theme::parse("x").unwrap_err().contains("kill-one"));
    }

    #[test]
    fn every_theme_but_peace_is_drawn() {
        let drawn: std::collections::BTreeSet<Theme> = (0..500).map(Theme::draw).collect();
        assert_eq!(drawn.len(), Theme::ALL.len() - 1);
        assert!(!drawn.contains(&Theme::Peace));
    }
}
