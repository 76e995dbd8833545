//! How the ranks of one sequence synchronise in shared memory: steps, lines and slots, the first cause,
//! refusals, sleeping.
//!
//! | module | holds |
//! |---|---|
//! | [`step`] | steps: taking one, waiting for the others, leaving early |
//! | [`board`] | where the shared state of one sequence lies |
//! | [`line`], [`control`], [`slot`] | the shared state: payload and call of a step; cause, events, bells, standings; large payloads |
//! | [`cause`], [`note`] | why a sequence failed; why a call was refused |
//! | [`route`] | which of two routes a large call takes |
//! | [`given_up`] | the ranges that no rank uses any longer |
//! | [`wait`], [`sync`] | spinning, yielding, sleeping; atomics and fences |
//!
//! `models` lets loom explore everything here except slots, on a separate board and with the layer [`sync`]
//! replaced.

#[cfg_attr(loom, path = "protocol/models/board.rs")]
pub(crate) mod board;
pub(crate) mod cause;
pub(crate) mod control;
pub(crate) mod given_up;
pub(crate) mod line;
#[cfg(all(test, loom))]
mod models;
pub(crate) mod note;
pub(crate) mod route;
#[cfg(not(loom))]
pub(crate) mod slot;
pub(crate) mod step;
#[cfg_attr(loom, path = "protocol/models/sync.rs")]
pub(crate) mod sync;
pub(crate) mod wait;
