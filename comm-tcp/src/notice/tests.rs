use proptest::prelude::*;

use super::*;
use crate::frame::MOST_TEXT;

fn decode(bytes: &[u8]) -> Option<Notice> {
    let (head, body) = bytes.split_first_chunk()?;
    let header = Header::decode(head).ok()?;
    assert_eq!(header.length, body.len() as u64);
    Notice::decode(&header, body)
}

#[test]
fn every_notice_survives_the_journey() {
    let (sequence, call) = (9, Call::broadcast(24, 8, 1));
    let cause = Cause::new(FailureKind::PeerLost, Some(3), "gone");
    let timeout = Duration::from_micros(1_250_001);
    let notices = [
        Notice::Waiting { sequence, call },
        Notice::TimedOut {
            sequence,
            call,
            timeout,
        },
        Notice::Stalled {
            sequence,
            peer: 2,
            last: true,
            timeout,
            flow: Flow {
                next: (1, 2),
                prev: (3, 4),
            },
        },
        Notice::Moving { sequence, timeout },
        Notice::WaitOn,
        Notice::Broken {
            sequence,
            peer: 4,
            reason: "reset".into(),
        },
        Notice::Altered {
            peer: 5,
            reason: "not what was sent".into(),
        },
        Notice::Goodbye { sequence },
        Notice::Ping,
        Notice::Pong,
        Notice::Lost(Lost::PanickedInside),
        Notice::Interrupted,
        Notice::Abort { code: -3 },
        Notice::GaveUp(cause.clone()),
        Notice::Cause {
            cause: Cause {
                rank: None,
                ..cause.clone()
            },
            answered: 1,
        },
        Notice::Cause { cause, answered: 8 },
    ];
    for notice in notices {
        assert_eq!(decode(&notice.encode()), Some(notice));
    }
}

#[test]
fn text_from_elsewhere_is_one_printable_line() {
    assert_eq!(text(b"a\nb\x1b[31m\xff"), "a b [31m\u{fffd}");
    let long = "\u{e9}".repeat(2000);
    assert!(cut(&long).len() <= 1024 && long.starts_with(cut(&long)));
    assert_eq!(ROOM as u64 + 16, MOST_TEXT);
}

proptest! {
    #[test]
    fn any_body_is_understood_or_refused(kind in 0_u8..40, body in proptest::collection::vec(any::<u8>(), 0..64)) {
        let mut head = Header::plain(FrameKind::Goodbye, 5, body.len()).encode();
        head[1] = kind;
        if let Ok(header) = Header::decode(&head) {
            let _ = Notice::decode(&header, &body);
        }
    }
}
