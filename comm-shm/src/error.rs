//! Why a rank could not join its job.

/// Tells why [`attach`](crate::ShmBackend::attach) failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
#[non_exhaustive]
pub struct InitError {
    /// What kind of failure it was.
    pub kind: InitErrorKind,
    /// The environment variables that are missing or hold what cannot be used.
    pub variables: Vec<String>,
    /// What failed, and what to do about it.
    pub message: String,
}

/// Tells what kind of failure an [`InitError`] is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum InitErrorKind {
    /// A required variable is not set.
    MissingConfiguration,
    /// A value cannot be used, alone or with those of the other ranks.
    InvalidConfiguration,
    /// The configuration is right, and the ranks could still not come together.
    Failed,
}

impl InitError {
    pub(crate) fn new(kind: InitErrorKind, variables: &[&str], message: String) -> Self {
        Self {
            kind,
            variables: variables
                .iter()
                .map(|&variable| variable.to_owned())
                .collect(),
            message,
        }
    }

    pub(crate) fn invalid(variables: &[&str], message: String) -> Self {
        Self::new(InitErrorKind::InvalidConfiguration, variables, message)
    }

    pub(crate) fn failed(message: impl Into<String>) -> Self {
        Self::new(InitErrorKind::Failed, &[], message.into())
    }
}
