"""A shared array is in memory once, and an argument once in each rank."""

from __future__ import annotations

import re
from pathlib import Path

import calls
import cobre_comm as cc
import numpy as np
import pytest

MEGABYTE = 1_000_000


def share() -> int:
    """Returns this process's share of the memory it uses: a page that four processes share counts a quarter."""
    rollup = Path("/proc/self/smaps_rollup").read_text()
    found = re.search(r"^Pss:\s+(\d+) kB", rollup, re.MULTILINE)
    assert found is not None
    return int(found[1]) * 1024


def growth(comm: cc.Communicator, size: int) -> int:
    """Returns how much the share of this rank grows while all ranks read the whole array."""
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


@pytest.mark.parametrize("argument", [bytes(200 * MEGABYTE), np.zeros(200 * MEGABYTE, np.uint8)], ids=["bytes", "array"])
def test_an_argument_lies_in_a_rank_once(argument: object) -> None:
    (small,) = cc.run(calls.peak, ranks=1, args=(b"small",), timeout=120)
    for size, most in cc.run(calls.peak, ranks=2, args=(argument,), timeout=120):
        assert size == 200 * MEGABYTE
        assert 0.9 * size < most - small[1] < 1.2 * size
