//! Why a communicator could not be created.

use std::error::Error;
use std::fmt;

use crate::name::{Name, nearest};

/// Why a communicator could not be created, and what to do about it.
///
/// The variants are in the order of the checks: first for an unknown name, then for a backend that is not compiled in, then for
/// missing variables; only after that does the backend open or connect anything. `{:?}` shows the message, because a `main` that
/// returns an error prints it that way; `{:#?}` shows the fields.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum BackendError {
    /// There is no backend of this name.
    #[error("COBRE_COMM_BACKEND: there is no backend {requested:?}{}; this program has {}; use one of these, or auto", suggestion(.requested), .available.join(", "))]
    InvalidBackend {
        /// What was asked for.
        requested: String,
        /// What is compiled in.
        available: Vec<String>,
    },
    /// The backend exists, but this program was built without it.
    #[error("the {requested} backend is not compiled in, this program has {}; build it with the feature {requested:?} of comm-factory, or choose another with COBRE_COMM_BACKEND", .available.join(", "))]
    BackendNotAvailable {
        /// The backend that the program, the user or the launcher asked for.
        requested: String,
        /// What is compiled in.
        available: Vec<String>,
    },
    /// Variables that the backend needs are not set.
    #[error("{backend}: {}not set: {}; set them, or start the ranks with comm-run, which sets them", announced(.announced_by.as_deref()), .missing_vars.join(", "))]
    MissingConfiguration {
        /// The backend that was chosen.
        backend: String,
        /// All missing variables.
        missing_vars: Vec<String>,
        /// The variables, with their values, by which a launcher announced ranks without connecting them.
        announced_by: Option<String>,
    },
    /// The backend is compiled in and configured, but could not start.
    #[error("{backend}: {source}")]
    InitializationFailed {
        /// The backend that was chosen.
        backend: String,
        /// The error of the backend.
        source: Box<dyn Error + Send + Sync>,
    },
}

impl fmt::Debug for BackendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !f.alternate() {
            return fmt::Display::fmt(self, f);
        }
        match self {
            Self::InvalidBackend {
                requested,
                available,
            } => f
                .debug_struct("InvalidBackend")
                .field("requested", requested)
                .field("available", available)
                .finish(),
            Self::BackendNotAvailable {
                requested,
                available,
            } => f
                .debug_struct("BackendNotAvailable")
                .field("requested", requested)
                .field("available", available)
                .finish(),
            Self::MissingConfiguration {
                backend,
                missing_vars,
                announced_by,
            } => f
                .debug_struct("MissingConfiguration")
                .field("backend", backend)
                .field("missing_vars", missing_vars)
                .field("announced_by", announced_by)
                .finish(),
            Self::InitializationFailed { backend, source } => f
                .debug_struct("InitializationFailed")
                .field("backend", backend)
                .field("source", source)
                .finish(),
        }
    }
}

/// Variables that contradict each other or have invalid values.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Contradiction(pub(crate) String);

impl BackendError {
    /// Returns a short name for programs and logs; it never changes.
    #[must_use]
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::InvalidBackend { .. } => "invalid_backend",
            Self::BackendNotAvailable { .. } => "backend_not_available",
            Self::MissingConfiguration { .. } => "missing_configuration",
            Self::InitializationFailed { .. } => "initialization_failed",
        }
    }

    pub(crate) fn contradiction(backend: Name, message: String) -> Self {
        Self::InitializationFailed {
            backend: backend.to_string(),
            source: Box::new(Contradiction(message)),
        }
    }
}

fn announced(by: Option<&str>) -> String {
    by.map_or_else(String::new, |by| {
        format!("{by} announces ranks, but the variables to connect them are ")
    })
}

fn suggestion(requested: &str) -> String {
    nearest(requested).map_or_else(String::new, |name| format!(", did you mean {name:?}"))
}
