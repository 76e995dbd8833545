//! Whether the ranks of a job can read each other's memory. Determined while they attach, by reading a known
//! word of each rank, and decided once for all of them.

#[cfg_attr(
    any(not(target_os = "linux"), comm_portable_wait),
    path = "one_copy/foreign/nowhere.rs"
)]
pub(crate) mod foreign;

use comm_kit::Beacon;

use self::foreign::Foreign;
use crate::config::OneCopy;
use crate::liveness::process::Process;
use crate::protocol::sync::Ordering;
use crate::segment::layout::Member;

/// With more ranks the slots are as fast, for every payload: no rank opens its memory, or tries R x R reads.
pub(crate) const MOST_RANKS: usize = 3;

/// Publishes where the memory of this rank is recognised, before the rank reports that it has attached.
/// Publishes nothing if its memory must not be read, or never would be with this many ranks.
pub(crate) fn offer(member: &Member, wish: OneCopy, size: usize) {
    if wish == OneCopy::Off || size > MOST_RANKS {
        return;
    }
    if wish == OneCopy::On
        && let Err(error) = foreign::open_to_siblings()
    {
        tracing::debug!(%error, "cannot open this process to its siblings, which matters only where Yama restricts tracing");
    }
    if let Some(Beacon { address, word }) = Beacon::here() {
        for (place, word) in member.beacon.iter().zip([address, word]) {
            place.store(word, Ordering::Relaxed);
        }
    }
}

/// Returns where the memory of an attached rank is read; `None` if the rank does not offer it.
pub(crate) fn offered(member: &Member) -> Option<Foreign> {
    let [address, word] = [&member.beacon[0], &member.beacon[1]];
    let beacon = Beacon {
        address: address.load(Ordering::Relaxed),
        word: word.load(Ordering::Relaxed),
    };
    let Process { pid, .. } = Process::of_seat(member.seat.load(Ordering::Acquire));
    (beacon.word != 0).then_some(Foreign { pid, beacon })
}

/// Checks whether this rank can read the memory of all `ranks`, including itself.
pub(crate) fn reads_all(ranks: impl Iterator<Item = Option<Foreign>>, wish: OneCopy) -> bool {
    for (rank, foreign) in ranks.enumerate() {
        let Some(foreign) = foreign else {
            return false;
        };
        if let Err(error) = foreign.read(foreign.beacon.address, &mut [0; size_of::<u64>()]) {
            if wish == OneCopy::On {
                tracing::warn!(rank, %error, "COBRE_SHM_ONE_COPY is 1, and the memory of this rank cannot be read; payloads are copied twice");
            }
            return false;
        }
    }
    true
}
