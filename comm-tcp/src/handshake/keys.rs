//! The keys derived from the secret: for the proofs of the two sides, and for the links.

use std::fmt;

use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::hmac::{Context, HMAC_SHA256, Key};

use crate::seal::TrafficSecret;

/// The length of a proof.
pub(crate) const PROOF: usize = 32;

/// Separates the keys from any other use of the same secret.
const PURPOSE: &[u8] = b"cobre-comm tcp";

/// Holds the keys that both sides derive from the secret.
#[derive(Clone)]
pub(crate) struct Keys {
    client: Key,
    server: Key,
    link: Key,
}

/// The key from which the keys of the two directions of one link are derived.
#[derive(Clone)]
pub(crate) struct LinkSecrets {
    pub(crate) to_server: TrafficSecret,
    pub(crate) to_client: TrafficSecret,
}

impl Keys {
    pub(crate) fn new(secret: &[u8]) -> Self {
        // Extract and expand, as in HKDF.
        let root = derive(PURPOSE, &[secret]);
        let key = |label: &[u8]| keyed(&derive(&root, &[label]));
        Self {
            client: key(b"client"),
            server: key(b"server"),
            link: key(b"link"),
        }
    }

    pub(crate) fn client_proof(&self, parts: &[&[u8]]) -> [u8; PROOF] {
        proof(&self.client, parts)
    }

    pub(crate) fn server_proof(&self, parts: &[&[u8]]) -> [u8; PROOF] {
        proof(&self.server, parts)
    }

    /// Compares in a time that does not depend on where the proofs differ.
    pub(crate) fn client_proves(&self, parts: &[&[u8]], proof: &[u8]) -> bool {
        verify_slices_are_equal(&self.client_proof(parts), proof).is_ok()
    }

    /// Like [`client_proves`](Self::client_proves), with the other key.
    pub(crate) fn server_proves(&self, parts: &[&[u8]], proof: &[u8]) -> bool {
        verify_slices_are_equal(&self.server_proof(parts), proof).is_ok()
    }

    /// Derives the secrets of a link from all messages of its handshake.
    pub(crate) fn link_secrets(&self, parts: &[&[u8]]) -> LinkSecrets {
        let secret = proof(&self.link, parts);
        LinkSecrets {
            to_server: derive(&secret, &[b"to the server"]),
            to_client: derive(&secret, &[b"to the client"]),
        }
    }
}

impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Keys(redacted)")
    }
}

impl fmt::Debug for LinkSecrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LinkSecrets(redacted)")
    }
}

/// Returns the HMAC-SHA256 of `parts`, which without the key is indistinguishable from random bytes.
pub(crate) fn derive(key: &[u8], parts: &[&[u8]]) -> [u8; PROOF] {
    proof(&keyed(key), parts)
}

fn keyed(key: &[u8]) -> Key {
    Key::new(HMAC_SHA256, key)
}

fn proof(key: &Key, parts: &[&[u8]]) -> [u8; PROOF] {
    let mut context = Context::with_key(key);
    for part in parts {
        context.update(part);
    }
    let mut proof = [0; PROOF];
    proof.copy_from_slice(context.sign().as_ref());
    proof
}
