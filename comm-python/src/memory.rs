//! Memory that Python and Rust both see: all `unsafe` code of this crate.
//!
//! # Safety
//!
//! - **I1** A [`View`] that was filled holds a `Py_buffer` that Python filled; until it is released, `buf` points to `len` bytes, `shape`
//!   to `ndim` lengths, and the object lives and does not move its memory. It is released once, by the drop of the view, with
//!   the thread attached to the interpreter: a view has no `Send`.
//! - **I2** The memory of a view is contiguous in the order of C, because nothing else was asked for (`PyBUF_ND` without strides).
//! - **I3** The bytes of a view may be read and, if it was asked for writable, written for as long as it is borrowed. While the lock of the
//!   interpreter is released, another thread of the program could write the same array. That is the race that every library has which
//!   releases the lock around such work (numpy does); the documentation of the package forbids it, and bytes have no value that is invalid.
//!   Two views of one call never overlap if one of them is written: [`View::overlaps`] is asked first.
//! - **I4** The memory of an [`Extent`] is that of a region, which outlives every buffer that Python holds of it: each holds a reference to its
//!   exporter, and that one to the region.
//! - **I5** Nobody ends the phase of a region while Python holds a buffer of it: the exporter counts them, and `fence` refuses. In a
//!   write phase the place is the part of this rank alone; in a read phase nobody writes, and the buffer is handed out as read-only.

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

/// Holds the memory of an array for the time of one call.
pub(crate) struct View<'py> {
    buffer: ffi::Py_buffer,
    py: PhantomData<Python<'py>>,
}

/// Says what a view is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    Read,
    Write,
}

impl<'py> View<'py> {
    /// Creates a view of nothing, to be filled where it lies.
    #[inline]
    pub(crate) fn new() -> Self {
        Self {
            buffer: ffi::Py_buffer::new(),
            py: PhantomData,
        }
    }

    /// Takes the memory of `array`, which must be contiguous; at most once for each view.
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
            // A call that fails leaves the buffer without an object, so that nothing is released.
            self.buffer.obj = ptr::null_mut();
            Err(PyErr::fetch(array.py()))
        }
    }

    /// Returns the bytes of one element.
    #[inline]
    pub(crate) fn itemsize(&self) -> usize {
        self.buffer.itemsize.unsigned_abs()
    }

    /// Returns how many bytes there are.
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

    /// Returns the bytes of a view that was filled to write.
    #[inline]
    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        assert!(
            self.buffer.readonly == 0,
            "the view was filled to read only"
        );
        // SAFETY: I1, I2 and I3; writable, as was just asserted.
        unsafe { slice::from_raw_parts_mut(self.start(), self.len()) }
    }

    /// Returns whether a byte belongs to both views.
    #[inline]
    pub(crate) fn overlaps(&self, other: &Self) -> bool {
        let (mine, its) = (self.start().addr(), other.start().addr());
        mine < its + other.len() && its < mine + self.len()
    }

    /// Returns whether both views are of the same bytes.
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

/// Remembers where the memory of a region lies in the phase that is.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Extent {
    start: *mut u8,
    len: usize,
    writable: bool,
}

// SAFETY: an address and a length; what may be done with them is up to I4 and I5, in whichever thread.
unsafe impl Send for Extent {}

impl Extent {
    /// Remembers a part that may be written.
    pub(crate) fn of_part(bytes: &mut [u8]) -> Self {
        Self {
            start: bytes.as_mut_ptr(),
            len: bytes.len(),
            writable: true,
        }
    }

    /// Remembers a whole region, to read only.
    pub(crate) fn of_whole(bytes: &[u8]) -> Self {
        Self {
            start: bytes.as_ptr().cast_mut(),
            len: bytes.len(),
            writable: false,
        }
    }

    /// Returns how many bytes there are.
    pub(crate) fn len(&self) -> usize {
        self.len
    }
}

/// Exports the memory of one phase of a region through the buffer protocol, and counts who holds it.
#[derive(Debug)]
#[pyclass(module = "cobre_comm._native", frozen)]
pub(crate) struct Window {
    region: Py<SharedArray>,
    phase: u64,
}

impl Window {
    /// Creates the exporter of the phase with the number `phase`.
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
            // SAFETY: Python passed the buffer, to be filled; it gets a reference to this exporter, which keeps the region (I4), and it
            // is counted and read-only where nobody may write (I5).
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
