"""Arrays of other libraries, on request with `--other`: arrays that are written are never copied."""

from __future__ import annotations

from typing import Any

import cobre_comm as cc
import numpy as np
import pytest


def tensors(comm: cc.Communicator) -> None:
    import torch

    mine = torch.full((2, 3), float(comm.rank))
    total = comm.allreduce(mine)
    assert (total.dtype, total.tolist()) == (np.float32, [[1.0] * 3] * 2)
    out = torch.zeros(2, 3)
    assert comm.allreduce(mine, out=out) is out
    assert out.tolist() == total.tolist()
    comm.broadcast(mine, root=1)
    assert mine.tolist() == [[1.0] * 3] * 2
    parameter = torch.nn.Parameter(torch.full((3,), float(comm.rank)))
    comm.broadcast(parameter.detach())
    assert parameter.tolist() == [0.0] * 3
    for example in (torch.arange(3), torch.tensor([True, False]), torch.tensor([1j]), torch.ones(2, dtype=torch.float16)):
        gathered = comm.allgather(example)
        assert torch.equal(torch.from_numpy(gathered), torch.stack([example] * 2))
    assert comm.allgatherv(torch.arange(comm.rank + 1))[0].tolist() == [0, 0, 1]
    assert comm.exact_sum(torch.ones(3)) == 6.0
    assert comm.allreduce(torch.tensor(1.5)) == 3.0
    refused: list[tuple[Any, Any, str]] = [
        (torch.ones(3, requires_grad=True), TypeError, r"x: .*detach\(\)"),
        (torch.ones(4, 4)[:, ::2], ValueError, "x: .*not contiguous"),
        (torch.ones(3, dtype=torch.bfloat16), TypeError, "x: .*bfloat16.*float32"),
        (torch.eye(3).to_sparse(), TypeError, "x: a torch.Tensor cannot be read"),
        (torch.ones(3, device="meta"), TypeError, "x: a torch.Tensor cannot be read"),
        (torch.conj(torch.tensor([1 + 2j] * 3)).imag, TypeError, r"x: .*negative bit.*x\.resolve_neg\(\)"),
        (torch.conj(torch.tensor([1 + 2j] * 3)), TypeError, r"x: .*conjugate bit.*x\.resolve_conj\(\)"),
    ]
    for tensor, kind, words in refused:
        with pytest.raises(kind if comm.rank == 0 else cc.Refused, match=words):
            comm.allreduce(tensor if comm.rank == 0 else torch.ones(3))
    rows = comm.partitioned_array(3)
    view = torch.from_numpy(rows.part)
    view.fill_(comm.rank + 1.0)
    with pytest.raises(BufferError, match="1 view"):
        rows.fence()
    del view
    rows.fence()
    assert rows.array[-1] == (comm.size if comm.backend == "shm" else comm.rank + 1)


def jax_arrays(comm: cc.Communicator) -> None:
    import jax.numpy as jnp

    mine = jnp.full((2, 3), float(comm.rank))
    assert comm.allreduce(mine).tolist() == [[1.0] * 3] * 2
    assert comm.allgather(jnp.arange(3)).tolist() == [[0, 1, 2]] * 2
    assert comm.allgather(jnp.ones(2, dtype=jnp.bfloat16)).dtype == jnp.bfloat16
    assert comm.exact_sum(jnp.ones(3)) == 6.0
    # These arrays are immutable, so nothing is written into them.
    for call in (lambda: comm.broadcast(mine), lambda: comm.allreduce(np.zeros((2, 3), np.float32), out=mine)):
        with pytest.raises(ValueError, match=r"read-only"):
            call()
        comm.barrier()


def tables(comm: cc.Communicator) -> None:
    import pandas as pd

    wide = 2**53 + 1
    total = comm.allreduce(pd.Series([wide, comm.rank]), op="max")
    assert (total.dtype, total.tolist()) == (np.int64, [wide, comm.size - 1])
    assert comm.allgather(pd.Series([True, False])).tolist() == [[True, False]] * comm.size
    refused = {
        "pandas.Series of dtype Int64": pd.Series([wide, None], dtype="Int64"),
        "pandas.Series of dtype category": pd.Series(["a", "b"], dtype="category"),
        "pandas.DataFrame": pd.DataFrame({"a": [wide], "b": [0.5]}),
    }
    for words, table in refused.items():
        kind, what = (TypeError, table) if comm.rank == 0 else (cc.Refused, np.ones(3))
        with pytest.raises(kind, match=rf"x: a {words} is no numpy array"):
            comm.allreduce(what)


@pytest.mark.parametrize("backend", ["shm", "tcp"])
@pytest.mark.parametrize(
    "function",
    [
        pytest.param(tensors, marks=pytest.mark.other("torch"), id="torch"),
        pytest.param(jax_arrays, marks=pytest.mark.other("jax"), id="jax"),
        pytest.param(tables, marks=pytest.mark.other("pandas"), id="pandas"),
    ],
)
def test_arrays_of_other_libraries(function: Any, backend: str) -> None:
    cc.run(function, 2, backend=backend, timeout=120)
