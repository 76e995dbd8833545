//! The communicator as Python sees it.

use std::sync::{Arc, RwLock, RwLockReadGuard, TryLockError};

use comm_factory::CommBackend;
use comm_factory::api::{Communicator as Collectives, SharedMemoryProvider};
use pyo3::exceptions::{PyRuntimeError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyList, PyType};

use crate::argument::described;
use crate::call::{checked, run};
use crate::create::{RegionKind, create};
use crate::region::SharedArray;
use crate::{broadcast, exact, gather, object, reduce};

/// Performs collective operations among the ranks of one job.
///
/// All ranks call the same methods in the same order, with arguments that agree. A rank that dies or stays away becomes an error on the others
/// that names it. Arguments are checked before anything is sent; the other ranks get ``Refused``, and the communicator stays usable.
///
/// While a call waits, other threads of Python run; they must not change the arrays that the call works on. A second thread inside a
/// collective of one communicator is refused.
///
/// A communicator is a context manager that closes itself:
///
/// >>> import cobre_comm as cc
/// >>> with cc.connect("local") as comm:
/// ...     comm.rank, comm.size, comm.backend
/// (0, 1, 'local')
#[derive(Debug)]
#[pyclass(module = "cobre_comm", frozen)]
pub(crate) struct Communicator {
    /// Only tried, never waited for: whoever reads it may wait for other ranks.
    open: RwLock<Option<Open>>,
    rank: usize,
    size: usize,
    is_leader: bool,
    backend: &'static str,
}

/// What an open communicator holds.
struct Open {
    comm: Arc<dyn Collectives>,
    /// The same as what it was connected as; `None` for the ranks of one machine, which were split from it.
    job: Option<Arc<CommBackend>>,
}

impl std::fmt::Debug for Open {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Open")
            .field("job", &self.job)
            .finish_non_exhaustive()
    }
}

impl Communicator {
    pub(crate) fn of_job(job: CommBackend) -> Self {
        let job = Arc::new(job);
        Self {
            rank: job.rank(),
            size: job.size(),
            is_leader: job.is_leader(),
            backend: job.name(),
            open: RwLock::new(Some(Open {
                comm: job.clone(),
                job: Some(job),
            })),
        }
    }

    fn of_machine(comm: Box<dyn Collectives>, backend: &'static str) -> Self {
        Self {
            rank: comm.rank(),
            size: comm.size(),
            is_leader: comm.rank() == 0,
            backend,
            open: RwLock::new(Some(Open {
                comm: comm.into(),
                job: None,
            })),
        }
    }

    #[inline]
    fn open(&self) -> PyResult<Guard<'_>> {
        match self.open.try_read() {
            Ok(open) if open.is_some() => Ok(Guard(open)),
            _ => Err(closed()),
        }
    }
}

#[cold]
fn closed() -> PyErr {
    PyValueError::new_err(
        "the communicator is closed; connect again, or call inside of its with block",
    )
}

/// Keeps the communicator open for the time of one call.
struct Guard<'c>(RwLockReadGuard<'c, Option<Open>>);

impl Guard<'_> {
    #[inline]
    fn comm(&self) -> &dyn Collectives {
        match self.0.as_ref() {
            Some(open) => &*open.comm,
            None => unreachable!("a guard exists only of an open communicator"),
        }
    }

    /// Returns the communicator of the whole job, which alone has shared memory.
    fn job(&self, operation: &'static str) -> PyResult<&CommBackend> {
        let job = self.0.as_ref().and_then(|open| open.job.as_deref());
        job.ok_or_else(|| {
            PyValueError::new_err(format!(
                "{operation}: this communicator came from split_local; call {operation} of the one that connect returned"
            ))
        })
    }
}

#[pymethods]
impl Communicator {
    /// The rank of this process, from 0 on.
    #[getter]
    fn rank(&self) -> usize {
        self.rank
    }

    /// The number of ranks.
    #[getter]
    fn size(&self) -> usize {
        self.size
    }

    /// The name of the backend: ``"shm"``, ``"tcp"`` or ``"local"``.
    #[getter]
    fn backend(&self) -> &'static str {
        self.backend
    }

    /// Whether this rank owns the shared arrays of its machine. With a backend that has no shared memory, every rank has a copy and leads it.
    #[getter]
    fn is_leader(&self) -> bool {
        self.is_leader
    }

    /// Gathers arrays of one shape and dtype; the result has a new first axis, one entry for each rank.
    ///
    /// ``x`` is an array or a number. ``out`` is where the result goes, if it is given. The ranks must agree on the dtype and the number of elements;
    /// both are compared.
    ///
    /// >>> import numpy as np
    /// >>> import cobre_comm as cc
    /// >>> cc.connect("local").allgather(np.array([1, 2]))
    /// array([[1, 2]])
    #[pyo3(signature = (x, out=None))]
    fn allgather<'py>(
        &self,
        x: &Bound<'py, PyAny>,
        out: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        gather::allgather(self.open()?.comm(), x, out)
    }

    /// Gathers arrays that differ in the length of their first axis; returns them one after the other, in rank order, and the lengths.
    ///
    /// ``counts`` are the lengths of all ranks, where they are known: that saves an exchange. ``out`` is where the result goes, if it is given.
    /// Without ``counts`` dtypes and shapes are compared, with them the dtypes and the size of a row.
    ///
    /// >>> import numpy as np
    /// >>> import cobre_comm as cc
    /// >>> everything, counts = cc.connect("local").allgatherv(np.array([1.5, 2.5]))
    /// >>> everything, counts
    /// (array([1.5, 2.5]), array([2]))
    #[pyo3(signature = (send, counts=None, out=None))]
    fn allgatherv<'py>(
        &self,
        send: &Bound<'py, PyAny>,
        counts: Option<&Bound<'py, PyAny>>,
        out: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyAny>)> {
        gather::allgatherv(self.open()?.comm(), send, counts, out)
    }

    /// Combines ``x`` of all ranks, element by element, on every rank: a left fold in rank order, the same bits on every backend.
    ///
    /// A number gives a number: an ``int`` travels as 64 bits with a sign, a ``float`` as float64, a number of numpy as what it is. An array gives an
    /// array of its dtype: int8 to int64, uint8 to uint64, float32, float64. ``op`` is ``"sum"``, ``"prod"``, ``"min"``, ``"max"``,
    /// ``"bitwise_or"``, ``"bitwise_and"`` or ``"bitwise_xor"``; sums and products of integers wrap. ``out`` is where the result goes, if it is given; it may be ``x`` itself.
    ///
    /// >>> import numpy as np
    /// >>> import cobre_comm as cc
    /// >>> comm = cc.connect("local")
    /// >>> comm.allreduce(2.5), comm.allreduce(np.array([3, 4], dtype=np.int32), op="max")
    /// (2.5, array([3, 4], dtype=int32))
    #[pyo3(signature = (x, op=None, out=None), text_signature = "($self, x, op='sum', out=None)")]
    fn allreduce<'py>(
        &self,
        x: &Bound<'py, PyAny>,
        op: Option<&Bound<'py, PyAny>>,
        out: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        reduce::allreduce(self.open()?.comm(), x, op, out)
    }

    /// Adds up all elements of ``x`` of all ranks without rounding errors, and rounds once: the same bits however the elements are split over ranks.
    ///
    /// ``x`` is an array, or a number: float64, float32, or integers of up to 32 bits. With ``axis=0`` each column is a sum of its own, over the
    /// rows of all ranks, in one exchange; the ranks may have different numbers of rows.
    ///
    /// >>> import numpy as np
    /// >>> import cobre_comm as cc
    /// >>> comm = cc.connect("local")
    /// >>> comm.exact_sum(np.array([1e100, 1.0, -1e100]))
    /// 1.0
    /// >>> comm.exact_sum(np.array([[1e100, 0.5], [1.0, 0.25], [-1e100, 0.0]]), axis=0)
    /// array([1.  , 0.75])
    #[pyo3(signature = (x, axis=None))]
    fn exact_sum<'py>(
        &self,
        x: &Bound<'py, PyAny>,
        axis: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let open = self.open()?;
        match axis {
            None => exact::exact_sum(open.comm(), x),
            Some(axis) => exact::exact_sums(open.comm(), x, axis),
        }
    }

    /// Sends the contents of ``array`` of ``root`` to every rank, in place.
    ///
    /// The ranks must agree on the number of elements and on the dtype; both are compared.
    ///
    /// >>> import numpy as np
    /// >>> import cobre_comm as cc
    /// >>> seeds = np.array([7, 8])
    /// >>> cc.connect("local").broadcast(seeds, root=0)
    /// >>> seeds
    /// array([7, 8])
    #[pyo3(signature = (array, root=None), text_signature = "($self, array, root=0)")]
    fn broadcast<'py>(
        &self,
        array: &Bound<'py, PyAny>,
        root: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<()> {
        broadcast::broadcast(self.open()?.comm(), array, root)
    }

    /// Waits until every rank has entered.
    fn barrier(&self, py: Python<'_>) -> PyResult<()> {
        let open = self.open()?;
        let comm = open.comm();
        run(py, "barrier", || comm.barrier())
    }

    /// Sends an object of ``root`` to every rank, pickled, and returns it.
    ///
    /// The other ranks may leave ``object`` away.
    ///
    /// >>> import cobre_comm as cc
    /// >>> cc.connect("local").broadcast_object({"seed": 7})
    /// {'seed': 7}
    #[pyo3(signature = (object=None, root=None), text_signature = "($self, object=None, root=0)")]
    fn broadcast_object<'py>(
        &self,
        py: Python<'py>,
        object: Option<&Bound<'py, PyAny>>,
        root: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let none = py.None().into_bound(py);
        object::broadcast_object(self.open()?.comm(), object.unwrap_or(&none), root)
    }

    /// Gathers one object from every rank, pickled; returns them in rank order.
    ///
    /// >>> import cobre_comm as cc
    /// >>> cc.connect("local").allgather_object(7)
    /// [7]
    fn allgather_object<'py>(&self, object: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyList>> {
        object::allgather_object(self.open()?.comm(), object)
    }

    /// Creates a communicator of the ranks that share memory with this one, with a sequence of calls of its own.
    ///
    /// Over ``"shm"`` these are all ranks. Over ``"tcp"`` every rank has memory of its own, on one machine as well: the communicator has this rank
    /// alone.
    fn split_local(&self, py: Python<'_>) -> PyResult<Self> {
        let open = self.open()?;
        let job = open.job("split_local")?;
        let machine = run(py, "split_local", || job.split_local())?;
        Ok(Self::of_machine(machine, self.backend))
    }

    /// Creates an array that all ranks of a machine share, one copy, which the leader writes; see ``SharedArray``.
    ///
    /// Over ``"tcp"`` every rank has memory of its own: each has a copy, and writes it.
    ///
    /// ``shape`` is a number or a tuple, ``dtype`` any dtype without objects (float64 if it is left away).
    #[pyo3(signature = (shape, dtype=None), text_signature = "($self, shape, dtype='float64')")]
    fn shared_array<'py>(
        &self,
        shape: &Bound<'py, PyAny>,
        dtype: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<SharedArray> {
        create(
            self.open()?.job("shared_array")?,
            RegionKind::Shared,
            shape,
            dtype,
        )
    }

    /// Creates an array that all ranks of a machine share, of which each writes rows of its own; see ``SharedArray``.
    ///
    /// ``shape`` is that of the rows of this rank: the first length may differ between ranks. The whole has the rows of all, in rank order.
    /// Over ``"tcp"`` every rank has memory of its own, and the whole has the rows of this rank alone; ``gathered_array`` has those of all.
    ///
    /// >>> import cobre_comm as cc
    /// >>> points = cc.connect("local").partitioned_array((2, 3))
    /// >>> points.part[:] = 1.0
    /// >>> points.fence()
    /// >>> points.array.shape
    /// (2, 3)
    #[pyo3(signature = (shape, dtype=None), text_signature = "($self, shape, dtype='float64')")]
    fn partitioned_array<'py>(
        &self,
        shape: &Bound<'py, PyAny>,
        dtype: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<SharedArray> {
        create(
            self.open()?.job("partitioned_array")?,
            RegionKind::Partitioned,
            shape,
            dtype,
        )
    }

    /// Creates an array of the whole job, of which each rank writes rows of its own and all read all; see ``SharedArray``.
    ///
    /// ``shape`` is that of the rows of this rank: the first length may differ between ranks. The whole has the rows of all ranks, in rank order,
    /// once per machine where memory is shared. What an ``allgatherv`` copies to every rank, ``exchange`` only shows: on one machine it takes as
    /// long as a ``barrier``, whatever the size.
    ///
    /// >>> import cobre_comm as cc
    /// >>> comm = cc.connect("local")
    /// >>> points = comm.gathered_array((2, 3))
    /// >>> points.part[:] = 1.0
    /// >>> comm.exchange(points)
    /// >>> points.array.sum()
    /// np.float64(6.0)
    /// >>> points.fence()
    #[pyo3(signature = (shape, dtype=None), text_signature = "($self, shape, dtype='float64')")]
    fn gathered_array<'py>(
        &self,
        shape: &Bound<'py, PyAny>,
        dtype: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<SharedArray> {
        create(
            self.open()?.job("gathered_array")?,
            RegionKind::Gathered,
            shape,
            dtype,
        )
    }

    /// Ends the write phase of a ``gathered_array`` on every rank of the job: what any rank wrote, all can read.
    ///
    /// A collective of this communicator. Raises ``BufferError`` as long as views of the phase are alive, and ``Refused`` for an array that is not
    /// gathered or in its read phase: the others get ``Refused``, the phase goes on for all, and ``exchange`` can be called again.
    fn exchange(&self, py: Python<'_>, array: &Bound<'_, PyAny>) -> PyResult<()> {
        let open = self.open()?;
        let job = open.job("exchange")?;
        // The others wait in a collective, so the refusal of what is no array is announced to them.
        let array = array.cast::<SharedArray>().map_err(|_| {
            PyTypeError::new_err(format!(
                "array: {} is no shared array; pass what gathered_array returned",
                described(array)
            ))
        });
        let array = checked(py, job, "exchange", array)?;
        array.get().exchange(py, job)
    }

    /// Ends this process with ``code`` and the job with it; no handler at exit runs.
    ///
    /// What was printed is flushed first.
    #[pyo3(signature = (code=1))]
    fn abort(&self, py: Python<'_>, code: i32) -> PyResult<()> {
        let open = self.open()?;
        let comm = open.comm();
        let streams = py.import("sys")?;
        for stream in ["stdout", "stderr"] {
            // A stream that is closed must not keep the job alive.
            let _ = streams
                .getattr(stream)
                .and_then(|stream| stream.call_method0("flush"));
        }
        py.detach(|| comm.abort(code))
    }

    /// Leaves the job; the other ranks find it lost in their next call. Shared arrays stay usable.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let open = match self.open.try_write() {
            Ok(mut open) => open.take(),
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner().take(),
            Err(TryLockError::WouldBlock) => {
                return Err(PyRuntimeError::new_err(
                    "close: another thread of this rank is inside a collective of this communicator; let it finish",
                ));
            }
        };
        py.detach(|| drop(open));
        Ok(())
    }

    fn __enter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __exit__(
        &self,
        py: Python<'_>,
        _class: Option<&Bound<'_, PyType>>,
        _error: Option<&Bound<'_, PyAny>>,
        _traceback: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        self.close(py)
    }

    fn __repr__(&self) -> String {
        let Self {
            rank,
            size,
            backend,
            ..
        } = self;
        format!("<cobre_comm.Communicator rank {rank} of {size} on {backend}>")
    }
}
