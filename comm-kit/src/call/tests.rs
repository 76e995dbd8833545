use super::*;

#[test]
fn calls_that_differ_have_words_that_differ() {
    use ReduceOp::{Max, Min};
    use ScalarKind::{F32, F64, I64, U64};
    let calls = [
        Call::barrier(),
        Call::split_local(),
        Call::fence(),
        Call::allgatherv(&[1, 2], 8),
        Call::allgatherv(&[2, 1], 8),
        Call::allgatherv(&[3, 0], 8),
        Call::allgatherv(&[1, 2, 0], 8),
        Call::allgatherv(&[1, 2], 4),
        Call::allgatherv(&[1, 2], 17 << 20),
        Call::allgatherv(&[1, 2], 35 << 20),
        Call::allgatherv(&[1, 2], 4 << 30),
        Call::allgatherv(&[1, 2], 5 << 30),
        Call::allreduce(16, U64, Min),
        Call::allreduce(16, U64, Max),
        Call::allreduce(16, I64, Min),
        Call::allreduce(24, U64, Min),
        Call::allreduce(0, U64, Min),
        Call::allreduce(16, F64, Min),
        Call::allreduce(16, F32, Min),
        Call::broadcast(0, 1, 0),
        Call::broadcast(0, 1, 1),
        Call::broadcast(0, 2, 0),
        Call::broadcast(8, 1, 0),
        Call::broadcast(8, 8, 70_000),
        Call::broadcast(24, 3, 0),
        Call::broadcast(27, 3, 0),
        Call::shared_region(3, 8),
        Call::shared_region(3, 32 << 20),
        Call::shared_region(3, 16 << 20),
        Call::shared_region(3, 5 << 30),
        Call::shared_region(4, 5 << 30),
        Call::partitioned_region(8),
        Call::partitioned_region(16 << 20),
        Call::partitioned_region(32 << 20),
        Call::partitioned_region(4 << 30),
        Call::partitioned_region(8 << 30),
    ];
    for (i, a) in calls.iter().enumerate() {
        for (j, b) in calls.iter().enumerate() {
            assert_eq!(i == j, a == b, "{a} and {b}");
            assert_eq!(i == j, a.words() == b.words(), "{a} and {b}");
        }
        assert_eq!(Call::from_words(a.words()), *a);
    }
}

#[test]
fn a_call_reads_like_a_call() {
    let shown = [
        (Call::barrier(), "barrier"),
        (
            Call::allreduce(32, ScalarKind::F64, ReduceOp::Sum),
            "allreduce(Sum of 4 f64)",
        ),
        (
            Call::broadcast(24, 8, 2),
            "broadcast(3 elements of 8 bytes from root 2)",
        ),
        (
            Call::broadcast(0, 0, 0),
            "broadcast(0 elements of 0 bytes from root 0)",
        ),
        (
            Call::broadcast(3, 1, 0),
            "broadcast(3 elements of 1 byte from root 0)",
        ),
        (
            Call::shared_region(3, 16),
            "create_shared_region(3 elements of 16 bytes)",
        ),
        (
            Call::partitioned_region(17 << 20),
            "create_partitioned_region(elements of 17825792 bytes)",
        ),
        (
            Call::from_words([0x00ff_ff00, 7]),
            "something unknown (0xffff00, 0x7)",
        ),
        (
            Call::from_words([Kind::Allreduce as u64 | 0xff00, 7]),
            "allreduce(?)",
        ),
    ];
    for (call, text) in shown {
        assert_eq!(call.to_string(), text);
    }
    let gather = Call::allgatherv(&[1, 2], 8).to_string();
    assert!(gather.starts_with("allgatherv(elements of 8 bytes, counts #"));
    let huge = Call::partitioned_region(4 << 30).to_string();
    assert!(huge.starts_with("create_partitioned_region(elements of 4 GiB or more, #"));
}

#[test]
fn the_words_are_pinned() {
    // Ranks of different builds compare them.
    let call = Call::allgatherv(&[1, 2, 3], 8);
    assert_eq!(call.words()[0], 0x0000_0008_0000_0002);
    assert_eq!(call.words()[1], 0x9749_7408_8ef7_e28c);
    let call = Call::broadcast(24, 8, 2);
    assert_eq!(call.words(), [0x0000_0008_0000_0204, 3]);
}
