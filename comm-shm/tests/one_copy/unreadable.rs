//! Memory that ranks cannot read, completely or in part, from the beginning or later.

use comm_api::{Communicator, ReduceOp};
use comm_conformance::events::assert_heard;
use comm_shm::ShmBackend;
use rstest::rstest;

use super::common::forbid::forbid_reading;
use super::{byte, exchange, gather, numbers, ranks, reduce, sums, this_test};

/// If a filter forbids the system call when the ranks attach, direct reading is never tried; if it is
/// forbidden later, it is tried once more.
#[rstest]
fn forbidden(
    #[values(true, false)] on_all: bool,
    #[values(true, false)] before: bool,
    #[values(2, 3)] size: usize,
) {
    ranks(&this_test(), size, "1", |config| {
        let forbid = on_all || config.rank == 1;
        if before && forbid {
            forbid_reading().unwrap();
        }
        let comm = ShmBackend::attach(config).unwrap();
        if before {
            assert_heard(1, &["attached", "one_copy=false"]);
            assert_heard(usize::from(forbid), &["WARN", "COBRE_SHM_ONE_COPY"]);
        } else if forbid {
            forbid_reading().unwrap();
        }
        for round in 0..3 {
            exchange(&comm, 700_000, round).unwrap();
        }
        assert_heard(usize::from(!before), &["INFO", "copied twice"]);
    });
}

/// A prohibition between two calls is noticed while halves are folded, also by a rank that has written its
/// result over its input.
#[rstest]
fn forbidden_before_an_allreduce(#[values(0, 1, 2)] round: usize) {
    ranks(&this_test(), 2, "1", |config| {
        let forbid = config.rank == round % 2;
        let comm = ShmBackend::attach(config).unwrap();
        for _ in 0..4 {
            reduce(&comm, 9_000_000, round).unwrap();
        }
        if forbid {
            forbid_reading().unwrap();
        }
        for _ in 0..4 {
            reduce(&comm, 700_000, round).unwrap();
            reduce(&comm, 9_000_000, round).unwrap();
        }
        assert_heard(1, &["INFO", "copied twice"]);
    });
}

/// Returns zeroed memory that not even the kernel reads for another process; `None` if this kernel does not
/// support it.
fn secret_memory(len: usize, at: *mut libc::c_void) -> Option<*mut u8> {
    // SAFETY: creates a file that has memory of its own.
    let file = unsafe { libc::syscall(libc::SYS_memfd_secret, 0) };
    if file < 0 {
        let why = std::io::Error::last_os_error();
        comm_testing::not_run(format!("memfd_secret: {why}"));
        return None;
    }
    let file = i32::try_from(file).unwrap();
    // SAFETY: the file of this test.
    assert_eq!(unsafe { libc::ftruncate(file, len.try_into().unwrap()) }, 0);
    let access = libc::PROT_READ | libc::PROT_WRITE;
    let fixed = if at.is_null() { 0 } else { libc::MAP_FIXED };
    // SAFETY: a new mapping: at an address of the kernel's choice, or in place of one that the caller owns.
    let map = unsafe { libc::mmap(at, len, access, libc::MAP_SHARED | fixed, file, 0) };
    assert_ne!(map, libc::MAP_FAILED);
    Some(map.cast())
}

/// Such memory is transferred through the segment.
#[test]
fn memory_that_cannot_be_read() {
    const LEN: usize = 1 << 17;
    let Some(secret) = secret_memory(LEN, std::ptr::null_mut()) else {
        return;
    };
    ranks(&this_test(), 2, "auto", |config| {
        let comm = ShmBackend::attach(config).unwrap();
        exchange(&comm, LEN, 0).unwrap();
        assert_heard(0, &["copied twice"]);
        let mut own = vec![0; LEN + comm.rank()];
        let send = if comm.rank() == 0 {
            // SAFETY: mapped above for that length, zeroed, never unmapped, known to no other code.
            unsafe { std::slice::from_raw_parts_mut(secret, LEN) }
        } else {
            &mut own
        };
        for round in 1..4 {
            send.fill(byte(comm.rank(), round));
            gather(&comm, send, round).unwrap();
        }
        assert_heard(1, &["INFO", "copied twice"]);
    });
}

/// A rank can read a part of the half that it folds: what it has folded by then counts, and only the rest
/// goes through the slots.
#[rstest]
fn memory_of_which_a_part_cannot_be_read(
    #[values(true, false)] in_place: bool,
    #[values(0, 1)] of: usize,
) {
    // Each half is read in two parts.
    const LEN: usize = 20 << 20;
    // Neither the beginning of a half, nor its second part.
    let secret = [1 << 20, 12 << 20];
    let size = 1 << 20;
    let access = libc::PROT_READ | libc::PROT_WRITE;
    let private = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: a new mapping, at an address of the kernel's choice.
    let map = unsafe { libc::mmap(std::ptr::null_mut(), LEN, access, private, -1, 0) };
    assert_ne!(map, libc::MAP_FAILED);
    for at in secret {
        if secret_memory(size, map.wrapping_byte_add(at)).is_none() {
            return;
        }
    }
    ranks(&this_test(), 2, "auto", |config| {
        let comm = ShmBackend::attach(config).unwrap();
        let rank = comm.rank();
        // SAFETY: mapped above for that length, zeroed, never unmapped, known to no other code.
        let partly = unsafe { std::slice::from_raw_parts_mut(map.cast::<u64>(), LEN / 8) };
        let (mut first, mut second) = (vec![0; LEN / 8], vec![0; LEN / 8]);
        let (send, recv) = match (rank == of, in_place) {
            (true, true) => (&mut first[..], partly),
            (true, false) => (partly, &mut first[..]),
            (false, _) => (&mut first[..], &mut second[..]),
        };
        for round in 0..3 {
            let input = numbers(rank, LEN, round);
            if rank == of && in_place {
                recv.copy_from_slice(&input);
                comm.allreduce_in_place(recv, ReduceOp::Sum).unwrap();
            } else {
                send.copy_from_slice(&input);
                comm.allreduce(send, recv, ReduceOp::Sum).unwrap();
            }
            assert!(recv == sums(2, LEN, round), "the sums");
        }
        assert_heard(1, &["INFO", "copied twice"]);
    });
}
