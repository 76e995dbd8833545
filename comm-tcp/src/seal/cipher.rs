//! One direction of one link: its keys, one after the other, and the number of the next record.

use std::io::{self, ErrorKind};

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};

use crate::handshake::derive;

/// The length of the tag behind a record.
pub(super) const TAG: usize = 16;

/// How many records one key seals, 256 GiB if all are full. The next key is derived from the same secret: the
/// more one key has sealed, the more its output differs from random bytes.
const RECORDS: u64 = 1 << 22;

/// The secret from which the keys of one direction of one link are derived.
pub(crate) type TrafficSecret = [u8; 32];

/// Seals or opens records, one after the other.
pub(super) struct Cipher {
    secret: TrafficSecret,
    key: LessSafeKey,
    /// The number of the next record, and how many one key seals.
    number: u64,
    records: u64,
}

impl Cipher {
    pub(super) fn new(secret: TrafficSecret) -> Self {
        Self {
            key: key(&secret),
            secret,
            number: 0,
            records: RECORDS,
        }
    }

    /// Seals `bytes` into the beginning of `room`, which includes space for the tag.
    pub(super) fn seal(&mut self, bytes: &[u8], room: &mut [u8]) -> io::Result<()> {
        let nonce = self.nonce();
        let (sealed, tag) = room[..bytes.len() + TAG].split_at_mut(bytes.len());
        let (key, aad) = (&self.key, Aad::empty());
        key.seal_out_of_place_scatter(nonce, aad, bytes, sealed, &[], tag)
            .map_err(|_| ErrorKind::Other.into())
    }

    /// Seals the first `length` bytes of `room`, which includes space for the tag.
    pub(super) fn seal_in_place(&mut self, room: &mut [u8], length: usize) -> io::Result<()> {
        let nonce = self.nonce();
        let (bytes, tag) = room[..length + TAG].split_at_mut(length);
        let (key, aad) = (&self.key, Aad::empty());
        key.seal_in_place_scatter(nonce, aad, bytes, &[], tag)
            .map_err(|_| ErrorKind::Other.into())
    }

    /// Opens a record, including its tag, into a buffer with the length of its contents.
    pub(super) fn open(&mut self, record: &[u8], into: &mut [u8]) -> io::Result<()> {
        let nonce = self.nonce();
        let (sealed, tag) = record.split_at(into.len());
        let (key, aad) = (&self.key, Aad::empty());
        key.open_separate_gather(nonce, aad, sealed, tag, into)
            .map_err(|_| ErrorKind::InvalidData.into())
    }

    /// Returns the number of the next record as a nonce, and switches to the next key when due.
    fn nonce(&mut self) -> Nonce {
        if self.number == self.records {
            self.secret = derive(&self.secret, &[b"next"]);
            self.key = key(&self.secret);
            self.number = 0;
        }
        let mut nonce = [0; NONCE_LEN];
        nonce[4..].copy_from_slice(&self.number.to_be_bytes());
        self.number += 1;
        Nonce::assume_unique_for_key(nonce)
    }

    #[cfg(test)]
    pub(super) fn change_keys_after(&mut self, records: u64) {
        self.records = records;
    }
}

fn key(secret: &TrafficSecret) -> LessSafeKey {
    let key = UnboundKey::new(&AES_256_GCM, &derive(secret, &[b"key"]));
    LessSafeKey::new(key.expect("the key has the length that the algorithm takes"))
}
