//! The judge keeps two numbers to know whether a rank waits in vain; here it looks at everything that was said.

use proptest::prelude::*;

use super::*;

const SIZE: usize = 5;

/// A rank waits in a call, or takes no part in it and those after it.
#[derive(Debug, Clone, Copy)]
enum Said {
    Waits(usize, u64),
    Leaves(usize, u64),
}

fn said() -> impl Strategy<Value = Said> {
    // Not rank 0, whose farewell is the last word.
    (1..SIZE, 0..6_u64, any::<bool>()).prop_map(|(rank, call, leaves)| {
        if leaves {
            Said::Leaves(rank, call)
        } else {
            Said::Waits(rank, call)
        }
    })
}

proptest! {
    #[test]
    fn whoever_waits_in_a_call_that_another_has_left_waits_in_vain(said in prop::collection::vec(said(), 0..20)) {
        let (mut judge, now) = judge(SIZE);
        let mut latest = None;
        let mut left = [None; SIZE];
        for said in said {
            let (rank, notice) = match said {
                Said::Waits(rank, call) => {
                    latest = latest.max(Some(call));
                    (rank, waiting(call))
                }
                Said::Leaves(rank, sequence) => {
                    left[rank] = Some(sequence);
                    (rank, Notice::Goodbye { sequence })
                }
            };
            let deserted = left.iter().position(|left| left.is_some_and(|left| Some(left) <= latest));
            let ruling = blame(judge.hear(rank, notice, now));
            prop_assert_eq!(ruling, deserted.map(|rank| (PeerLost, Some(rank))));
            if deserted.is_some() {
                // What was decided stays.
                return Ok(());
            }
        }
    }
}
