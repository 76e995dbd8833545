"""The types of the package: mypy checks this file, and the tests run it."""

from __future__ import annotations

from typing import Any, NoReturn, assert_type

import cobre_comm as cc
import numpy as np
from numpy.typing import NDArray


def test_objects_keep_their_type() -> None:
    comm = cc.connect("local")
    seed = {"seed": 7}
    assert_type(comm.broadcast_object(seed), dict[str, int])
    assert_type(comm.broadcast_object(seed if comm.rank == 0 else None), dict[str, int])
    # A rank without an object receives `Any`.
    assert_type(comm.broadcast_object(), Any)
    assert_type(comm.broadcast_object(None, root=0), Any)
    assert_type(comm.allgather_object(seed), list[dict[str, int]])


def test_sums_are_numbers_and_those_of_columns_arrays() -> None:
    comm = cc.connect("local")
    assert_type(comm.exact_sum(np.ones(3)), float)
    assert_type(comm.exact_sum(np.ones((3, 2)), axis=0), NDArray[np.float64])


def test_an_abort_does_not_return() -> None:
    def end(comm: cc.Communicator) -> NoReturn:
        comm.abort(3)

    assert callable(end)


def test_a_shared_array_has_a_shape() -> None:
    assert_type(cc.connect("local").shared_array((2, 3)).shape, tuple[int, ...])
