//! Why there is no communicator.

use std::error::Error;

use crate::name::{Name, nearest};

/// Why a communicator could not be created, and what to do about it.
///
/// The variants stand in the order in which they are checked: a name that does not exist comes
/// before a backend that is not compiled in, that before variables that are not set, and only then
/// is anything opened or connected.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BackendError {
    /// There is no backend of this name.
    #[error("COBRE_COMM_BACKEND: there is no backend {requested:?}{}; this program has {}, or leave it to auto", suggestion(.requested), .available.join(", "))]
    InvalidBackend {
        /// What was asked for.
        requested: String,
        /// What is compiled in.
        available: Vec<String>,
    },
    /// The backend exists, and this program was built without it.
    #[error("the {requested} backend is not compiled in, this program has {}; build it with the feature {requested:?} of comm-factory, or choose another with COBRE_COMM_BACKEND", .available.join(", "))]
    BackendNotAvailable {
        /// What was asked for, or what the launcher asks for.
        requested: String,
        /// What is compiled in.
        available: Vec<String>,
    },
    /// Variables that the backend needs are not set.
    #[error("{backend}: not set: {}; set them, or start the ranks with comm-run, which does", .missing_vars.join(", "))]
    MissingConfiguration {
        /// The backend that was chosen.
        backend: String,
        /// Every variable that is missing.
        missing_vars: Vec<String>,
    },
    /// The backend was there and configured, and could not start.
    #[error("{backend}: {source}")]
    InitializationFailed {
        /// The backend that was chosen.
        backend: String,
        /// What the backend says.
        source: Box<dyn Error + Send + Sync>,
    },
}

/// Variables that contradict each other or make no sense.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Contradiction(pub(crate) String);

impl BackendError {
    pub(crate) fn contradiction(backend: Name, message: String) -> Self {
        Self::InitializationFailed {
            backend: backend.to_string(),
            source: Box::new(Contradiction(message)),
        }
    }
}

fn suggestion(requested: &str) -> String {
    nearest(requested).map_or_else(String::new, |name| format!(", did you mean {name:?}"))
}
