//! A hash for comparing results: FNV-1a over the little-endian bytes. Not for secrets.

use comm_api::CommData;

/// The hash of the bytes so far.
#[derive(Debug, Clone, Copy)]
pub struct Hash(u64);

impl Hash {
    /// Returns the hash of no bytes.
    pub fn new() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }

    /// Adds bytes.
    pub fn bytes(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }

    /// Adds the bytes of elements.
    pub fn data<T: CommData>(&mut self, data: &[T]) {
        self.bytes(bytemuck::cast_slice(data));
    }

    /// Returns the hash.
    pub fn finish(self) -> u64 {
        self.0
    }
}
