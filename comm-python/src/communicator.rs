//! The Python class `Communicator`.

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
/// All ranks call the same methods in the same order, with matching arguments. If a rank dies or never makes a call, the others get an error that
/// names it. Arguments are checked before any data is sent: if they are invalid, the other ranks get ``Refused``, and the communicator stays usable.
///
/// While a call waits, other Python threads run; they must not change the arrays that the call uses. If a second thread calls a collective of the
/// same communicator meanwhile, it gets ``Refused``.
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
    /// Locked only with `try`: a thread that holds it may be waiting for other ranks.
    open: RwLock<Option<Open>>,
    rank: usize,
    size: usize,
    is_leader: bool,
    backend: &'static str,
}

/// The contents of an open communicator.
struct Open {
    comm: Arc<dyn Collectives>,
    /// The communicator of the whole job; `None` for one that came from `split_local`.
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
        "the communicator is closed; connect again, or call inside its with block",
    )
}

/// Keeps the communicator open during one call.
struct Guard<'c>(RwLockReadGuard<'c, Option<Open>>);

impl Guard<'_> {
    #[inline]
    fn comm(&self) -> &dyn Collectives {
        match self.0.as_ref() {
            Some(open) => &*open.comm,
            None => unreachable!("a guard exists only of an open communicator"),
        }
    }

    /// Returns the communicator of the whole job, the only one with shared memory.
    fn job(&self, operation: &'static str) -> PyResult<&CommBackend> {
        let job = self.0.as_ref().and_then(|open| open.job.as_deref());
        job.ok_or_else(|| {
            PyValueError::new_err(format!(
                "{operation}: this communicator came from split_local; call {operation} on the one that connect returned"
            ))
        })
    }
}

#[pymethods]
impl Communicator {
    /// The rank of this process, counted from 0.
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

    /// Whether this rank owns the shared arrays of its machine. With a backend without shared memory, every rank has its own copy and is its leader.
    #[getter]
    fn is_leader(&self) -> bool {
        self.is_leader
    }

    /// Gathers arrays of one shape and dtype; the result has a new first axis, one entry for each rank.
    ///
    /// ``x`` is an array or a number. The result goes to ``out``, if it is given. The dtype and the number of elements must be the same on all ranks;
    /// both are checked.
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

    /// Gathers arrays that may differ in the length of their first axis; returns them concatenated in rank order, and the lengths.
    ///
    /// ``counts`` are the lengths of all ranks, if they are known: that saves an exchange. The result goes to ``out``, if it is given.
    /// Without ``counts``, dtypes and shapes are checked; with ``counts``, dtypes and the size of a row.
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
    /// For a number the result is a number: an ``int`` is sent as a signed 64-bit integer, a ``float`` as float64, a numpy number with its own dtype. For
    /// an array the result is an array of the same dtype: int8 to int64, uint8 to uint64, float32 or float64. ``op`` is ``"sum"``, ``"prod"``, ``"min"``,
    /// ``"max"``, ``"bitwise_or"``, ``"bitwise_and"`` or ``"bitwise_xor"``; sums and products of integers wrap. The result goes to ``out``, if it is given;
    /// ``out`` may be ``x``.
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
    /// ``x`` is an array or a number: float64, float32, or integers of up to 32 bits. With ``axis=0`` the result has one sum per column, over the
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
    /// The number of elements and the dtype must be the same on all ranks; both are checked.
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

    /// Waits until every rank has called it.
    fn barrier(&self, py: Python<'_>) -> PyResult<()> {
        let open = self.open()?;
        let comm = open.comm();
        run(py, "barrier", || comm.barrier())
    }

    /// Sends an object of ``root`` to every rank, pickled, and returns it.
    ///
    /// The other ranks may omit ``object``.
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

    /// Creates a communicator of the ranks that share memory with this one. Its calls are independent of those of this communicator.
    ///
    /// Over ``"shm"`` it has all ranks. Over ``"tcp"`` ranks never share memory, not even on one machine, so it has only this
    /// rank.
    fn split_local(&self, py: Python<'_>) -> PyResult<Self> {
        let open = self.open()?;
        let job = open.job("split_local")?;
        let machine = run(py, "split_local", || job.split_local())?;
        Ok(Self::of_machine(machine, self.backend))
    }

    /// Creates an array that all ranks of a machine share: a single copy, which the leader writes; see ``SharedArray``.
    ///
    /// Over ``"tcp"`` ranks do not share memory: every rank has its own copy, and writes it.
    ///
    /// ``shape`` is a number or a tuple, ``dtype`` any dtype without objects (default: float64).
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

    /// Creates an array that all ranks of a machine share, in which each rank writes its own rows; see ``SharedArray``.
    ///
    /// ``shape`` is the shape of this rank's rows: the first length may differ between ranks. The whole array has the rows of all ranks, in rank
    /// order. Over ``"tcp"`` ranks do not share memory, so the whole array has only the rows of this rank; use ``gathered_array`` for those of all.
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

    /// Creates an array of the whole job, in which each rank writes its own rows and reads all of them; see ``SharedArray``.
    ///
    /// ``shape`` is the shape of this rank's rows: the first length may differ between ranks. The whole array has the rows of all ranks, in rank order,
    /// with one copy per machine if the ranks share memory. Unlike ``allgatherv``, ``exchange`` then copies nothing: on one machine it takes as
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

    /// Ends the write phase of a ``gathered_array`` on every rank of the job; then every rank can read the rows of all ranks.
    ///
    /// A collective of this communicator. Raises ``BufferError`` as long as views of the phase exist, and ``Refused`` for an array that is not
    /// gathered or is in its read phase. The other ranks then get ``Refused``, the phase continues on all ranks, and ``exchange`` can be called again.
    fn exchange(&self, py: Python<'_>, array: &Bound<'_, PyAny>) -> PyResult<()> {
        let open = self.open()?;
        let job = open.job("exchange")?;
        // The others wait in a collective, so they must get the refusal if this is no array.
        let array = array.cast::<SharedArray>().map_err(|_| {
            PyTypeError::new_err(format!(
                "array: {} is no shared array; pass the array that gathered_array returned",
                described(array)
            ))
        });
        let array = checked(py, job, "exchange", array)?;
        array.get().exchange(py, job)
    }

    /// Ends this process with ``code``, and the whole job with it; exit handlers do not run.
    ///
    /// Flushes ``sys.stdout`` and ``sys.stderr`` first.
    #[pyo3(signature = (code=1))]
    fn abort(&self, py: Python<'_>, code: i32) -> PyResult<()> {
        let open = self.open()?;
        let comm = open.comm();
        let streams = py.import("sys")?;
        for stream in ["stdout", "stderr"] {
            // A closed stream must not keep the job alive.
            let _ = streams
                .getattr(stream)
                .and_then(|stream| stream.call_method0("flush"));
        }
        py.detach(|| comm.abort(code))
    }

    /// Leaves the job; the other ranks get an error in their next call. Shared arrays stay usable.
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
