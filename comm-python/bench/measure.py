"""Times collectives between these ranks and prints a line per row, like the example ``timings`` in Rust.

``measure.py cobre_comm SECONDS ROW..`` or ``measure.py mpi4py SECONDS ROW..``, where a row is ``barrier``, ``allreduce:BYTES`` or
``allgatherv:BYTES`` and takes about that long. Every rank times every call; a call takes as long as on its slowest
rank; the figure is the median over the calls.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from time import perf_counter_ns
from typing import Any

import numpy as np

Call = Callable[[], Any]
# The same as in the Rust example.
MOST_CALLS = 20_000
FEWEST_CALLS = 5
LOOK = 0.2


class Ours:
    """The package ``cobre_comm``."""

    def __init__(self) -> None:
        import cobre_comm

        self.comm = cobre_comm.connect()
        self.rank, self.size = self.comm.rank, self.comm.size

    def call(self, name: str, size: int) -> Call:
        """Returns a call with its buffers."""
        comm = self.comm
        if name == "barrier":
            return comm.barrier
        if name == "allreduce":
            send, recv = np.ones(size // 8), np.empty(size // 8)
            return lambda: comm.allreduce(send, out=recv)
        part, whole = np.ones(size // self.size, np.uint8), np.empty(size, np.uint8)
        counts = [len(part)] * self.size
        return lambda: comm.allgatherv(part, counts, whole)

    def largest(self, times: Any) -> Any:
        """Returns the maximum over all ranks, element by element."""
        return self.comm.allreduce(times, op="max")


class Theirs:
    """mpi4py, with the calls that take buffers."""

    def __init__(self) -> None:
        from mpi4py import MPI

        self.mpi: Any = MPI
        self.comm: Any = MPI.COMM_WORLD
        self.rank, self.size = self.comm.rank, self.comm.size

    def call(self, name: str, size: int) -> Call:
        """Returns a call with its buffers."""
        comm = self.comm
        if name == "barrier":
            barrier: Call = comm.Barrier
            return barrier
        if name == "allreduce":
            send, recv = np.ones(size // 8), np.empty(size // 8)
            return lambda: comm.Allreduce(send, recv)
        part, whole = np.ones(size // self.size, np.uint8), np.empty(size, np.uint8)
        counts = [len(part)] * self.size
        return lambda: comm.Allgatherv(part, [whole, counts])

    def largest(self, times: Any) -> Any:
        """Returns the maximum over all ranks, element by element."""
        result = np.empty_like(times)
        self.comm.Allreduce(times, result, op=self.mpi.MAX)
        return result


def measure(world: Ours | Theirs, row: str, seconds: float) -> float:
    """Returns the microseconds of a call."""
    name, _, size = row.partition(":")
    call = world.call(name, int(size or 0))
    call()
    # Also warms up the code that measures.
    look = calls_for(world, call, FEWEST_CALLS, LOOK * seconds)
    calls = calls_for(world, call, look, seconds)
    entries, returns = [0] * calls, [0] * calls
    for number in range(calls):
        entries[number] = perf_counter_ns()
        call()
        returns[number] = perf_counter_ns()
    slowest = world.largest(np.array(returns) - np.array(entries))
    return float(np.median(slowest)) / 1000


def calls_for(world: Ours | Theirs, call: Call, tried: int, seconds: float) -> int:
    """Agrees with the other ranks on how many calls fill the time, from the time of a few calls."""
    start = perf_counter_ns()
    for _ in range(tried):
        call()
    each = (perf_counter_ns() - start) / tried
    wanted = min(max(seconds * 1e9 / each, FEWEST_CALLS), MOST_CALLS)
    return int(world.largest(np.array([wanted], dtype=np.float64))[0])


def main() -> None:
    """Measures the rows; rank 0 prints."""
    world = Ours() if sys.argv[1] == "cobre_comm" else Theirs()
    seconds = float(sys.argv[2])
    # Otherwise the first row would include the cost of starting the ranks.
    measure(world, "barrier", seconds)
    for row in sys.argv[3:]:
        median = measure(world, row, seconds)
        if world.rank == 0:
            print(f"timing,{row},{median:.3f}", flush=True)


if __name__ == "__main__":
    main()
