use proptest::prelude::*;

use super::*;

/// Any call that two ranks can be in, known or not.
fn calls() -> impl Strategy<Value = Call> {
    any::<[u64; 2]>().prop_map(|[first, second]| Call::from_words([first | 1, second]))
}

proptest! {
    #[test]
    fn what_is_encoded_is_decoded(
        kind in proptest::sample::select(FrameKind::ALL.to_vec()),
        sequence: u64,
        call in proptest::option::of(calls()),
        length: u64,
    ) {
        let header = Header { kind, sequence, call, length: length % kind.most().max(1) };
        prop_assert_eq!(Header::decode(&header.encode()), Ok(header));
    }

    /// Any bytes give a header or an error, and a header that says the same in bytes again.
    #[test]
    fn any_bytes_are_understood_or_refused(bytes: [u8; HEADER]) {
        if let Ok(header) = Header::decode(&bytes) {
            prop_assert_eq!(header.encode(), bytes);
        }
    }

    /// Bytes near a true header, so that more than the version is looked at.
    #[test]
    fn one_wrong_byte_is_another_header_or_none(call in calls(), at in 0..HEADER, wrong: u8) {
        let header = Header::new(FrameKind::Enter, 7, call, 100);
        let mut bytes = header.encode();
        prop_assume!(bytes[at] != wrong);
        bytes[at] = wrong;
        match Header::decode(&bytes) {
            Ok(other) => {
                prop_assert_ne!(other, header);
                prop_assert_eq!(other.encode(), bytes);
            }
            Err(_) => prop_assert!(!(8..32).contains(&at)),
        }
    }
}

#[test]
fn a_header_that_announces_too_much_is_refused() {
    let mut header = Header::new(FrameKind::Enter, 0, Call::barrier(), 0);
    header.length = 1 << 63;
    let most = MOST_EAGER;
    let refused = FrameError::Length {
        length: 1 << 63,
        most,
    };
    assert_eq!(Header::decode(&header.encode()), Err(refused));
    header.kind = FrameKind::Bulk;
    assert_eq!(Header::decode(&header.encode()), Ok(header));
}

#[test]
fn the_layout_is_as_documented() {
    let call = Call::from_words([0x0304, 5]);
    let bytes = Header::new(FrameKind::Enter, 0x0102, call, 16).encode();
    assert_eq!(bytes[..8], [VERSION, 1, 0, 0, 0, 0, 0, 0]);
    assert_eq!(bytes[8..16], [0, 0, 0, 0, 0, 0, 1, 2]);
    assert_eq!(
        bytes[16..32],
        [0, 0, 0, 0, 0, 0, 3, 4, 0, 0, 0, 0, 0, 0, 0, 5]
    );
    assert_eq!(bytes[32..40], [0, 0, 0, 0, 0, 0, 0, 16]);
}
