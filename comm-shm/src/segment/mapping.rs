//! Mapped memory, and references to the atomics in it.
//!
//! # Invariants
//!
//! - **M1** A mapping is `len` bytes from `base`, readable and writable, as long as the [`Mapping`] lives.
//!   The file behind it is never shortened: its pages were reserved before they were mapped, and only its
//!   owner may open it.
//! - **M2** A reference handed out covers bytes inside the mapping and is aligned; [`Mapping::at`] and
//!   [`Mapping::many`] check both, every time.
//! - **M3** References go to [`Shared`] types only: these consist of atomics, every bit pattern is valid, and
//!   other processes may write them at any time.
//! - **M4** Everything else leaves this file as a raw pointer.
#![expect(
    unsafe_code,
    reason = "memory that other processes write is reached through pointers"
)]

use std::fs::File;
use std::io;
use std::ptr::NonNull;

use memmap2::{MmapOptions, MmapRaw};
#[cfg(target_os = "linux")]
use rustix::mm::Advice;
use rustix::mm::{MapFlags, ProtFlags};

use crate::protocol::control::{Bell, Control, Standing};
use crate::protocol::line::Line;
use crate::protocol::note::Note;
use crate::segment::layout::{Header, Member, PAGE};

/// Marks types that other processes may write while they are borrowed.
///
/// # Safety
///
/// The type consists of atomics and padding, and every bit pattern of them is a value.
pub(crate) unsafe trait Shared {}

// SAFETY: M3, atomics of 32 and 64 bits and padding.
unsafe impl Shared for Header {}
// SAFETY: M3, atomics of 32 and 64 bits and padding.
unsafe impl Shared for Member {}
// SAFETY: M3, atomics of 32 and 64 bits and padding.
unsafe impl Shared for Control {}
// SAFETY: M3, atomics of 64 bits.
unsafe impl Shared for Line {}
// SAFETY: M3, an atomic of 32 bits and padding.
unsafe impl Shared for Bell {}
// SAFETY: M3, atomics of 64 bits and padding.
unsafe impl Shared for Standing {}
// SAFETY: M3, atomics of 64 bits.
unsafe impl Shared for Note {}

/// A range of a file in the address space of this process.
#[derive(Debug)]
pub(crate) struct Mapping {
    base: NonNull<u8>,
    len: usize,
    _unmap: Unmap,
}

/// The owner that unmaps the memory on drop.
#[derive(Debug)]
enum Unmap {
    Map(#[expect(dead_code, reason = "held for its drop")] MmapRaw),
    Reserved { start: *mut u8, bytes: usize },
}

// SAFETY: `base` and `start` are addresses of memory that belongs to the whole process and is not tied to the
// thread that mapped it. M2 and M3: the only references handed out are to atomics, which any number of
// threads may share; M4: code that dereferences a raw pointer has its own argument. Unmapping happens once,
// in the drop of the owner.
unsafe impl Send for Mapping {}
// SAFETY: as for `Send`; `&Mapping` hands out only references to atomics and raw pointers.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps `len` bytes of `file` from `offset` on, a multiple of the page size.
    pub(crate) fn of(file: &File, offset: u64, len: usize) -> io::Result<Self> {
        let map = MmapOptions::new().offset(offset).len(len).map_raw(file)?;
        let base = NonNull::new(map.as_mut_ptr()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self::holding(base, len, Unmap::Map(map)))
    }

    fn holding(base: NonNull<u8>, len: usize, unmap: Unmap) -> Self {
        let mapping = Self {
            base,
            len,
            _unmap: unmap,
        };
        mapping.leave_out_of_dumps();
        mapping
    }

    /// Excludes the memory from core dumps, where the system can: otherwise every rank that dies would dump
    /// all of it.
    #[cfg(target_os = "linux")]
    fn leave_out_of_dumps(&self) {
        let start = self.base.as_ptr().cast();
        // SAFETY: M1, the range is mapped; the advice changes neither contents nor access.
        let _ = unsafe { rustix::mm::madvise(start, self.len, Advice::LinuxDontDump) };
    }

    #[cfg(not(target_os = "linux"))]
    fn leave_out_of_dumps(&self) {}

    /// Like [`of`](Self::of), with the byte at `at` on an address that is a multiple of `align`, a power of
    /// two. `at` itself is a multiple of `align` or, if that is smaller, of
    /// [`RANGE_ALIGN`](crate::segment::layout::RANGE_ALIGN).
    pub(crate) fn aligned(
        file: &File,
        offset: u64,
        len: usize,
        at: usize,
        align: usize,
    ) -> io::Result<Self> {
        if align <= PAGE {
            // No supported system has smaller pages.
            return Self::of(file, offset, len);
        }
        let bytes = len.checked_add(align).ok_or(io::ErrorKind::OutOfMemory)?;
        let none = std::ptr::null_mut();
        // SAFETY: a new mapping at an address of the kernel's choice affects no other memory.
        let start = unsafe {
            rustix::mm::mmap_anonymous(none, bytes, ProtFlags::empty(), MapFlags::PRIVATE)
        }?;
        let start = start.cast::<u8>();
        // From here on the drop of `unmap` unmaps the memory, even if the next step fails.
        let unmap = Unmap::Reserved { start, bytes };
        // A multiple of the page size: `start` is one, and `at` is a multiple of the page size or of `align`.
        let place = start.map_addr(|start| (start + at).next_multiple_of(align) - at);
        // SAFETY: `start <= place` and `place + len <= start + bytes` because `place < start + align`; that
        // range was reserved just above and no other code knows it, so replacing it is harmless.
        unsafe {
            rustix::mm::mmap(
                place.cast(),
                len,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::SHARED | MapFlags::FIXED,
                file,
                offset,
            )
        }?;
        let base = NonNull::new(place).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self::holding(base, len, unmap))
    }

    /// Returns the `T` at `offset`.
    ///
    /// # Panics
    ///
    /// If it would not lie inside the mapping or would not be aligned. That would be a bug of this crate,
    /// since offsets never come from the segment.
    #[inline]
    pub(crate) fn at<T: Shared>(&self, offset: usize) -> &T {
        let pointer = self.range(offset, size_of::<T>()).cast::<T>();
        assert!(pointer.is_aligned(), "an offset of {offset} is not aligned");
        // SAFETY: M1 and M2, `range` checked the bounds and the line above the alignment; M3, `T`
        // is `Shared`; the reference cannot outlive `self`, which keeps the memory mapped.
        unsafe { pointer.as_ref() }
    }

    /// Returns `count` consecutive values of `T`, from `offset` on.
    ///
    /// # Panics
    ///
    /// As [`at`](Self::at).
    #[inline]
    pub(crate) fn many<T: Shared>(&self, offset: usize, count: usize) -> &[T] {
        let bytes = size_of::<T>().saturating_mul(count);
        let pointer = self.range(offset, bytes).cast::<T>();
        assert!(pointer.is_aligned(), "an offset of {offset} is not aligned");
        // SAFETY: M1 and M2, `range` checked the bounds of all of them and the line above the alignment; M3,
        // `T` is `Shared`; the reference cannot outlive `self`, which keeps the memory mapped.
        unsafe { NonNull::slice_from_raw_parts(pointer, count).as_ref() }
    }

    /// Returns the address of `len` bytes from `offset` on.
    ///
    /// # Panics
    ///
    /// If they would not lie inside the mapping.
    #[inline]
    pub(crate) fn range(&self, offset: usize, len: usize) -> NonNull<u8> {
        let inside = offset <= self.len && len <= self.len - offset;
        assert!(
            inside,
            "{len} bytes at {offset} are outside of {} mapped",
            self.len
        );
        // SAFETY: M1, `offset <= self.len`, so this stays within the mapping or one past its end.
        unsafe { self.base.add(offset) }
    }
}

impl Drop for Unmap {
    fn drop(&mut self) {
        if let Self::Reserved { start, bytes } = *self {
            // SAFETY: M1, this owner mapped exactly this range and unmaps it once; no reference into it
            // outlives the `Mapping` that holds `self`.
            let unmapped = unsafe { rustix::mm::munmap(start.cast(), bytes) };
            debug_assert!(unmapped.is_ok(), "{unmapped:?}");
        }
    }
}
