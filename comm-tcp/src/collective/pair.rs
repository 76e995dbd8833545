//! The bytes of a large call between two ranks: both ways at once, over their only data link.

use std::io::IoSlice;

use comm_api::{ReduceOp, ScalarKind};
use comm_kit::fold_into;

use super::ring::PORTION;
use crate::engine::{Step, Task};
use crate::link::Broken;
use crate::links::{Links, Port, Want};
use crate::watch::Outlook;

/// Sends one buffer while another comes in.
#[derive(Debug)]
pub(crate) struct Swap<'a> {
    pub(crate) out: &'a [u8],
    pub(crate) land: &'a mut [u8],
    /// Where a copy of what goes out belongs, if anywhere.
    pub(crate) mirror: &'a mut [u8],
    /// How what comes in is combined with what goes out.
    ///
    /// The other operand may be the first in rank order: every operation gives the same bits either
    /// way round, because a NaN is made canonical.
    pub(crate) reduction: Option<(ReduceOp, ScalarKind)>,
    pub(crate) peer: usize,
    /// The most that is moved in one go.
    portion: usize,
    gone: usize,
    came: usize,
    folded: usize,
}

/// The most that is moved in one go where nothing comes the other way.
const ONE_WAY: usize = 16 << 20;

impl<'a> Swap<'a> {
    pub(crate) fn new(out: &'a [u8], land: &'a mut [u8], peer: usize) -> Self {
        let one_way = out.is_empty() || land.is_empty();
        Self {
            portion: if one_way { ONE_WAY } else { PORTION },
            out,
            land,
            mirror: &mut [],
            reduction: None,
            peer,
            gone: 0,
            came: 0,
            folded: 0,
        }
    }

    /// Folds what has come; whole elements only.
    fn fold(&mut self) -> Result<(), Broken> {
        let Some((op, scalar)) = self.reduction else {
            return Ok(());
        };
        let whole = self.came - self.came % scalar.size();
        let part = self.folded..whole;
        self.folded = whole;
        fold_into(&mut self.land[part.clone()], &self.out[part], scalar, op).map_err(|error| {
            Broken {
                peer: self.peer,
                reason: error.to_string(),
            }
        })
    }
}

impl Task for Swap<'_> {
    fn advance(&mut self, links: &mut Links) -> Result<Step, Broken> {
        let link = &mut links.data[0];
        let mut moved = false;
        if self.gone < self.out.len() {
            let end = self.out.len().min(self.gone + self.portion);
            let part = self.gone..end;
            let count = link.write(&[IoSlice::new(&self.out[part])])?;
            let sent = self.gone..self.gone + count;
            if !self.mirror.is_empty() {
                self.mirror[sent.clone()].copy_from_slice(&self.out[sent]);
            }
            self.gone += count;
            moved |= count > 0;
        }
        if self.came < self.land.len() {
            let end = self.land.len().min(self.came + self.portion);
            let count = link.read(&mut self.land[self.came..end])?;
            self.came += count;
            self.fold()?;
            moved |= count > 0;
        }
        if self.gone == self.out.len() && self.came == self.land.len() {
            return Ok(Step::Done);
        }
        Ok(Step::moved(moved))
    }

    fn wants(&self, wants: &mut Vec<Want>) {
        wants.push(Want {
            port: Port::Data(0),
            read: self.came < self.land.len(),
            write: self.gone < self.out.len(),
        });
    }

    fn outlook(&self) -> Outlook {
        Outlook::Moving
    }

    fn waits_for(&self) -> usize {
        self.peer
    }
}
