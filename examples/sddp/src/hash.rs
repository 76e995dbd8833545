//! A hash to compare results with: FNV-1a over the bytes, little end first. Not for secrets.

use comm_factory::api::CommData;
use comm_factory::api::bytemuck;

/// The hash of the bytes so far.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Hash(u64);

impl Hash {
    pub(crate) fn new() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }

    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }

    pub(crate) fn data<T: CommData>(&mut self, data: &[T]) {
        self.bytes(bytemuck::cast_slice(data));
    }

    pub(crate) fn finish(self) -> u64 {
        self.0
    }
}
