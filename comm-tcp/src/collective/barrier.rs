//! Barrier: an entry round and nothing else.

use super::Failure;
use crate::call::Call;
use crate::engine::Engine;

impl Engine {
    pub(crate) fn barrier(&mut self) -> Result<(), Failure> {
        self.agree(Call::BARRIER)
    }
}
