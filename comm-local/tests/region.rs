//! The phases of a region on the heap.

use std::panic::{AssertUnwindSafe, catch_unwind};

use comm_api::{CommError, Communicator, SharedMemoryProvider, SharedRegion};
use comm_local::{HeapRegion, LocalBackend};
use rstest::rstest;

fn panic_message(access: impl FnOnce()) -> String {
    let payload = catch_unwind(AssertUnwindSafe(access)).expect_err("the access must panic");
    let text = payload.downcast_ref::<&str>().map(ToString::to_string);
    text.or_else(|| payload.downcast_ref::<String>().cloned())
        .expect("a panic with a message")
}

#[rstest]
#[case::shared(LocalBackend.create_shared_region(4))]
#[case::partitioned(LocalBackend.create_partitioned_region(4))]
fn alternates_and_persists(#[case] region: Result<HeapRegion<u64>, CommError>) {
    let mut region = region.unwrap();
    assert_eq!(
        region.as_mut_slice(),
        [0; 4],
        "it starts zeroed, in a write phase"
    );
    region.as_mut_slice()[1] = 7;
    region.fence().unwrap();
    assert_eq!(region.as_slice(), [0, 7, 0, 0]);
    region.fence().unwrap();
    region.as_mut_slice()[2] = 8;
    assert_eq!(region.as_mut_slice(), [0, 7, 8, 0]);
    region.fence().unwrap();
    assert_eq!(region.as_slice(), [0, 7, 8, 0]);
}

#[test]
fn the_wrong_accessor_panics_and_names_the_fence() {
    let mut region = LocalBackend.create_shared_region::<f32>(1).unwrap();
    let message = panic_message(|| {
        region.as_slice();
    });
    assert!(
        message.contains("as_slice") && message.contains("fence"),
        "{message}"
    );
    region.fence().unwrap();
    let message = panic_message(|| {
        region.as_mut_slice();
    });
    assert!(
        message.contains("as_mut_slice") && message.contains("fence"),
        "{message}"
    );
    assert_eq!(region.as_slice(), [0.0], "the region survives a misuse");
}

#[test]
fn sizes_at_the_edges() {
    let mut nothing = LocalBackend.create_shared_region::<f64>(0).unwrap();
    assert_eq!(nothing.as_mut_slice(), []);
    nothing.fence().unwrap();
    assert_eq!(nothing.as_slice(), []);

    let mut units = LocalBackend
        .create_partitioned_region::<()>(usize::MAX)
        .unwrap();
    assert_eq!(units.as_mut_slice().len(), usize::MAX);

    for count in [usize::MAX, isize::MAX.unsigned_abs() / 8 + 1] {
        let error = LocalBackend.create_shared_region::<u64>(count).unwrap_err();
        assert!(!error.is_fatal());
        let CommError::AllocationFailed {
            requested_bytes, ..
        } = error
        else {
            panic!("{error:?}");
        };
        assert_eq!(requested_bytes, count.saturating_mul(8));
    }
}

#[test]
fn leads_a_node_of_one() {
    assert!(LocalBackend.is_leader());
    let node = LocalBackend.split_local().unwrap();
    assert_eq!((node.rank(), node.size()), (0, 1));
}

#[test]
fn a_gathered_region_is_exchanged_and_fenced() {
    let mut region = LocalBackend.create_gathered_region::<u64>(2).unwrap();
    region.as_mut_slice()[0] = 7;
    let refused = region.fence().unwrap_err();
    assert!(
        !refused.is_fatal() && refused.to_string().contains("exchange()"),
        "{refused}"
    );
    LocalBackend.exchange(&mut region).unwrap();
    assert_eq!(region.as_slice(), [7, 0]);
    let refused = LocalBackend.exchange(&mut region).unwrap_err();
    assert!(
        !refused.is_fatal() && refused.to_string().contains("fence()"),
        "{refused}"
    );
    region.fence().unwrap();
    region.as_mut_slice()[1] = 8;
    LocalBackend.exchange(&mut region).unwrap();
    assert_eq!(region.as_slice(), [7, 8]);
}
