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

    All ranks call the same methods in the same order, with arguments that agree. A rank that dies or stays away becomes an error on the others
    that names it. Arguments are checked before anything is sent; the other ranks get ``Refused``, and the communicator stays usable.

    While a call waits, other threads of Python run; they must not change the arrays that the call works on. A second thread inside a
    collective of one communicator is refused.

    A communicator is a context manager that closes itself:

    >>> import cobre_comm as cc
    >>> with cc.connect("local") as comm:
    ...     comm.rank, comm.size, comm.backend
    (0, 1, 'local')
    """

    @property
    def rank(self) -> int:
        """The rank of this process, from 0 on."""
    @property
    def size(self) -> int:
        """The number of ranks."""
    @property
    def backend(self) -> str:
        """The name of the backend: ``"shm"``, ``"tcp"`` or ``"local"``."""
    @property
    def is_leader(self) -> bool:
        """Whether this rank owns the shared arrays of its machine. With a backend that has no shared memory, every rank has a copy and leads it."""
    @overload
    def allgather(self, x: NDArray[_S] | _S, out: NDArray[_S] | None = None) -> NDArray[_S]:
        """Gathers arrays of one shape and dtype; the result has a new first axis, one entry for each rank.

        ``x`` is an array or a number. ``out`` is where the result goes, if it is given. The ranks must agree on the dtype and the number of elements;
        both are compared.

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
        """Gathers arrays that differ in the length of their first axis; returns them one after the other, in rank order, and the lengths.

        ``counts`` are the lengths of all ranks, where they are known: that saves an exchange. ``out`` is where the result goes, if it is given.
        Without ``counts`` dtypes and shapes are compared, with them the dtypes and the size of a row.

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

        A number gives a number: an ``int`` travels as 64 bits with a sign, a ``float`` as float64, a number of numpy as what it is. An array gives an
        array of its dtype: int8 to int64, uint8 to uint64, float32, float64. ``op`` is ``"sum"``, ``"prod"``, ``"min"``, ``"max"``,
        ``"bitwise_or"``, ``"bitwise_and"`` or ``"bitwise_xor"``; sums and products of integers wrap. ``out`` is where the result goes, if it is given; it may be ``x`` itself.

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

        ``x`` is an array, or a number: float64, float32, or integers of up to 32 bits. With ``axis=0`` each column is a sum of its own, over the
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

        The ranks must agree on the number of elements and on the dtype; both are compared.

        >>> import numpy as np
        >>> import cobre_comm as cc
        >>> seeds = np.array([7, 8])
        >>> cc.connect("local").broadcast(seeds, root=0)
        >>> seeds
        array([7, 8])
        """
    def barrier(self) -> None:
        """Waits until every rank has entered."""
    @overload
    def broadcast_object(self, object: None = None, root: int = 0) -> Any:
        """Sends an object of ``root`` to every rank, pickled, and returns it.

        The other ranks may leave ``object`` away.

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
        """Creates a communicator of the ranks that share memory with this one, with a sequence of calls of its own.

        Over ``"shm"`` these are all ranks. Over ``"tcp"`` every rank has memory of its own, on one machine as well: the communicator has this rank
        alone.
        """
    def shared_array(self, shape: _Shape, dtype: DTypeLike = "float64") -> SharedArray:
        """Creates an array that all ranks of a machine share, one copy, which the leader writes; see ``SharedArray``.

        Over ``"tcp"`` every rank has memory of its own: each has a copy, and writes it.

        ``shape`` is a number or a tuple, ``dtype`` any dtype without objects (float64 if it is left away).
        """
    def partitioned_array(self, shape: _Shape, dtype: DTypeLike = "float64") -> SharedArray:
        """Creates an array that all ranks of a machine share, of which each writes rows of its own; see ``SharedArray``.

        ``shape`` is that of the rows of this rank: the first length may differ between ranks. The whole has the rows of all, in rank order.
        Over ``"tcp"`` every rank has memory of its own, and the whole has the rows of this rank alone; ``gathered_array`` has those of all.

        >>> import cobre_comm as cc
        >>> points = cc.connect("local").partitioned_array((2, 3))
        >>> points.part[:] = 1.0
        >>> points.fence()
        >>> points.array.shape
        (2, 3)
        """
    def gathered_array(self, shape: _Shape, dtype: DTypeLike = "float64") -> SharedArray:
        """Creates an array of the whole job, of which each rank writes rows of its own and all read all; see ``SharedArray``.

        ``shape`` is that of the rows of this rank: the first length may differ between ranks. The whole has the rows of all ranks, in rank order,
        once per machine where memory is shared. What an ``allgatherv`` copies to every rank, ``exchange`` only shows: on one machine it takes as
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
        """Ends the write phase of a ``gathered_array`` on every rank of the job: what any rank wrote, all can read.

        A collective of this communicator. Raises ``BufferError`` as long as views of the phase are alive, and ``Refused`` for an array that is not
        gathered or in its read phase: the others get ``Refused``, the phase goes on for all, and ``exchange`` can be called again.
        """
    def abort(self, code: int = 1) -> NoReturn:
        """Ends this process with ``code`` and the job with it; no handler at exit runs.

        What was printed is flushed first.
        """
    def close(self) -> None:
        """Leaves the job; the other ranks find it lost in their next call. Shared arrays stay usable."""
    def __enter__(self) -> Self: ...
    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None: ...

@final
class SharedArray:
    """An array in memory that the ranks of one machine share, in phases.

    It begins in a write phase, filled with zeros. Every ``fence`` ends the phase on all ranks of the machine: what was written before is read
    after it. In a write phase ``part`` is what this rank owns; in a read phase ``array`` is everything, read-only. Both are views without a
    copy, and a view must not outlive its phase: ``fence`` raises ``BufferError`` as long as there is one.

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
        """What this rank owns, to be written, in a write phase: all of a shared array on its leader and nothing on the others, the own rows of a
        partitioned or a gathered one.
        """
    @property
    def array(self) -> NDArray[Any]:
        """Everything, read-only, in a read phase."""
    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of everything: what ``array`` has in a read phase."""
    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype of the elements."""
    @property
    def phase(self) -> str:
        """The phase: ``"write"`` or ``"read"``."""
    def fence(self) -> None:
        """Ends the phase on every rank of the machine: what was written before is read after it.

        Raises ``BufferError`` as long as views of the phase are alive: nothing is sent, the phase goes on, and ``fence`` can be called again.

        >>> import cobre_comm as cc
        >>> table = cc.connect("local").shared_array(3, "int64")
        >>> mine = table.part
        >>> table.fence()
        Traceback (most recent call last):
            ...
        BufferError: fence: 1 view of the write phase is alive; delete it (del), or copy what is needed, and call fence again
        >>> del mine
        >>> table.fence()

        The write phase of a ``gathered_array`` ends with ``exchange`` of its communicator instead, and this raises ``Refused`` in it.
        """

def connect(backend: str | None = None, **settings: str | int | float | bool) -> Communicator:
    """Joins the job that the environment describes, and returns its communicator.

    Without ``backend`` the environment decides, as the launcher set it up; a program that is started alone gets ``"local"``, one rank. ``backend``
    is ``"shm"``, ``"tcp"`` or ``"local"``. A setting takes the place of the environment variable of that name: ``size=4`` that of
    ``COBRE_SHM_SIZE`` or ``COBRE_TCP_SIZE``. ``timeout`` and ``connect_timeout`` are in seconds; a timeout of 0 means never.

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
    """A job that runs; ends when it is dropped."""

    def __new__(cls, command: list[str], ranks: int, backend: str, timeout: float | None, call: list[bytes]) -> Self: ...
    def read(self) -> list[tuple[int, bool, bytes, bool]] | None: ...
    def stop(self, kill: bool) -> None: ...
    @property
    def pids(self) -> list[int]: ...
    def wait(self) -> tuple[bool, int | None, list[RankEnd]]: ...
    def take_record(self, rank: int) -> int: ...
    def take_stack(self, rank: int) -> int: ...
