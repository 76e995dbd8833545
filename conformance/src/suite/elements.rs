//! The element types of the cases: plain, derived, without size, and over-aligned.

use comm_api::bytemuck::{Pod, Zeroable};

/// A type as a program derives it: 24 bytes, not a power of two.
#[derive(Debug, Clone, Copy, PartialEq, Pod, Zeroable)]
#[repr(C)]
#[bytemuck(crate = "comm_api::bytemuck")]
pub(crate) struct Cut {
    stage: u64,
    intercept: f64,
    slopes: [f32; 2],
}

/// Takes no bytes.
#[derive(Debug, Clone, Copy, PartialEq, Pod, Zeroable)]
#[repr(C)]
#[bytemuck(crate = "comm_api::bytemuck")]
pub(crate) struct Nothing;

/// Has three bytes: neither a power of two nor aligned.
pub(crate) type Triple = [u8; 3];

/// Takes one cache line, and must be aligned to one.
#[derive(Debug, Clone, Copy, PartialEq, Pod, Zeroable)]
#[repr(C, align(64))]
#[bytemuck(crate = "comm_api::bytemuck")]
pub(crate) struct CacheLine([u64; 8]);

/// Is aligned to more than a page.
#[derive(Debug, Clone, Copy, Pod, Zeroable)]
#[repr(C, align(8192))]
#[bytemuck(crate = "comm_api::bytemuck")]
pub(crate) struct Pages([u64; 1024]);
