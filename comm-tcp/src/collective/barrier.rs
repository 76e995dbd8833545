//! Barrier: an entry round and nothing else.

use comm_kit::Call;

use super::Failure;
use crate::engine::Engine;

impl Engine {
    pub(crate) fn barrier(&mut self) -> Result<(), Failure> {
        self.agree(Call::barrier())
    }
}
