//! Why a rank could not join its job.

/// Tells why [`connect`](crate::TcpBackend::connect) failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
#[non_exhaustive]
pub struct InitError {
    /// What kind of failure it was.
    pub kind: InitErrorKind,
    /// The environment variables that are missing, hold what cannot be used, or can be changed to
    /// get past the failure.
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
    pub(crate) fn new(kind: InitErrorKind, variables: &[&str], message: impl Into<String>) -> Self {
        Self {
            kind,
            variables: variables.iter().map(|&v| v.to_owned()).collect(),
            message: message.into(),
        }
    }

    pub(crate) fn invalid(variables: &[&str], message: impl Into<String>) -> Self {
        Self::new(InitErrorKind::InvalidConfiguration, variables, message)
    }

    pub(crate) fn failed(variables: &[&str], message: impl Into<String>) -> Self {
        Self::new(InitErrorKind::Failed, variables, message)
    }
}
