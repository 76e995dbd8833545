//! What a connecting rank reports about itself.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use aws_lc_rs::digest::{SHA256, digest};

use super::{MAGIC, SESSION, Session};
use crate::encryption::Encryption;
use crate::frame::VERSION;

/// The length of the fields in front of the nonce.
pub(crate) const FIELDS: usize = 8 + 2 + 2 + 4 + 4 + 4 + 8 + 18 + 2 + 18 + 2 + SESSION + 32;

/// The purpose of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum LinkKind {
    /// Calls, between a worker and rank 0.
    Data = 1,
    /// Reports of failures, between a worker and rank 0.
    Watch = 2,
    /// Bulk, from a rank to its successor.
    Ring = 3,
}

impl LinkKind {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Data => "data",
            Self::Watch => "watch",
            Self::Ring => "ring",
        }
    }
}

/// The connecting rank, its peer, and the purpose of the link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Hello {
    pub(crate) link: LinkKind,
    /// Byte order and pointer width, which the ranks of a job share.
    pub(crate) layout: u8,
    pub(crate) from: u32,
    pub(crate) to: u32,
    pub(crate) size: u32,
    /// Equal on ranks that share processors: a hash that identifies the running system.
    pub(crate) host: u64,
    /// Where the predecessor of this rank connects to it.
    pub(crate) ring: SocketAddr,
    /// Which links of the job are encrypted, as configured on this rank.
    pub(crate) encryption: Encryption,
    /// Whether this link is encrypted.
    pub(crate) sealed: bool,
    /// The address of this end of the link, as seen from here.
    pub(crate) local: SocketAddr,
    /// Zero on the first link of a rank, which learns the session from the reply.
    pub(crate) session: Session,
    pub(crate) job: [u8; 32],
}

/// The byte order and pointer width of this process.
pub(crate) const LAYOUT: u8 =
    (usize::BITS / 4).to_le_bytes()[0] | cfg!(target_endian = "big") as u8;

/// Shortens a job id of any length; no job id is all zeros.
pub(crate) fn job(id: Option<&str>) -> [u8; 32] {
    let mut short = [0; 32];
    if let Some(id) = id {
        short.copy_from_slice(digest(&SHA256, id.as_bytes()).as_ref());
    }
    short
}

impl Hello {
    pub(crate) fn encode(&self) -> [u8; FIELDS] {
        let mut bytes = Vec::with_capacity(FIELDS);
        bytes.extend_from_slice(&MAGIC);
        bytes.extend_from_slice(&u16::from(VERSION).to_be_bytes());
        bytes.extend_from_slice(&[self.link as u8, self.layout]);
        for number in [self.from, self.to, self.size] {
            bytes.extend_from_slice(&number.to_be_bytes());
        }
        bytes.extend_from_slice(&self.host.to_be_bytes());
        bytes.extend_from_slice(&encode_address(self.ring));
        bytes.extend_from_slice(&[self.encryption as u8, u8::from(self.sealed)]);
        bytes.extend_from_slice(&encode_address(self.local));
        bytes.extend_from_slice(&[0; 2]);
        bytes.extend_from_slice(&self.session);
        bytes.extend_from_slice(&self.job);
        let mut fields = [0; FIELDS];
        fields.copy_from_slice(&bytes);
        fields
    }

    /// Reads the fields of a hello whose magic and version were checked.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let fields: &[u8; FIELDS] = bytes.first_chunk()?;
        let number =
            |at: usize| -> Option<u32> { Some(u32::from_be_bytes(*fields[at..].first_chunk()?)) };
        let link = match fields[10] {
            1 => LinkKind::Data,
            2 => LinkKind::Watch,
            3 => LinkKind::Ring,
            _ => return None,
        };
        Some(Self {
            link,
            layout: fields[11],
            from: number(12)?,
            to: number(16)?,
            size: number(20)?,
            host: u64::from_be_bytes(*fields[24..].first_chunk()?),
            ring: decode_address(*fields[32..].first_chunk()?),
            encryption: Encryption::from_code(fields[50])?,
            sealed: fields[51] == 1,
            local: decode_address(*fields[52..].first_chunk()?),
            session: *fields[72..].first_chunk()?,
            job: *fields[72 + SESSION..].first_chunk()?,
        })
    }
}

fn encode_address(address: SocketAddr) -> [u8; 18] {
    let ip = match address.ip() {
        IpAddr::V4(ip) => ip.to_ipv6_mapped(),
        IpAddr::V6(ip) => ip,
    };
    let mut bytes = [0; 18];
    bytes[..16].copy_from_slice(&ip.octets());
    bytes[16..].copy_from_slice(&address.port().to_be_bytes());
    bytes
}

fn decode_address(bytes: [u8; 18]) -> SocketAddr {
    let mut octets = [0; 16];
    octets.copy_from_slice(&bytes[..16]);
    let ip = Ipv6Addr::from(octets).to_canonical();
    SocketAddr::new(ip, u16::from_be_bytes([bytes[16], bytes[17]]))
}
