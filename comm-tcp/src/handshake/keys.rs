//! The keys of the two sides, and the proofs made with them.

use std::fmt;

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

/// The length of a proof.
pub(crate) const PROOF: usize = 32;

/// Holds the keys that both sides derive from the secret.
#[derive(Clone)]
pub(crate) struct Keys {
    client: Hmac<Sha256>,
    server: Hmac<Sha256>,
}

impl Keys {
    pub(crate) fn new(secret: &[u8]) -> Self {
        let derive = |side: &[u8]| keyed(&proof(keyed(secret), &[side]));
        Self {
            client: derive(b"client"),
            server: derive(b"server"),
        }
    }

    pub(crate) fn client_proof(&self, parts: &[&[u8]]) -> [u8; PROOF] {
        proof(self.client.clone(), parts)
    }

    pub(crate) fn server_proof(&self, parts: &[&[u8]]) -> [u8; PROOF] {
        proof(self.server.clone(), parts)
    }

    /// Compares in a time that does not depend on where the proofs differ.
    pub(crate) fn client_proves(&self, parts: &[&[u8]], proof: &[u8]) -> bool {
        proves(self.client.clone(), parts, proof)
    }

    /// As [`client_proves`](Self::client_proves), with the other key.
    pub(crate) fn server_proves(&self, parts: &[&[u8]], proof: &[u8]) -> bool {
        proves(self.server.clone(), parts, proof)
    }
}

impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Keys(redacted)")
    }
}

fn keyed(key: &[u8]) -> Hmac<Sha256> {
    Hmac::new_from_slice(key).expect("HMAC takes keys of any length")
}

fn proof(mut mac: Hmac<Sha256>, parts: &[&[u8]]) -> [u8; PROOF] {
    for part in parts {
        mac.update(part);
    }
    mac.finalize().into_bytes().into()
}

fn proves(mut mac: Hmac<Sha256>, parts: &[&[u8]], proof: &[u8]) -> bool {
    for part in parts {
        mac.update(part);
    }
    mac.verify_slice(proof).is_ok()
}
