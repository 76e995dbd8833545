//! Memory that Python and Rust share: all `unsafe` code of this crate.
//!
//! # Safety
//!
//! - **I1** A filled [`View`] holds a `Py_buffer` that Python filled; until it is released, `buf` points to `len` bytes, `shape`
//!   to `ndim` lengths, and the object lives and does not move its memory. The view releases it once, when it is dropped, with
//!   the thread attached to the interpreter: a view is not `Send`.
//! - **I2** The memory of a view is contiguous in C order, because the request allows nothing else (`PyBUF_ND` without strides).
//! - **I3** The bytes of a view may be read and, if the view was filled as writable, written while it is borrowed. While the lock of the
//!   interpreter is released, another thread of the program could write the same array. Every library that releases the lock around such
//!   work has that race (numpy does); the documentation of the package forbids it, and bytes have no invalid values.
//!   Two views of one call never overlap if one of them is written: [`View::overlaps`] is checked first.
//! - **I4** The memory of an [`Extent`] belongs to a region, which outlives every buffer that Python holds of it: each buffer holds a
//!   reference to its exporter, and the exporter holds one to the region.
//! - **I5** The phase of a region does not end while Python holds a buffer of it: the exporter counts the buffers, and `fence` fails. In a
//!   write phase the extent is only this rank's part; in a read phase no rank writes, and the buffer is read-only.

#![expect(
    unsafe_code,
    reason = "the buffer protocol of Python works with pointers"
)]

use std::ffi::{c_int, c_void};
use std::marker::PhantomData;
use std::ptr::{self, NonNull};
use std::slice;

use pyo3::ffi;
use pyo3::prelude::*;

use crate::region::SharedArray;

/// Holds the memory of an array during one call.
pub(crate) struct View<'py> {
    buffer: ffi::Py_buffer,
    py: PhantomData<Python<'py>>,
}

/// Whether a view is read or written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    Read,
    Write,
}

impl<'py> View<'py> {
    /// Creates an empty view, to be filled in place.
    #[inline]
    pub(crate) fn new() -> Self {
        Self {
            buffer: ffi::Py_buffer::new(),
            py: PhantomData,
        }
    }

    /// Takes the memory of `array`, which must be contiguous; at most once per view.
    #[inline]
    pub(crate) fn fill(&mut self, array: &Bound<'py, PyAny>, access: Access) -> PyResult<()> {
        assert!(self.buffer.obj.is_null(), "a view is filled once");
        let flags = match access {
            Access::Read => ffi::PyBUF_ND,
            Access::Write => ffi::PyBUF_ND | ffi::PyBUF_WRITABLE,
        };
        // SAFETY: the object lives, the thread is attached, and the buffer is empty, so nothing is lost.
        let code = unsafe { ffi::PyObject_GetBuffer(array.as_ptr(), &raw mut self.buffer, flags) };
        if code == 0 {
            Ok(())
        } else {
            // A failed call leaves the buffer without an object, so nothing will be released.
            self.buffer.obj = ptr::null_mut();
            Err(PyErr::fetch(array.py()))
        }
    }

    /// Returns the bytes of one element.
    #[inline]
    pub(crate) fn itemsize(&self) -> usize {
        self.buffer.itemsize.unsigned_abs()
    }

    /// Returns the number of bytes.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.buffer.len.unsigned_abs()
    }

    /// Returns the length of each axis.
    #[inline]
    pub(crate) fn shape(&self) -> &[isize] {
        let axes = self.buffer.ndim.unsigned_abs() as usize;
        if axes == 0 || self.buffer.shape.is_null() {
            return &[];
        }
        // SAFETY: I1.
        unsafe { slice::from_raw_parts(self.buffer.shape, axes) }
    }

    /// Returns the bytes.
    #[inline]
    pub(crate) fn bytes(&self) -> &[u8] {
        // SAFETY: I1, I2 and I3.
        unsafe { slice::from_raw_parts(self.start(), self.len()) }
    }

    /// Returns the bytes of a view that was filled for writing.
    #[inline]
    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        assert!(
            self.buffer.readonly == 0,
            "the view was filled only for reading"
        );
        // SAFETY: I1, I2 and I3; writable, as was just asserted.
        unsafe { slice::from_raw_parts_mut(self.start(), self.len()) }
    }

    /// Returns whether the views share a byte.
    #[inline]
    pub(crate) fn overlaps(&self, other: &Self) -> bool {
        let (mine, its) = (self.start().addr(), other.start().addr());
        mine < its + other.len() && its < mine + self.len()
    }

    /// Returns whether both views cover the same bytes.
    #[inline]
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        self.start() == other.start() && self.len() == other.len()
    }

    #[inline]
    fn start(&self) -> *mut u8 {
        if self.len() == 0 {
            return NonNull::dangling().as_ptr();
        }
        self.buffer.buf.cast()
    }
}

impl Drop for View<'_> {
    #[inline]
    fn drop(&mut self) {
        if !self.buffer.obj.is_null() {
            // SAFETY: I1.
            unsafe { ffi::PyBuffer_Release(&raw mut self.buffer) };
        }
    }
}

/// The memory of a region in the current phase.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Extent {
    start: *mut u8,
    len: usize,
    writable: bool,
}

// SAFETY: only an address and a length; I4 and I5 restrict their use, in any thread.
unsafe impl Send for Extent {}

impl Extent {
    /// Returns the extent of a part that may be written.
    pub(crate) fn of_part(bytes: &mut [u8]) -> Self {
        Self {
            start: bytes.as_mut_ptr(),
            len: bytes.len(),
            writable: true,
        }
    }

    /// Returns the extent of a whole region, for reading only.
    pub(crate) fn of_whole(bytes: &[u8]) -> Self {
        Self {
            start: bytes.as_ptr().cast_mut(),
            len: bytes.len(),
            writable: false,
        }
    }

    /// Returns the number of bytes.
    pub(crate) fn len(&self) -> usize {
        self.len
    }
}

/// Exports the memory of one phase of a region through the buffer protocol, and counts the buffers.
#[derive(Debug)]
#[pyclass(module = "cobre_comm._native", frozen)]
pub(crate) struct Window {
    region: Py<SharedArray>,
    phase: u64,
}

impl Window {
    /// Creates the exporter of phase number `phase`.
    pub(crate) fn new(region: Py<SharedArray>, phase: u64) -> Self {
        Self { region, phase }
    }
}

#[pymethods]
impl Window {
    unsafe fn __getbuffer__(
        slf: &Bound<'_, Self>,
        view: *mut ffi::Py_buffer,
        flags: c_int,
    ) -> PyResult<()> {
        let window = slf.get();
        window.region.get().export(window.phase, |place| {
            let start: *mut c_void = place.start.cast();
            let readonly = c_int::from(!place.writable);
            let len = isize::try_from(place.len)?;
            // SAFETY: Python passed the buffer to be filled; it gets a reference to this exporter, which keeps the region alive (I4), and it
            // is counted, and read-only where writing is not allowed (I5).
            let code =
                unsafe { ffi::PyBuffer_FillInfo(view, slf.as_ptr(), start, len, readonly, flags) };
            if code == 0 {
                Ok(())
            } else {
                Err(PyErr::fetch(slf.py()))
            }
        })
    }

    unsafe fn __releasebuffer__(&self, _view: *mut ffi::Py_buffer) {
        self.region.get().release();
    }
}
