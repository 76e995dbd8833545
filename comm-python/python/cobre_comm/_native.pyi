from types import TracebackType
from typing import Any, Literal, NoReturn, Self, SupportsIndex, TypeAlias, TypeVar, final, overload

import numpy as np
from numpy.typing import DTypeLike, NDArray

_Op: TypeAlias = Literal["sum", "prod", "min", "max", "bitwise_or", "bitwise_and", "bitwise_xor"]
_Shape: TypeAlias = SupportsIndex | tuple[SupportsIndex, ...] | list[SupportsIndex]
_Counts: TypeAlias = list[int] | tuple[int, ...] | NDArray[np.integer[Any]]
_S = TypeVar("_S", bound=np.generic)
_T = TypeVar("_T")

__all__ = ["OPTIMISED", "Communicator", "Job", "RankEnd", "SharedArray", "connect"]

OPTIMISED: bool

@final
class Communicator:
    """Performs collective operations among the ranks of one job.

    All ranks call the same methods in the same order, with matching arguments. If a rank dies or never makes a call, the others get an error that
    names it. Arguments are checked before any data is sent: if they are invalid, the other ranks get ``Refused``, and the communicator stays usable.

    While a call waits, other Python threads run; they must not change the arrays that the call uses. If a second thread calls a collective of the
    same communicator meanwhile, it gets ``Refused``.

    A communicator is a context manager that closes itself:

    >>> import cobre_comm as cc
    >>> with cc.connect("local") as comm:
    ...     comm.rank, comm.size, comm.backend
    (0, 1, 'local')
    """

    @property
    def rank(self) -> int:
        """The rank of this process, counted from 0."""
    @property
    def size(self) -> int:
        """The number of ranks."""
    @property
    def backend(self) -> str:
        """The name of the backend: ``"shm"``, ``"tcp"`` or ``"local"``."""
    @property
    def is_leader(self) -> bool:
        """Whether this rank owns the shared arrays of its machine. With a backend without shared memory, every rank has its own copy and is its leader."""
    @overload
    def allgather(self, x: NDArray[_S] | _S, out: NDArray[_S] | None = None) -> NDArray[_S]:
        """Gathers arrays of one shape and dtype; the result has a new first axis, one entry for each rank.

        ``x`` is an array or a number. The result goes to ``out``, if it is given. The dtype and the number of elements must be the same on all ranks;
        both are checked.

        >>> import numpy as np
        >>> import cobre_comm as cc
        >>> cc.connect("local").allgather(np.array([1, 2]))
        array([[1, 2]])
        """
    @overload
    def allgather(self, x: Any, out: Any | None = None) -> NDArray[Any]: ...
    @overload
    def allgatherv(
        self, send: NDArray[_S], counts: _Counts | None = None, out: NDArray[_S] | None = None
    ) -> tuple[NDArray[_S], NDArray[np.intp]]:
        """Gathers arrays that may differ in the length of their first axis; returns them concatenated in rank order, and the lengths.

        ``counts`` are the lengths of all ranks, if they are known: that saves an exchange. The result goes to ``out``, if it is given.
        Without ``counts``, dtypes and shapes are checked; with ``counts``, dtypes and the size of a row.

        >>> import numpy as np
        >>> import cobre_comm as cc
        >>> everything, counts = cc.connect("local").allgatherv(np.array([1.5, 2.5]))
        >>> everything, counts
        (array([1.5, 2.5]), array([2]))
        """
    @overload
    def allgatherv(
        self, send: Any, counts: _Counts | None = None, out: Any | None = None
    ) -> tuple[NDArray[Any], NDArray[np.intp]]: ...
    @overload
    def allreduce(self, x: NDArray[_S], op: _Op = "sum", out: NDArray[_S] | None = None) -> NDArray[_S]:
        """Combines ``x`` of all ranks, element by element, on every rank: a left fold in rank order, the same bits on every backend.

        For a number the result is a number: an ``int`` is sent as a signed 64-bit integer, a ``float`` as float64, a numpy number with its own dtype. For
        an array the result is an array of the same dtype: int8 to int64, uint8 to uint64, float32 or float64. ``op`` is ``"sum"``, ``"prod"``, ``"min"``,
        ``"max"``, ``"bitwise_or"``, ``"bitwise_and"`` or ``"bitwise_xor"``; sums and products of integers wrap. The result goes to ``out``, if it is given;
        ``out`` may be ``x``.

        >>> import numpy as np
        >>> import cobre_comm as cc
        >>> comm = cc.connect("local")
        >>> comm.allreduce(2.5), comm.allreduce(np.array([3, 4], dtype=np.int32), op="max")
        (2.5, array([3, 4], dtype=int32))
        """
    @overload
    def allreduce(self, x: _S, op: _Op = "sum") -> _S: ...
    @overload
    def allreduce(self, x: int, op: _Op = "sum") -> int: ...
    @overload
    def allreduce(self, x: float, op: _Op = "sum") -> float: ...
    @overload
    def allreduce(self, x: Any, op: _Op = "sum", out: Any | None = None) -> NDArray[Any]: ...
    @overload
    def exact_sum(self, x: Any, axis: None = None) -> float:
        """Adds up all elements of ``x`` of all ranks without rounding errors, and rounds once: the same bits however the elements are split over ranks.

        ``x`` is an array or a number: float64, float32, or integers of up to 32 bits. With ``axis=0`` the result has one sum per column, over the
        rows of all ranks, in one exchange; the ranks may have different numbers of rows.

        >>> import numpy as np
        >>> import cobre_comm as cc
        >>> comm = cc.connect("local")
        >>> comm.exact_sum(np.array([1e100, 1.0, -1e100]))
        1.0
        >>> comm.exact_sum(np.array([[1e100, 0.5], [1.0, 0.25], [-1e100, 0.0]]), axis=0)
        array([1.  , 0.75])
        """
    @overload
    def exact_sum(self, x: Any, axis: Literal[0]) -> NDArray[np.float64]: ...
    def broadcast(self, array: Any, root: int = 0) -> None:
        """Sends the contents of ``array`` of ``root`` to every rank, in place.

        The number of elements and the dtype must be the same on all ranks; both are checked.

        >>> import numpy as np
        >>> import cobre_comm as cc
        >>> seeds = np.array([7, 8])
        >>> cc.connect("local").broadcast(seeds, root=0)
        >>> seeds
        array([7, 8])
        """
    def barrier(self) -> None:
        """Waits until every rank has called it."""
    @overload
    def broadcast_object(self, object: None = None, root: int = 0) -> Any:
        """Sends an object of ``root`` to every rank, pickled, and returns it.

        The other ranks may omit ``object``.

        >>> import cobre_comm as cc
        >>> cc.connect("local").broadcast_object({"seed": 7})
        {'seed': 7}
        """
    @overload
    def broadcast_object(self, object: _T | None, root: int = 0) -> _T: ...
    def allgather_object(self, object: _T) -> list[_T]:
        """Gathers one object from every rank, pickled; returns them in rank order.

        >>> import cobre_comm as cc
        >>> cc.connect("local").allgather_object(7)
        [7]
        """
    def split_local(self) -> Communicator:
        """Creates a communicator of the ranks that share memory with this one. Its calls are independent of those of this communicator.

        Over ``"shm"`` it has all ranks. Over ``"tcp"`` ranks never share memory, not even on one machine, so it has only this
        rank.
        """
    def shared_array(self, shape: _Shape, dtype: DTypeLike = "float64") -> SharedArray:
        """Creates an array that all ranks of a machine share: a single copy, which the leader writes; see ``SharedArray``.

        Over ``"tcp"`` ranks do not share memory: every rank has its own copy, and writes it.

        ``shape`` is a number or a tuple, ``dtype`` any dtype without objects (default: float64).
        """
    def partitioned_array(self, shape: _Shape, dtype: DTypeLike = "float64") -> SharedArray:
        """Creates an array that all ranks of a machine share, in which each rank writes its own rows; see ``SharedArray``.

        ``shape`` is the shape of this rank's rows: the first length may differ between ranks. The whole array has the rows of all ranks, in rank
        order. Over ``"tcp"`` ranks do not share memory, so the whole array has only the rows of this rank; use ``gathered_array`` for those of all.

        >>> import cobre_comm as cc
        >>> points = cc.connect("local").partitioned_array((2, 3))
        >>> points.part[:] = 1.0
        >>> points.fence()
        >>> points.array.shape
        (2, 3)
        """
    def gathered_array(self, shape: _Shape, dtype: DTypeLike = "float64") -> SharedArray:
        """Creates an array of the whole job, in which each rank writes its own rows and reads all of them; see ``SharedArray``.

        ``shape`` is the shape of this rank's rows: the first length may differ between ranks. The whole array has the rows of all ranks, in rank order,
        with one copy per machine if the ranks share memory. Unlike ``allgatherv``, ``exchange`` then copies nothing: on one machine it takes as
        long as a ``barrier``, whatever the size.

        >>> import cobre_comm as cc
        >>> comm = cc.connect("local")
        >>> points = comm.gathered_array((2, 3))
        >>> points.part[:] = 1.0
        >>> comm.exchange(points)
        >>> points.array.sum()
        np.float64(6.0)
        >>> points.fence()
        """
    def exchange(self, array: SharedArray) -> None:
        """Ends the write phase of a ``gathered_array`` on every rank of the job; then every rank can read the rows of all ranks.

        A collective of this communicator. Raises ``BufferError`` as long as views of the phase exist, and ``Refused`` for an array that is not
        gathered or is in its read phase. The other ranks then get ``Refused``, the phase continues on all ranks, and ``exchange`` can be called again.
        """
    def abort(self, code: int = 1) -> NoReturn:
        """Ends this process with ``code``, and the whole job with it; exit handlers do not run.

        Flushes ``sys.stdout`` and ``sys.stderr`` first.
        """
    def close(self) -> None:
        """Leaves the job; the other ranks get an error in their next call. Shared arrays stay usable."""
    def __enter__(self) -> Self: ...
    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None: ...

@final
class SharedArray:
    """An array in memory that the ranks of one machine share, with alternating write and read phases.

    It begins in a write phase, filled with zeros. Every ``fence`` ends the phase on all ranks of the machine; values written before it can be read
    after it. In a write phase ``part`` is the part that this rank owns; in a read phase ``array`` is the whole array, read-only. Both are views, not
    copies, and a view must not outlive its phase: ``fence`` raises ``BufferError`` as long as one exists.

    >>> import cobre_comm as cc
    >>> comm = cc.connect("local")
    >>> table = comm.shared_array((2, 3), "float64")
    >>> table.part[0] = 1.5
    >>> table.fence()
    >>> table.array.sum()
    np.float64(4.5)
    """

    @property
    def part(self) -> NDArray[Any]:
        """The part that this rank may write in a write phase: all of a shared array on the leader and nothing on the other ranks, or this rank's rows of
        a partitioned or gathered array.
        """
    @property
    def array(self) -> NDArray[Any]:
        """The whole array, read-only, in a read phase."""
    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the whole array, as ``array`` has it in a read phase."""
    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype of the elements."""
    @property
    def phase(self) -> str:
        """The phase: ``"write"`` or ``"read"``."""
    def fence(self) -> None:
        """Ends the phase on every rank of the machine; values written before it can be read after it.

        Raises ``BufferError`` as long as views of the phase exist: then nothing is sent, the phase continues, and ``fence`` can be called again.

        >>> import cobre_comm as cc
        >>> table = cc.connect("local").shared_array(3, "int64")
        >>> mine = table.part
        >>> table.fence()
        Traceback (most recent call last):
            ...
        BufferError: fence: 1 view of the write phase is alive; delete it (del), or copy the data you need, and call fence again
        >>> del mine
        >>> table.fence()

        In the write phase of a ``gathered_array`` this raises ``Refused``: call ``exchange`` of the communicator instead.
        """

def connect(backend: str | None = None, **settings: str | int | float | bool) -> Communicator:
    """Joins the job that the environment describes, and returns its communicator.

    Without ``backend``, the environment variables of the launcher select it; a program that is started alone gets ``"local"``, with one rank.
    ``backend`` is ``"shm"``, ``"tcp"`` or ``"local"``. A setting replaces the environment variable of that name: ``size=4`` replaces
    ``COBRE_SHM_SIZE`` or ``COBRE_TCP_SIZE``. ``timeout`` and ``connect_timeout`` are in seconds; a timeout of 0 means no timeout.

    | backend | settings |
    |---|---|
    | shm | name, rank, size, timeout, connect_timeout, job_id |
    | tcp | coordinator, port, rank, size, timeout, connect_timeout, bind_addr, worker_ports, secret, secret_file, insecure, encrypt, listen_fd, job_id |

    >>> import cobre_comm as cc
    >>> cc.connect("local")
    <cobre_comm.Communicator rank 0 of 1 on local>
    """

@final
class RankEnd:
    """How a rank of a job ended."""

    @property
    def code(self) -> int | None: ...
    @property
    def signal(self) -> int | None: ...
    @property
    def asked(self) -> bool: ...
    @property
    def seconds(self) -> float: ...
    @property
    def output(self) -> str: ...

@final
class Job:
    """A running job; dropping it ends the job."""

    def __new__(cls, command: list[str], ranks: int, backend: str, timeout: float | None, call: list[bytes]) -> Self: ...
    def read(self) -> list[tuple[int, bool, bytes, bool]] | None: ...
    def stop(self, kill: bool) -> None: ...
    @property
    def pids(self) -> list[int]: ...
    def wait(self) -> tuple[bool, int | None, list[RankEnd]]: ...
    def take_record(self, rank: int) -> int: ...
    def take_stack(self, rank: int) -> int: ...
