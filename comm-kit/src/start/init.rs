//! Why a rank could not join its job.

use std::fmt;

/// Reports why the constructor of a backend failed.
///
/// Every backend re-exports this type. `{:?}` shows the message, because a `main` that returns an error
/// prints it that way; `{:#?}` shows the fields.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
#[non_exhaustive]
pub struct InitError {
    /// The kind of failure.
    pub kind: InitErrorKind,
    /// The environment variables that are missing, have unusable values, or can be changed to resolve the
    /// failure.
    pub variables: Vec<String>,
    /// What failed, and what to do about it.
    pub message: String,
}

/// Names the kind of an [`InitError`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum InitErrorKind {
    /// A required variable is not set.
    MissingConfiguration,
    /// A value is unusable, alone or together with those of the other ranks.
    InvalidConfiguration,
    /// The configuration is valid, but the ranks could not connect.
    Failed,
}

impl fmt::Debug for InitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !f.alternate() {
            return fmt::Display::fmt(self, f);
        }
        f.debug_struct("InitError")
            .field("kind", &self.kind)
            .field("variables", &self.variables)
            .field("message", &self.message)
            .finish()
    }
}

impl InitErrorKind {
    /// Returns a short name that programs and logs may rely on: it never changes.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::MissingConfiguration => "missing_configuration",
            Self::InvalidConfiguration => "invalid_configuration",
            Self::Failed => "failed",
        }
    }
}

impl InitError {
    /// Creates an error of any kind.
    pub fn new(kind: InitErrorKind, variables: &[&str], message: impl Into<String>) -> Self {
        Self {
            kind,
            variables: variables.iter().map(ToString::to_string).collect(),
            message: message.into(),
        }
    }

    /// Creates an error about unusable values.
    pub fn invalid(variables: &[&str], message: impl Into<String>) -> Self {
        Self::new(InitErrorKind::InvalidConfiguration, variables, message)
    }

    /// Creates the error of a failed start; `variables` are those worth changing.
    pub fn failed(variables: &[&str], message: impl Into<String>) -> Self {
        Self::new(InitErrorKind::Failed, variables, message)
    }
}
