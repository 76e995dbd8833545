//! A bounded run of what the fuzzer runs for hours.

use comm_tcp::fuzzing::{VERSION, any_bytes};
use proptest::prelude::*;

/// Bytes that begin like a header, so that more than the version is checked.
fn nearly_frames() -> impl Strategy<Value = Vec<u8>> {
    let head = (1_u8..36, 0_u64..5, any::<[u8; 2]>(), 0_u64..6, 0_u64..40);
    let body = proptest::collection::vec(any::<u8>(), 0..80);
    let frame = (head, body).prop_map(|((kind, call, codes, sequence, length), body)| {
        let mut bytes = vec![VERSION, kind, 0, 0, 0, 0, 0, 0];
        let detail = u64::from(codes[0] % 12) << 8 | u64::from(codes[1] % 7) << 16;
        bytes.extend_from_slice(&sequence.to_be_bytes());
        bytes.extend_from_slice(&(call | detail).to_be_bytes());
        bytes.extend_from_slice(&[0; 8]);
        bytes.extend_from_slice(&length.to_be_bytes());
        bytes.extend_from_slice(&body);
        bytes
    });
    proptest::collection::vec(frame, 1..4).prop_map(|frames| frames.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    #[test]
    fn any_bytes_are_survived(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        any_bytes(&bytes);
    }

    #[test]
    fn bytes_like_frames_are_survived(bytes in nearly_frames()) {
        any_bytes(&bytes);
    }

    #[test]
    fn bytes_like_handshakes_are_survived(bytes in proptest::collection::vec(any::<u8>(), 200), link in 1_u8..4) {
        let mut hello = b"cobrecom\0".to_vec();
        hello.extend_from_slice(&[VERSION, link]);
        hello.extend_from_slice(&bytes);
        any_bytes(&hello);
        any_bytes(&hello[11..]);
    }
}
