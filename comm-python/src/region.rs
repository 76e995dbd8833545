//! The Python class `SharedArray`: an array in shared memory, with alternating write and read phases.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard};

use comm_factory::api::bytemuck::{cast_slice, cast_slice_mut};
use comm_factory::api::{CommError, SharedMemoryProvider, SharedRegion};
use comm_factory::{CommBackend, CommRegion};
use comm_kit::Owner;
use pyo3::exceptions::{PyBufferError, PyRuntimeError};
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::call::{checked, run};
use crate::errors;
use crate::memory::{Extent, Window};
use crate::numpy::numpy;

/// An array in memory that the ranks of one machine share, with alternating write and read phases.
///
/// It begins in a write phase, filled with zeros. Every ``fence`` ends the phase on all ranks of the machine; values written before it can be read
/// after it. In a write phase ``part`` is the part that this rank owns; in a read phase ``array`` is the whole array, read-only. Both are views, not
/// copies, and a view must not outlive its phase: ``fence`` raises ``BufferError`` as long as one exists.
///
/// >>> import cobre_comm as cc
/// >>> comm = cc.connect("local")
/// >>> table = comm.shared_array((2, 3), "float64")
/// >>> table.part[0] = 1.5
/// >>> table.fence()
/// >>> table.array.sum()
/// np.float64(4.5)
#[derive(Debug)]
#[pyclass(module = "cobre_comm", frozen)]
pub(crate) struct SharedArray {
    /// Locked only with `try`: a thread that holds it may be waiting for other ranks.
    state: Mutex<State>,
    /// The number of buffers of this phase that Python holds.
    views: AtomicUsize,
    owner: Owner,
    layout: Layout,
    dtype: Py<PyAny>,
}

/// The layout of the elements of a region.
#[derive(Debug)]
pub(crate) struct Layout {
    pub(crate) whole: Whole,
    /// The shape of one row: all axes after the first.
    pub(crate) row: Vec<usize>,
}

/// The first axis of the whole array.
#[derive(Debug)]
pub(crate) enum Whole {
    /// A shared array: its number of rows, `None` for an array without axes; and whether this rank owns it.
    Shared(Option<usize>, bool),
    /// A partitioned array: the rows of this rank, and those of all ranks of the machine.
    Partitioned(usize, usize),
    /// A gathered array: the rows of this rank, and those of all ranks of the job.
    Gathered(usize, usize),
}

#[derive(Debug)]
struct State {
    region: Region,
    /// Counts the fences: even in a write phase, odd in a read phase.
    phase: u64,
    /// `None` after a fatal error of a fence.
    place: Option<Extent>,
}

/// A region with elements that are aligned as those of the dtype: the widest scalar that divides its size.
#[derive(Debug)]
pub(crate) enum Region {
    Of1(CommRegion<u8>),
    Of2(CommRegion<u16>),
    Of4(CommRegion<u32>),
    Of8(CommRegion<u64>),
    Of16(CommRegion<u128>),
}

macro_rules! each {
    ($self:expr, $region:ident => $body:expr) => {
        match $self {
            Region::Of1($region) => $body,
            Region::Of2($region) => $body,
            Region::Of4($region) => $body,
            Region::Of8($region) => $body,
            Region::Of16($region) => $body,
        }
    };
}

/// Creates a region with the widest scalar that divides the item size.
macro_rules! create {
    ($comm:ident.$create:ident, $bytes:expr, $itemsize:expr) => {
        Ok(match $itemsize.trailing_zeros() {
            0 => Self::Of1($comm.$create($bytes)?),
            1 => Self::Of2($comm.$create($bytes / 2)?),
            2 => Self::Of4($comm.$create($bytes / 4)?),
            3 => Self::Of8($comm.$create($bytes / 8)?),
            _ => Self::Of16($comm.$create($bytes / 16)?),
        })
    };
}

impl Region {
    /// Creates a region of `bytes` bytes that the leader owns.
    pub(crate) fn shared(
        comm: &CommBackend,
        bytes: usize,
        itemsize: usize,
    ) -> Result<Self, CommError> {
        create!(comm.create_shared_region, bytes, itemsize)
    }

    /// Creates a region in which this rank owns `bytes` bytes.
    pub(crate) fn partitioned(
        comm: &CommBackend,
        bytes: usize,
        itemsize: usize,
    ) -> Result<Self, CommError> {
        create!(comm.create_partitioned_region, bytes, itemsize)
    }

    /// Creates a region of the whole job in which this rank owns `bytes` bytes.
    pub(crate) fn gathered(
        comm: &CommBackend,
        bytes: usize,
        itemsize: usize,
    ) -> Result<Self, CommError> {
        create!(comm.create_gathered_region, bytes, itemsize)
    }

    fn exchange(&mut self, comm: &CommBackend) -> Result<(), CommError> {
        each!(self, region => comm.exchange(region))
    }

    fn fence(&mut self) -> Result<(), CommError> {
        each!(self, region => region.fence())
    }

    fn place(&mut self, phase: u64) -> Extent {
        if is_read(phase) {
            each!(self, region => Extent::of_whole(cast_slice(region.as_slice())))
        } else {
            each!(self, region => Extent::of_part(cast_slice_mut(region.as_mut_slice())))
        }
    }
}

fn is_read(phase: u64) -> bool {
    phase % 2 == 1
}

impl SharedArray {
    /// Wraps a new region, which is in its first phase.
    pub(crate) fn new(mut region: Region, layout: Layout, dtype: Py<PyAny>) -> Self {
        let place = Some(region.place(0));
        Self {
            state: Mutex::new(State {
                region,
                phase: 0,
                place,
            }),
            views: AtomicUsize::new(0),
            owner: Owner::mark(),
            layout,
            dtype,
        }
    }

    /// Returns the memory of the phase for a window to export, and counts the buffer.
    pub(crate) fn export(
        &self,
        phase: u64,
        export: impl FnOnce(Extent) -> PyResult<()>,
    ) -> PyResult<()> {
        let state = self.state("buffer")?;
        match state.place {
            Some(place) if state.phase == phase => export(place)?,
            _ => {
                return Err(PyBufferError::new_err(
                    "this window belongs to a phase that has ended; take part or array again",
                ));
            }
        }
        self.views.fetch_add(1, Ordering::AcqRel);
        Ok(())
    }

    /// Records that Python has released a buffer.
    pub(crate) fn release(&self) {
        self.views.fetch_sub(1, Ordering::AcqRel);
    }

    fn state(&self, what: &str) -> PyResult<MutexGuard<'_, State>> {
        self.state.try_lock().map_err(|_| {
            PyRuntimeError::new_err(format!(
                "{what}: another thread of this rank is inside fence or exchange of this array; wait until it returns"
            ))
        })
    }

    /// Ends the write phase of a gathered array on all ranks of the job.
    pub(crate) fn exchange(&self, py: Python<'_>, comm: &CommBackend) -> PyResult<()> {
        let state = self.without_views(py, "exchange");
        // The others wait in a collective of the communicator, so a refusal is announced to them.
        let mut state = checked(py, comm, "exchange", state)?;
        self.end_phase(py, "exchange", &mut state, |region| region.exchange(comm))
    }

    /// Returns the state, without waiting, if no view of the phase is alive.
    fn without_views(
        &self,
        py: Python<'_>,
        operation: &'static str,
    ) -> PyResult<MutexGuard<'_, State>> {
        if self.views.load(Ordering::Acquire) > 0 {
            // Views that only garbage refers to do not count.
            py.import("gc")?.call_method0("collect")?;
        }
        let state = self.state(operation)?;
        let views = self.views.load(Ordering::Acquire);
        if views == 0 {
            return Ok(state);
        }
        let phase = if is_read(state.phase) {
            "read"
        } else {
            "write"
        };
        let (are, them) = if views == 1 {
            (format!("view of the {phase} phase is"), "it")
        } else {
            (format!("views of the {phase} phase are"), "them")
        };
        Err(PyBufferError::new_err(format!(
            "{operation}: {views} {are} alive; delete {them} (del), or copy the data you need, and call {operation} again"
        )))
    }

    /// Ends the phase with `end`. If that is refused, the phase continues; after a fatal error the array is unusable.
    fn end_phase(
        &self,
        py: Python<'_>,
        operation: &'static str,
        state: &mut State,
        end: impl FnOnce(&mut Region) -> Result<(), CommError> + Send,
    ) -> PyResult<()> {
        if !self.owner.is_here() {
            let error = CommError::invalid_communicator();
            return Err(errors::failed(py, operation, &error, None));
        }
        let State {
            region,
            phase,
            place,
        } = state;
        *place = None;
        let (mut ended, mut broken) = (false, true);
        let result = run(py, operation, || {
            let result = end(region);
            ended = result.is_ok();
            broken = matches!(&result, Err(error) if error.is_fatal());
            result
        });
        *phase += u64::from(ended);
        if !broken {
            *place = Some(region.place(*phase));
        }
        result
    }

    /// Creates an array over the memory of the phase, if `what` exists in this phase.
    fn view<'py>(
        slf: &Bound<'py, Self>,
        what: &'static str,
        reads: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = slf.py();
        let this = slf.get();
        if !this.owner.is_here() {
            return Err(errors::failed(
                py,
                what,
                &CommError::invalid_communicator(),
                None,
            ));
        }
        let state = this.state(what)?;
        let Some(place) = state.place else {
            return Err(PyRuntimeError::new_err(format!(
                "{what}: a fence or an exchange of this array failed, so its contents are unknown; create a new array"
            )));
        };
        let phase = state.phase;
        drop(state);
        if is_read(phase) != reads {
            let (now, other) = if reads {
                ("write", "part")
            } else {
                ("read", "array")
            };
            let end = match this.layout.whole {
                Whole::Gathered(..) if reads => "exchange of its communicator",
                _ => "fence",
            };
            return Err(PyRuntimeError::new_err(format!(
                "{what}: the array is in a {now} phase, which has {other}; call {end} to end it"
            )));
        }
        let numpy = numpy(py)?;
        let dtype = this.dtype.bind(py);
        let shape = PyTuple::new(py, this.layout.shape(reads))?;
        if place.len() == 0 {
            let empty = numpy.empty(py, shape, dtype)?;
            if reads {
                empty.call_method1("setflags", (false,))?;
            }
            return Ok(empty);
        }
        let window = Bound::new(py, Window::new(slf.clone().unbind(), phase))?;
        numpy.over(window.into_any(), dtype, shape)
    }
}

impl Layout {
    /// Returns the shape of the whole array, or of the part of this rank.
    fn shape(&self, is_whole: bool) -> Vec<usize> {
        let rows = match self.whole {
            Whole::Shared(None, owned) if is_whole || owned => return Vec::new(),
            Whole::Shared(Some(rows), owned) if is_whole || owned => rows,
            Whole::Shared(..) => 0,
            Whole::Partitioned(_, all) | Whole::Gathered(_, all) if is_whole => all,
            Whole::Partitioned(mine, _) | Whole::Gathered(mine, _) => mine,
        };
        [&[rows], &self.row[..]].concat()
    }
}

#[pymethods]
impl SharedArray {
    /// The part that this rank may write in a write phase: all of a shared array on the leader and nothing on the other ranks, or this rank's rows of
    /// a partitioned or gathered array.
    #[getter]
    fn part<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        Self::view(slf, "part", false)
    }

    /// The whole array, read-only, in a read phase.
    #[getter]
    fn array<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        Self::view(slf, "array", true)
    }

    /// The shape of the whole array, as ``array`` has it in a read phase.
    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.layout.shape(true))
    }

    /// The dtype of the elements.
    #[getter]
    fn dtype<'py>(&self, py: Python<'py>) -> Bound<'py, PyAny> {
        self.dtype.bind(py).clone()
    }

    /// The phase: ``"write"`` or ``"read"``.
    #[getter]
    fn phase(&self) -> PyResult<&'static str> {
        let state = self.state("phase")?;
        Ok(if is_read(state.phase) {
            "read"
        } else {
            "write"
        })
    }

    /// Ends the phase on every rank of the machine; values written before it can be read after it.
    ///
    /// Raises ``BufferError`` as long as views of the phase exist: then nothing is sent, the phase continues, and ``fence`` can be called again.
    ///
    /// >>> import cobre_comm as cc
    /// >>> table = cc.connect("local").shared_array(3, "int64")
    /// >>> mine = table.part
    /// >>> table.fence()
    /// Traceback (most recent call last):
    ///     ...
    /// BufferError: fence: 1 view of the write phase is alive; delete it (del), or copy the data you need, and call fence again
    /// >>> del mine
    /// >>> table.fence()
    ///
    /// In the write phase of a ``gathered_array`` this raises ``Refused``: call ``exchange`` of the communicator instead.
    fn fence(&self, py: Python<'_>) -> PyResult<()> {
        let mut state = self.without_views(py, "fence")?;
        self.end_phase(py, "fence", &mut state, Region::fence)
    }

    fn __repr__(&self, py: Python<'_>) -> String {
        let dtype = self.dtype.bind(py);
        let phase = self.phase().unwrap_or("fence");
        let rows = match self.layout.whole {
            Whole::Shared(None, _) => String::from("shared, shape ()"),
            Whole::Shared(Some(rows), _) => format!("shared, {rows} rows"),
            Whole::Partitioned(rows, _) => format!("partitioned, {rows} rows here"),
            Whole::Gathered(rows, _) => format!("gathered, {rows} rows here"),
        };
        format!(
            "<cobre_comm.SharedArray {rows}, rows of shape {:?}, {dtype}, {phase} phase>",
            self.layout.row
        )
    }
}
