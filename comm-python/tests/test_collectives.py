"""The results of the collectives."""

from __future__ import annotations

import math
from typing import Any

import cobre_comm as cc
import numpy as np
import pytest
import worlds

SCALARS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float32", "float64"]


def everybody(comm: cc.Communicator) -> list[int]:
    return list(range(comm.size))


def check_every_scalar_is_reduced_as_itself(comm: cc.Communicator) -> None:
    for dtype in SCALARS:
        mine = np.array([comm.rank + 1, 3], dtype=dtype)
        total = comm.allreduce(mine)
        assert total.dtype == mine.dtype
        assert total.tolist() == [sum(everybody(comm)) + comm.size, 3 * comm.size]
        assert comm.allreduce(mine, "min").tolist() == [1, 3]
        assert comm.allreduce(mine, op="max").tolist() == [comm.size, 3]
        assert comm.allreduce(mine, op="prod").tolist() == [math.factorial(comm.size), 3**comm.size]


def check_bits_are_combined(comm: cc.Communicator) -> None:
    mine = np.array([1 << comm.rank, 7], dtype=np.uint16)
    assert comm.allreduce(mine, "bitwise_or").tolist() == [(1 << comm.size) - 1, 7]
    assert comm.allreduce(mine, "bitwise_and").tolist() == [1 if comm.size == 1 else 0, 7]
    assert comm.allreduce(mine, "bitwise_xor").tolist() == [(1 << comm.size) - 1, 7 * (comm.size % 2)]


def check_a_number_gives_a_number(comm: cc.Communicator) -> None:
    for number in (1.5, 3, np.float32(1.5), np.float64(1.5), np.int8(3), np.uint64(2**63)):
        largest: Any = comm.allreduce(number, "max")
        assert type(largest) is type(number)
        assert largest == number
    assert comm.allreduce(comm.rank) == sum(everybody(comm))
    assert comm.allreduce(-(2**63), "min") == -(2**63)


def check_an_exact_sum_has_the_bits_of_one_rank(comm: cc.Communicator) -> None:
    everything = np.random.default_rng(1).standard_normal(5000) * 10.0 ** (np.arange(5000) % 60)
    mine = np.array_split(everything, comm.size)[comm.rank]
    assert comm.exact_sum(mine) == math.fsum(everything)
    unaligned = np.frombuffer(b"x" + mine.tobytes(), np.uint8)[1:].view(np.float64)
    assert comm.exact_sum(unaligned) == math.fsum(everything)
    assert comm.exact_sum(np.float32(0.1)) == math.fsum([float(np.float32(0.1))] * comm.size)
    assert comm.exact_sum(np.array([comm.rank], dtype=np.uint8)) == sum(everybody(comm))


def check_exact_sums_of_columns_have_the_bits_of_one_rank(comm: cc.Communicator) -> None:
    everything = np.random.default_rng(2).standard_normal((500, 2, 3)) * 10.0 ** (np.arange(3000).reshape(500, 2, 3) % 60)
    # The ranks have different numbers of rows, and the last one has none if there are others.
    lengths = [0] * comm.size
    lengths[: max(1, comm.size - 1)] = [len(part) for part in np.array_split(everything, max(1, comm.size - 1))]
    begin = sum(lengths[: comm.rank])
    mine = everything[begin : begin + lengths[comm.rank]]
    expected = [[math.fsum(everything[:, i, j]) for j in range(3)] for i in range(2)]
    for rows in (mine, np.frombuffer(b"x" + mine.tobytes(), np.uint8)[1:].view(np.float64).reshape(mine.shape)):
        totals = comm.exact_sum(rows, axis=0)
        assert totals.dtype == np.float64
        assert totals.tolist() == expected
    assert comm.exact_sum(everything.reshape(-1), axis=0).shape == ()
    assert comm.exact_sum(np.zeros((3, 0)), axis=0).shape == (0,)
    small = comm.exact_sum(np.array([[comm.rank, 1]] * 3, dtype=np.uint8), axis=0)
    assert small.tolist() == [3 * sum(everybody(comm)), 3 * comm.size]


def check_the_sum_is_a_left_fold_in_rank_order(comm: cc.Communicator) -> None:
    numbers = [1e16, 1.0, -1e16, 1.0]
    expected = numbers[0]
    for number in numbers[1 : comm.size]:
        expected += number
    assert comm.allreduce(numbers[comm.rank]) == expected


def check_a_sum_of_integers_wraps(comm: cc.Communicator) -> None:
    with np.errstate(over="ignore"):
        expected = np.int8(100) * np.int8(comm.size)
    assert comm.allreduce(np.array([100], dtype=np.int8))[0] == expected


def check_shapes_stay(comm: cc.Communicator) -> None:
    for shape in [(), (0,), (1,), (2, 3), (2, 0, 3), (1, 1, 1)]:
        total = comm.allreduce(np.ones(shape))
        assert total.shape == shape
        assert (total == comm.size).all()


def check_out_takes_the_result_and_may_be_the_input(comm: cc.Communicator) -> None:
    mine, out = np.full(5000, 1.0 + comm.rank), np.empty(5000)
    assert comm.allreduce(mine, out=out) is out
    assert (out == sum(everybody(comm)) + comm.size).all()
    assert comm.allreduce(mine, out=mine) is mine
    assert (mine == out).all()


def check_large_arrays(comm: cc.Communicator) -> None:
    mine = np.arange(300_001, dtype=np.float64) + comm.rank
    assert (comm.allreduce(mine) == np.arange(300_001) * comm.size + sum(everybody(comm))).all()


def check_allgather_adds_an_axis(comm: cc.Communicator) -> None:
    mine = np.array([[comm.rank, 1], [2, 3]], dtype=np.int32)
    gathered = comm.allgather(mine)
    assert gathered.dtype == mine.dtype
    assert gathered.tolist() == [[[rank, 1], [2, 3]] for rank in everybody(comm)]
    out = np.empty_like(gathered)
    assert comm.allgather(mine, out=out) is out
    assert (out == gathered).all()


def check_allgather_of_numbers(comm: cc.Communicator) -> None:
    cases = [
        (comm.rank, "int64"),
        (0.5 + comm.rank, "float64"),
        (np.float16(comm.rank), "float16"),
        (1j, "complex128"),
        (True, "bool"),
    ]
    for number, dtype in cases:
        gathered = comm.allgather(number)
        assert gathered.dtype == dtype
        assert gathered.shape == (comm.size,)
        assert gathered[comm.rank] == number


def check_allgatherv_joins_rows_in_rank_order(comm: cc.Communicator) -> None:
    # Rank 0 has no rows.
    mine = np.full((comm.rank, 2), float(comm.rank))
    expected = [[float(rank)] * 2 for rank in everybody(comm) for _ in range(rank)]
    everything, counts = comm.allgatherv(mine)
    assert everything.shape == (len(expected), 2)
    assert everything.tolist() == expected
    assert counts.dtype == np.intp
    assert counts.tolist() == everybody(comm)
    out = np.empty_like(everything)
    for known in (counts, everybody(comm), tuple(everybody(comm)), None):
        result, again = comm.allgatherv(mine, known, out)
        assert result is out
        assert again.tolist() == everybody(comm)
        assert out.tolist() == expected
        out[:] = -1


def check_allgatherv_into_the_array_it_sends_from(comm: cc.Communicator) -> None:
    whole = np.arange(2 * comm.size) * (comm.rank + 1)
    comm.allgatherv(whole[2 * comm.rank : 2 * comm.rank + 2], [2] * comm.size, whole)
    assert whole.tolist() == [n * (n // 2 + 1) for n in range(2 * comm.size)]


def check_rows_without_bytes(comm: cc.Communicator) -> None:
    everything, counts = comm.allgatherv(np.empty((3, 0)))
    assert everything.shape == (3 * comm.size, 0)
    assert counts.tolist() == [3] * comm.size


def check_a_result_without_room_is_a_memory_error(comm: cc.Communicator) -> None:
    for much in (2**45, 2**61):
        counts = [much] * comm.size
        counts[comm.rank] = 3
        if comm.size > 1:
            words = r"^no memory for the result, of shape \[\d+\] and dtype float64: .*; gather less"
            with pytest.raises(MemoryError, match=words):
                comm.allgatherv(np.ones(3), counts)
    assert comm.allreduce(1) == comm.size


def check_broadcast_is_in_place(comm: cc.Communicator) -> None:
    for root in everybody(comm):
        mine = np.full((2, 3), comm.rank, dtype=np.int16)
        comm.broadcast(mine, root)
        assert (mine == root).all()
        comm.broadcast(mine[:0], root=root)
        number = np.array(comm.rank)
        comm.broadcast(number, root=root)
        assert number == root


PLAIN = [
    np.array([True, False]),
    np.array([1.5, 2.5], dtype=np.float16),
    np.array([1 + 2j, 3 - 4j]),
    np.array([1, 2], dtype=">i4"),
    np.array(["2020-01-01", "2021-06-01"], dtype="datetime64[D]"),
    np.array([1, 2], dtype="timedelta64[ms]"),
    np.array(["ab", "c"]),
    np.array([b"ab", b"c"]),
    np.array([(1, 2.5), (3, 4.5)], dtype=[("a", "u1"), ("b", "f8")]),
    np.array([(1, (2, 3))], dtype=np.dtype([("a", "u1"), ("b", "i4", 2)], align=True)),
    np.array([1, 2], dtype=np.longdouble),
    np.array([1, 2], dtype=np.longlong),
]


def same(mine: np.ndarray[Any, Any], theirs: np.ndarray[Any, Any]) -> bool:
    # Not compared by their bytes, because a copy lacks the padding.
    return mine.dtype == theirs.dtype and repr(mine.tolist()) == repr(theirs.tolist())


def check_every_plain_dtype_travels(comm: cc.Communicator) -> None:
    for example in PLAIN:
        everything, counts = comm.allgatherv(example)
        assert counts.tolist() == [len(example)] * comm.size
        assert all(same(block, example) for block in np.split(everything, comm.size))
        assert same(comm.allgather(example)[-1], example)
        mine = example.copy() if comm.rank == comm.size - 1 else np.zeros_like(example)
        comm.broadcast(mine, root=comm.size - 1)
        assert same(mine, example)


def check_what_has_the_buffer_protocol_is_an_array(comm: cc.Communicator) -> None:
    import array

    numbers = array.array("d", [1.0, 2.0])
    assert comm.allreduce(numbers).tolist() == [comm.size, 2.0 * comm.size]
    data = bytearray([comm.rank] * 3)
    comm.broadcast(data)
    assert data == bytes(3)
    assert comm.allgatherv(b"ab")[0].tobytes() == b"ab" * comm.size
    comm.broadcast(memoryview(data))


class Interface:
    """An array of another library, which exposes its memory in one of two ways."""

    def __init__(self, array: np.ndarray[Any, Any], way: str) -> None:
        if way == "interface":
            self.__array_interface__ = array.__array_interface__
        self.array = array


class Exchange(Interface):
    def __dlpack__(self, **options: Any) -> Any:
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return self.array.__dlpack_device__()


def check_arrays_of_other_libraries(comm: cc.Communicator) -> None:
    for way, kind in [("interface", Interface), ("dlpack", Exchange)]:
        mine = np.full(3, float(comm.rank))
        theirs = kind(mine, way)
        assert comm.allreduce(theirs).tolist() == [float(sum(everybody(comm)))] * 3
        comm.broadcast(theirs, root=comm.size - 1)
        assert mine.tolist() == [float(comm.size - 1)] * 3


def check_objects(comm: cc.Communicator) -> None:
    assert comm.allgather_object({"rank": comm.rank}) == [{"rank": rank} for rank in everybody(comm)]
    assert comm.allgather_object("x" * comm.rank) == ["x" * rank for rank in everybody(comm)]
    for root in everybody(comm):
        mine = {"from": comm.rank, "large": b"x" * 300_000} if comm.rank == root else None
        assert comm.broadcast_object(mine, root=root) == {"from": root, "large": b"x" * 300_000}
    assert comm.broadcast_object(None) is None


def check_split_local(comm: cc.Communicator) -> None:
    machine = comm.split_local()
    assert machine.size == (comm.size if comm.backend == "shm" else 1)
    assert machine.backend == comm.backend
    assert machine.is_leader == (machine.rank == 0) == comm.is_leader
    assert machine.allreduce(1) == machine.size
    machine.barrier()
    machine.close()


def check_many_calls_of_all_kinds(comm: cc.Communicator) -> None:
    for turn in range(200):
        assert comm.allreduce(turn) == turn * comm.size
        comm.barrier()
        assert comm.allgather(np.int16(turn)).tolist() == [turn] * comm.size
        seed = np.array([turn if comm.rank == 0 else -1])
        comm.broadcast(seed)
        assert seed == turn


@worlds.every(__name__)
def test_collectives(backend: str, ranks: int, name: str) -> None:
    worlds.judge(__name__, backend, ranks, name)
