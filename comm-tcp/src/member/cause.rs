//! Every cause that a rank finds by itself.

use comm_api::FailureKind;
use comm_kit::words::{self, Lost};

use super::{Loss, Member, Outlook};
use crate::notice::Cause;
use crate::variables;
use crate::watch::{distrusted, unreachable};

impl Member {
    /// Says that a rank is waited for in vain.
    pub(super) fn late(&self, missing: usize, outlook: Outlook) -> Cause {
        let place = |rank| (rank == 0).then_some(&*self.place_of_rank_0);
        let rank = words::ranks_at(&[missing], place);
        let message = match outlook {
            Outlook::Entering => words::absent(&rank, self.timeout, variables::TIMEOUT),
            Outlook::Moving => words::stalled(&rank, self.timeout, variables::TIMEOUT),
        };
        Cause::new(FailureKind::TimedOut, Some(missing), message)
    }

    /// Says that the link to a rank ended; `link` tells where that rank runs, or what became of the link.
    pub(super) fn link_lost(&self, peer: usize, loss: Loss, reason: &str, link: &str) -> Cause {
        match loss {
            Loss::Closed => lost(peer, Lost::Ended, link),
            Loss::Unreachable => Cause::new(FailureKind::PeerLost, Some(peer), unreachable(link)),
            Loss::Altered => {
                let (rank, peer_name) = (format!("rank {}", self.rank), format!("rank {peer}"));
                let message = distrusted(&rank, &peer_name, reason);
                Cause::new(FailureKind::Io, Some(peer), message)
            }
        }
    }

    pub(super) fn aborted(&self) -> Cause {
        Cause::new(FailureKind::Aborted, Some(self.rank), words::interrupted())
    }
}

pub(super) fn lost(rank: usize, lost: Lost, place: &str) -> Cause {
    Cause::new(
        FailureKind::PeerLost,
        Some(rank),
        words::lost(lost, Some(place)),
    )
}

pub(super) fn undecided() -> Cause {
    let message = "the watch found a cause and did not say which; restart the job";
    Cause::new(FailureKind::Io, Some(0), message)
}
