"""Shared arrays in their phases."""

from __future__ import annotations

import gc
import itertools
from typing import Any

import cobre_comm as cc
import numpy as np
import pytest
import worlds


def owners(comm: cc.Communicator) -> int:
    """Returns how many ranks have a part of the array that this rank sees."""
    return comm.size if comm.backend == "shm" else 1


def check_the_leader_writes_and_all_read(comm: cc.Communicator) -> None:
    table = comm.shared_array((4, 3), np.float64)
    assert table.phase == "write"
    assert table.dtype == np.float64
    for turn in range(3):
        if comm.is_leader:
            assert table.part.shape == (4, 3)
            assert (table.part == turn).all()
            table.part[:] = turn + 1
        else:
            assert table.part.shape == (0, 3)
            table.part[:] = 99
        table.fence()
        assert table.phase == "read"
        assert table.array.shape == (4, 3)
        assert (table.array == turn + 1).all()
        table.fence()


def check_every_rank_writes_its_rows(comm: cc.Communicator) -> None:
    rows = comm.partitioned_array((comm.rank + 1, 2), np.int16)
    rows.part[:] = comm.rank
    assert rows.part.shape == (comm.rank + 1, 2)
    rows.fence()
    mine = [comm.rank] if owners(comm) == 1 else range(comm.size)
    assert rows.array.tolist() == [[rank] * 2 for rank in mine for _ in range(rank + 1)]
    empty = comm.partitioned_array((comm.rank, 0))
    assert empty.part.shape == (comm.rank, 0)
    empty.fence()
    assert empty.array.shape == (sum(mine), 0)


def check_all_ranks_read_what_all_wrote(comm: cc.Communicator) -> None:
    rows = comm.gathered_array((comm.rank, 2), np.int16)
    for turn in range(3):
        assert rows.part.shape == (comm.rank, 2)
        rows.part[:] = comm.rank + turn
        comm.exchange(rows)
        assert rows.phase == "read"
        assert rows.array.tolist() == [[rank + turn] * 2 for rank in range(comm.size) for _ in range(rank)]
        assert not rows.array.flags.writeable
        rows.fence()
        assert rows.phase == "write"
    empty = comm.gathered_array((comm.rank, 0))
    comm.exchange(empty)
    assert empty.array.shape == (sum(range(comm.size)), 0)


def check_a_gathered_array_names_the_right_call(comm: cc.Communicator) -> None:
    rows = comm.gathered_array(2)
    rows.part[:] = 1
    with pytest.raises(cc.Refused, match=r"exchange\(\)"):
        rows.fence()
    with pytest.raises(RuntimeError, match=r"^array: .* call exchange of its communicator"):
        _ = rows.array
    # Only this rank refused the fence: nothing was sent, and the phase continues.
    rows.part[0] = 2
    comm.exchange(rows)
    with pytest.raises(cc.Refused, match=r"fence\(\)"):
        comm.exchange(rows)
    assert rows.array.tolist() == [2, 1] * comm.size
    with pytest.raises(cc.Refused, match="create_gathered_region"):
        comm.exchange(comm.shared_array(2))
    with pytest.raises(ValueError, match=r"^shape: a gathered array has at least one axis"):
        comm.gathered_array(())
    assert comm.allreduce(1) == comm.size


def check_an_exchange_is_refused_while_a_view_is_alive(comm: cc.Communicator) -> None:
    rows = comm.gathered_array(3, np.int64)
    kept = rows.part
    kept[:] = comm.rank
    if comm.rank == 0:
        with pytest.raises(BufferError, match=r"^exchange: 1 view of the write phase is alive; delete it"):
            comm.exchange(rows)
    else:
        del kept
        with pytest.raises(cc.Refused, match="1 view of the write phase is alive") as refused:
            comm.exchange(rows)
        assert refused.value.rank == 0
    # The phase continues on all ranks, with the values written so far.
    rows.part[1] += 10
    if comm.rank == 0:
        kept[2] += 10
        del kept
        rows.part[2] -= 10
    comm.exchange(rows)
    wanted = [[rank, rank + 10, rank] for rank in range(comm.size)]
    assert rows.array.reshape(-1, 3).tolist() == wanted


def check_the_shape_is_that_of_everything_in_every_phase(comm: cc.Communicator) -> None:
    shared = comm.shared_array((2, 3))
    rows = comm.partitioned_array((comm.rank, 2))
    gathered = comm.gathered_array((comm.rank, 2))
    of_machine = sum(range(comm.size)) if comm.backend == "shm" else comm.rank
    expected = [(2, 3), (of_machine, 2), (sum(range(comm.size)), 2)]
    assert [array.shape for array in (shared, rows, gathered)] == expected
    shared.fence()
    rows.fence()
    comm.exchange(gathered)
    assert [array.shape for array in (shared, rows, gathered)] == expected
    assert [array.array.shape for array in (shared, rows, gathered)] == expected
    assert comm.shared_array(()).shape == ()


def check_an_exchange_of_something_else_is_refused(comm: cc.Communicator) -> None:
    rows = comm.gathered_array(2)
    rows.part[:] = comm.rank
    others: list[tuple[Any, str]] = [(None, "None"), (np.ones(2), "a numpy.ndarray"), ([1.0, 2.0], "a list")]
    for other, described in others:
        if comm.rank == 0:
            words = rf"^array: {described} is no shared array; pass the array that gathered_array returned"
            with pytest.raises(TypeError, match=words):
                comm.exchange(other)
        else:
            with pytest.raises(cc.Refused, match=rf"array: {described} is no shared array") as refused:
                comm.exchange(rows)
            assert refused.value.rank == 0
    comm.exchange(rows)
    assert rows.array.tolist() == [rank for rank in range(comm.size) for _ in range(2)]


def check_a_view_keeps_the_phase(comm: cc.Communicator) -> None:
    table = comm.partitioned_array(5, np.int32)
    first, second = table.part, table.part[1:3]
    with pytest.raises(BufferError, match=r"^fence: 2 views of the write phase are alive; delete them"):
        table.fence()
    del first
    with pytest.raises(BufferError, match=r"^fence: 1 view of the write phase is alive; delete it"):
        table.fence()
    # Nothing was sent, the phase continues, and the view stays valid.
    second[:] = comm.rank
    assert comm.allreduce(1) == comm.size
    del second
    table.fence()
    kept = memoryview(table.array)  # type: ignore[arg-type]
    with pytest.raises(BufferError, match=r"1 view of the read phase"):
        table.fence()
    kept.release()
    table.fence()


def check_views_that_only_garbage_holds_are_none(comm: cc.Communicator) -> None:
    table = comm.shared_array(3)
    gc.disable()
    try:
        ring: list[Any] = [table.part]
        ring.append(ring)
        del ring
        table.fence()
    finally:
        gc.enable()


def check_a_view_outlives_everything_else(comm: cc.Communicator) -> None:
    table = comm.partitioned_array(1000)
    mine = table.part
    del table
    gc.collect()
    mine[:] = 1.5
    assert mine.sum() == 1500


def check_the_wrong_phase_is_named(comm: cc.Communicator) -> None:
    table = comm.shared_array(3)
    with pytest.raises(RuntimeError, match=r"^array: the array is in a write phase, which has part; call fence"):
        _ = table.array
    table.fence()
    with pytest.raises(RuntimeError, match=r"^part: the array is in a read phase, which has array; call fence"):
        _ = table.part
    with pytest.raises(ValueError, match=r"read-only"):
        table.array[0] = 1.0
    with pytest.raises(ValueError, match=r"WRITEABLE"):
        table.array.flags.writeable = True


def check_shapes_and_dtypes(comm: cc.Communicator) -> None:
    shapes: list[Any] = [(), 0, 3, (2, 3), (2, 0), (0, 2), [1, 2, 3]]
    dtypes: list[Any] = ["i1", "f2", "f4", "f8", "c16", ">i8", "M8[s]", "U3", [("a", "u1"), ("b", "f8")], "?", "S5"]
    for shape, dtype in itertools.product(shapes, dtypes):
        table = comm.shared_array(shape, dtype)
        if comm.is_leader:
            assert table.part.flags.aligned
            assert table.part.shape == np.empty(shape).shape
        table.fence()
        assert table.array.shape == np.empty(shape).shape
        assert table.array.dtype == np.dtype(dtype)
        assert not table.array.flags.writeable
        assert (table.array == np.zeros((), dtype)).all()


def check_rows_of_other_shapes_do_not_match(comm: cc.Communicator) -> None:
    if owners(comm) == 1:
        return
    for shape, dtype in [((3, 2 + comm.rank), "f8"), ((3, 2), f"i{4 if comm.rank else 8}"), ((3, 2), "f8" if comm.rank else "i8")]:
        with pytest.raises(cc.Mismatch, match=r"its array differs from that of rank 0") as told:
            comm.partitioned_array(shape, dtype)
        assert told.value.operation == "partitioned_array"
    with pytest.raises(cc.Mismatch):
        comm.shared_array(3 + comm.rank)
    assert comm.allreduce(1) == comm.size


def check_arrays_outlive_the_communicator(comm: cc.Communicator) -> None:
    # The communicator of the machine is closed, but the array stays.
    table = comm.partitioned_array(2)
    machine = comm.split_local()
    for call in (machine.split_local, lambda: machine.shared_array(3), lambda: machine.partitioned_array(3)):
        with pytest.raises(ValueError, match=r"came from split_local; call .* on the one that connect returned"):
            call()
    machine.close()
    with pytest.raises(ValueError, match=r"^the communicator is closed"):
        machine.barrier()
    machine.close()
    table.fence()


def check_collectives_work_on_views(comm: cc.Communicator) -> None:
    table = comm.partitioned_array(3)
    table.part[:] = comm.rank
    comm.broadcast(table.part)
    assert (table.part == 0).all()
    comm.allreduce(np.ones(3), out=table.part)
    table.fence()
    assert (comm.allreduce(table.array[:3], "max") == comm.size).all()


def too_much(comm: cc.Communicator) -> None:
    with pytest.raises(MemoryError, match=r"cannot allocate"):
        comm.shared_array((2**30, 2**13), np.float64)
    assert comm.allreduce(1) == comm.size


@pytest.mark.parametrize("backend", ["shm", "tcp"])
def test_too_much_memory_is_a_memory_error_on_all_ranks(backend: str) -> None:
    cc.run(too_much, 2, backend=backend, timeout=60)


def dies(comm: cc.Communicator) -> str:
    table = comm.partitioned_array(3)
    comm.barrier()
    if comm.rank == 1:
        return ""
    with pytest.raises(cc.PeerLost) as told:
        table.fence()
    assert (told.value.rank, told.value.operation) == (1, "fence")
    with pytest.raises(RuntimeError, match=r"^part: a fence or an exchange of this array failed"):
        _ = table.part
    return str(told.value)


def test_a_fence_names_the_rank_that_is_gone() -> None:
    found = cc.run(dies, 2, timeout=60)
    assert "rank 1" in found[0]


@worlds.every(__name__)
def test_arrays(backend: str, ranks: int, name: str) -> None:
    worlds.judge(__name__, backend, ranks, name)
