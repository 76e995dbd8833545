//! A reduction in place allocates no second buffer internally: the test counts the bytes that the calling thread holds at one time.
#![allow(unsafe_code, reason = "an allocator has no safe interface")]
#![allow(clippy::unwrap_used, reason = "a helper of tests may fail like a test")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::net::TcpListener;
use std::time::Duration;

use comm_factory::api::{Communicator, ReduceOp};
use comm_factory::local::LocalBackend;
use comm_factory::shm::{ShmBackend, ShmConfig};
use comm_factory::tcp::{TcpBackend, TcpConfig};

thread_local! {
    /// How many bytes this thread has allocated and not freed, now and at most.
    static HELD: Cell<(isize, isize)> = const { Cell::new((0, 0)) };
}

/// Counts the bytes that each thread holds. Not the total of all allocations: every check during a long wait allocates a
/// few bytes, so the total would grow with the load of the machine.
struct Counting;

fn count(taken: usize, given: usize) {
    // An ending thread has no counter any more.
    let _ = HELD.try_with(|held| {
        let (now, most) = held.get();
        let now = now + taken.cast_signed() - given.cast_signed();
        held.set((now, most.max(now)));
    });
}

// SAFETY: forwards everything to the allocator of the system.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size(), 0);
        // SAFETY: as the caller promises.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size(), 0);
        // SAFETY: as the caller promises.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(size, layout.size());
        // SAFETY: as the caller promises.
        unsafe { System.realloc(memory, layout, size) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        count(0, layout.size());
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// Returns how many additional bytes this thread holds at one time during `call`.
fn held_at_most(call: impl FnOnce()) -> usize {
    let (before, _) = HELD.get();
    HELD.set((before, before));
    call();
    let (_, most) = HELD.get();
    (most - before).cast_unsigned()
}

/// Elements of 32 MiB.
const LARGE: usize = 4 << 20;

/// The bytes that a backend may allocate for a large call and keep: room for a portion, whatever the length of the buffer.
const ROOM: usize = 4 << 20;

/// The bytes that may be held when the same call is repeated: the block of 64 KiB through which two ranks fold that read each
/// other's memory, and the list of missing ranks of a check.
const AGAIN: usize = 65 << 10;

fn check<C: Communicator>(comm: &C) {
    for len in [1, 100, 10_000, LARGE] {
        let mut buf = vec![0_usize; len];
        for (turn, most) in [ROOM, AGAIN, AGAIN].into_iter().enumerate() {
            buf.fill(3);
            let call = || comm.allreduce_in_place(&mut buf, ReduceOp::Sum).unwrap();
            let taken = held_at_most(call);
            assert!(taken <= most, "{taken} bytes for {len}, turn {turn}");
            assert!(buf.iter().all(|&sum| sum == 3 * comm.size()), "{len}");
        }
    }
}

/// Runs `rank_main` as every rank of a world.
fn world(size: usize, rank_main: impl Fn(usize) + Sync) {
    std::thread::scope(|scope| {
        for rank in 0..size {
            let rank_main = &rank_main;
            scope.spawn(move || rank_main(rank));
        }
    });
}

/// Checks that the counter counts: otherwise everything would pass.
#[test]
fn what_is_held_is_counted() {
    let taken = held_at_most(|| {
        for _ in 0..3 {
            drop(std::hint::black_box(vec![1_u8; LARGE]));
        }
    });
    assert!((LARGE..2 * LARGE).contains(&taken), "{taken}");
}

#[test]
fn local() {
    let mut buf = vec![1.0; LARGE];
    let call = || {
        LocalBackend
            .allreduce_in_place(&mut buf, ReduceOp::Sum)
            .unwrap();
    };
    assert_eq!(held_at_most(call), 0);
}

#[test]
fn shm() {
    for size in [1, 2, 3] {
        let name = format!("cobre-in-place-{}-{size}", std::process::id());
        world(size, |rank| {
            let comm = ShmBackend::attach(ShmConfig::new(&name, rank, size)).unwrap();
            check(&comm);
        });
    }
}

#[test]
fn tcp() {
    for size in [1, 2, 3] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        world(size, |rank| {
            let mut config = TcpConfig::new("127.0.0.1", rank, size);
            config.port = port;
            config.timeout = Some(Duration::from_secs(30));
            let comm = match rank {
                0 => {
                    let listener = listener.try_clone().unwrap();
                    TcpBackend::connect_with_listener(config, listener)
                }
                _ => TcpBackend::connect(config),
            };
            check(&comm.unwrap());
        });
    }
}
