use super::*;

#[test]
fn a_segment_keeps_its_bound() {
    for size in 1..=1024 {
        let bytes = segment(size, SLOT_BYTES);
        assert!(
            bytes <= 64 * 1024 + size * 1024 * 1024,
            "{size} ranks take {bytes}"
        );
        assert_eq!(bytes % PAGE, 0);
    }
}

#[test]
fn nothing_overlaps() {
    for (size, slot_bytes) in [
        (1, SLOT_BYTES),
        (2, SLOT_BYTES),
        (3, SPLIT_SLOT_BYTES),
        (8, SLOT_BYTES),
        (5, 0),
    ] {
        let layout = Layout::new(size, slot_bytes);
        let mut parts = vec![(0, size_of::<Control>())];
        for rank in 0..size {
            for step in 0..2 {
                parts.push((layout.line(rank, step), size_of::<Line>()));
                parts.push((layout.slot(rank, step), slot_bytes));
            }
            parts.push((layout.bell(rank), size_of::<Bell>()));
            parts.push((layout.standing(rank), size_of::<Standing>()));
            for step in 0..NOTES as u64 {
                parts.push((layout.note(rank, step), size_of::<Note>()));
            }
        }
        parts.sort_unstable();
        for pair in parts.windows(2) {
            assert!(pair[0].0 + pair[0].1 <= pair[1].0, "{pair:?} of {layout:?}");
        }
        let (last, length) = parts[parts.len() - 1];
        assert!(last + length <= layout.bytes());
    }
}

#[test]
fn small_payloads_of_every_length() {
    let line = Line::default();
    let bytes: Vec<u8> = (1..=40).collect();
    for len in 0..=bytes.len() {
        line.put(&bytes[..len]);
        let mut found = vec![0; len];
        line.take(&mut found);
        assert_eq!(found, bytes[..len]);
    }
}
