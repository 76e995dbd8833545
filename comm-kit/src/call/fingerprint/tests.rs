use super::*;

#[test]
fn calls_that_differ_have_words_that_differ() {
    use ReduceOp::{Max, Min};
    use ScalarKind::{F32, F64, I64, U64};
    let floats = Label::scalar(F64);
    let dates = Label::hashed(0x1234_5678_9abc_def0);
    let calls = [
        Call::barrier(),
        Call::split_local(),
        Call::fence(),
        Call::allgatherv(&[1, 2], 8),
        floats.on(|| Call::allgatherv(&[1, 2], 8)),
        dates.on(|| Call::allgatherv(&[1, 2], 8)),
        Call::allgatherv(&[2, 1], 8),
        Call::allgatherv(&[3, 0], 8),
        Call::allgatherv(&[1, 2, 0], 8),
        Call::allgatherv(&[1, 2], 4),
        Call::allgatherv(&[1, 2], 17 << 20),
        Call::allgatherv(&[1, 2], 35 << 20),
        Call::allgatherv(&[1, 2], 4 << 30),
        Call::allgatherv(&[], 8),
        Call::allgatherv(&[1, 1], 8),
        floats.on(|| Call::allgatherv(&[1, 1], 8)),
        Call::allgatherv(&[2, 2], 8),
        Call::allgatherv(&[0, 0], 8),
        Call::allgatherv(&[2, 2], 4),
        Call::allgatherv(&[usize::MAX, usize::MAX], 0),
        Call::allgatherv(&[1, 1], 4 << 30),
        Call::allgatherv(&[1, 1], 5 << 30),
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
        floats.on(|| Call::broadcast(8, 1, 0)),
        dates.on(|| Call::broadcast(8, 1, 0)),
        Label::scalar(I64).on(|| Call::broadcast(8, 1, 0)),
        Call::broadcast(0, 5 << 30, 0),
        dates.on(|| Call::broadcast(0, 5 << 30, 0)),
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
        Call::gathered_region(8),
        Call::gathered_region(8 << 30),
        Call::exchange(1),
        Call::exchange(1 << 40),
        Call::exchange((1 << 40) + 1),
        Call::exchange(u64::MAX),
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
    let labelled = Label::hashed(7)
        .on(|| Call::broadcast(24, 8, 2))
        .to_string();
    assert_eq!(
        labelled,
        "broadcast(3 elements of 8 bytes, dtype #0107, from root 2)"
    );
    let gather = Label::scalar(ScalarKind::F64).on(|| Call::allgatherv(&[1, 2], 8));
    assert_eq!(gather.to_string(), "allgatherv(elements of 8 bytes, f64)");
    let gather = Call::allgatherv(&[1, 2], 8).to_string();
    assert_eq!(gather, "allgatherv(elements of 8 bytes)");
    let equal = || Call::allgatherv(&[2, 2], 8).to_string();
    assert_eq!(equal(), "allgatherv(2 elements of 8 bytes from each rank)");
    assert_eq!(
        Label::scalar(ScalarKind::F64).on(equal),
        "allgatherv(2 elements of 8 bytes, f64, from each rank)"
    );
    let huge = Call::allgatherv(&[2, 2], 4 << 30).to_string();
    assert_eq!(huge, "allgatherv(elements of 4 GiB or more)");
    let huge = Call::partitioned_region(4 << 30).to_string();
    assert_eq!(huge, "create_partitioned_region(elements of 4 GiB or more)");
}

#[test]
fn the_words_are_pinned() {
    // Ranks of different builds compare them.
    let call = Call::allgatherv(&[1, 2, 3], 8);
    assert_eq!(call.words()[0], 0x0000_0008_0000_0002);
    assert_eq!(call.words()[1], 0x9749_7408_8ef7_e28c);
    let call = Call::allgatherv(&[3, 3], 8);
    assert_eq!(call.words(), [0x0000_0008_0100_0002, 3]);
    let call = Call::broadcast(24, 8, 2);
    assert_eq!(call.words(), [0x0000_0008_0000_0204, 3]);
}

#[test]
fn a_label_is_on_the_calls_inside_and_on_no_others() {
    let plain = Call::broadcast(24, 8, 0);
    let label = Label::scalar(ScalarKind::U8);
    let unwound = std::panic::catch_unwind(|| label.on(|| panic!("inside of a call")));
    assert!(unwound.is_err());
    assert_eq!(Call::broadcast(24, 8, 0), plain);
    label.on(|| {
        assert_ne!(Call::broadcast(24, 8, 0), plain);
        Label::NONE.on(|| assert_eq!(Call::broadcast(24, 8, 0), plain));
        // Reductions carry their scalar.
        assert_eq!(
            Call::allreduce(8, ScalarKind::F64, ReduceOp::Sum).words()[0] >> 8 & 0xff,
            9
        );
        let elsewhere = std::thread::spawn(|| Call::broadcast(24, 8, 0)).join();
        assert_eq!(elsewhere.expect("no panic"), plain);
    });
    assert_eq!(Call::broadcast(24, 8, 0), plain);
    let hashes = [0, 1, 0xfeff, 0xff00, u64::MAX].map(Label::hashed);
    assert!(
        hashes
            .iter()
            .all(|label| !label.to_string().is_empty() && label.bits() >= 0x100)
    );
}
