"""A shared array lies in memory once."""

from __future__ import annotations

import re
from pathlib import Path

import cobre_comm as cc
import numpy as np

MEGABYTE = 1_000_000


def share() -> int:
    """Returns this process's share of the memory it uses: a page of four processes counts a quarter."""
    rollup = Path("/proc/self/smaps_rollup").read_text()
    found = re.search(r"^Pss:\s+(\d+) kB", rollup, re.MULTILINE)
    assert found is not None
    return int(found[1]) * 1024


def growth(comm: cc.Communicator, size: int) -> int:
    """Returns by how much the share of this rank grows when all ranks have read all of the array."""
    comm.barrier()
    before = share()
    comm.barrier()
    table = comm.shared_array(size // 8, np.float64)
    if comm.is_leader:
        table.part[:] = 1.0
    table.fence()
    assert table.array.sum() == size // 8
    comm.barrier()
    after = share()
    comm.barrier()
    return after - before


def test_200_megabytes_are_200_megabytes_for_four_ranks() -> None:
    total = sum(cc.run(growth, ranks=4, args=(200 * MEGABYTE,), timeout=120))
    assert 199 * MEGABYTE < total < 210 * MEGABYTE, total
