"""Distributes some work and prints the exact bits of the results: the twin of the example ``hello`` in Rust.

Prints the same on every backend: alone, or as ``python -m cobre_comm.run -n 4 hello.py``.
"""

import functools
import math
import operator
from collections.abc import Iterable

import cobre_comm as cc
import numpy as np

ROOTS = 1000
"""How many square roots the ranks compute together."""


def add(numbers: Iterable[float]) -> float:
    """Adds from left to right, as Rust does; ``sum`` keeps more digits from Python 3.12 on."""
    return functools.reduce(operator.add, numbers, 0.0)


def bits(number: float) -> int:
    """Returns the bits of a number."""
    return int(np.float64(number).view(np.uint64))


def hello(comm: cc.Communicator) -> str:
    """Returns the line of this rank."""
    rank, size = comm.rank, comm.size
    first = [ROOTS * r // size for r in range(size + 1)]

    # Every rank computes its share, and every rank gets all shares.
    mine = np.array([math.sqrt(i) for i in range(first[rank], first[rank + 1])])
    roots, _counts = comm.allgatherv(mine)
    total = add(roots.tolist())

    # The sum of the shares has the bits of a fold in rank order.
    shares = comm.allreduce(add(mine.tolist()))
    largest = comm.allreduce(max(mine.tolist(), default=0.0), op="max")
    last = mine[-1:].copy() if rank == size - 1 else np.zeros(1)
    comm.broadcast(last, root=size - 1)

    # Whether there is one copy per machine or one per rank, its contents are the same.
    table = comm.shared_array(ROOTS, np.float64)
    if comm.is_leader:
        table.part[:] = roots
    table.fence()
    folded = 0
    for root in table.array.tolist():
        folded = (folded << 1 | folded >> 63) & (1 << 64) - 1
        folded ^= bits(root)
    return (
        f"rank {rank} of {size}: sum {bits(total):016x}, of shares {bits(shares):016x}, largest {bits(largest):016x}, "
        f"last {bits(last[0]):016x}, table {folded:016x}"
    )


if __name__ == "__main__":
    with cc.connect() as comm:
        print(hello(comm))
