"""What a rank hears when something goes wrong: the operation, the kind, the rank to blame."""

from __future__ import annotations

import os
import pickle
import signal
from typing import Any

import cobre_comm as cc
import numpy as np
import pytest

BACKENDS = ["shm", "tcp"]


def killed(comm: cc.Communicator) -> None:
    comm.barrier()
    if comm.rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    with pytest.raises(cc.PeerLost) as told:
        comm.allreduce(np.ones(3))
    assert (told.value.operation, told.value.kind, told.value.rank) == ("allreduce", "PeerLost", 1)
    # The first cause again, whatever is called.
    with pytest.raises(cc.PeerLost, match="rank 1") as told:
        comm.barrier()
    assert told.value.operation == "barrier"


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_rank_that_is_killed_is_named(backend: str) -> None:
    with pytest.raises(cc.WorkerError, match=r"rank 1 .*SIGKILL") as told:
        cc.run(killed, 3, backend=backend, timeout=60)
    assert told.value.rank == 1


def leaves(comm: cc.Communicator) -> str:
    if comm.rank == 1:
        comm.close()
        return ""
    with pytest.raises(cc.PeerLost) as told:
        comm.barrier()
    assert told.value.rank == 1
    return str(told.value)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_rank_that_closes_is_named(backend: str) -> None:
    assert "rank 1" in cc.run(leaves, 2, backend=backend, timeout=60)[0]


def differs(comm: cc.Communicator, case: int) -> tuple[str, int | None]:
    calls: list[Any] = [
        lambda: comm.allreduce(1 if comm.rank else 1.0),
        lambda: comm.allreduce(np.ones(2 + comm.rank)),
        lambda: comm.barrier() if comm.rank else comm.allreduce(1),
        lambda: comm.allgather(np.ones(3, np.float32 if comm.rank else np.float64)),
        lambda: comm.broadcast(np.ones(3), root=comm.rank),
        lambda: comm.allgatherv(np.ones(3, np.int64 if comm.rank else np.float64)),
        lambda: comm.allgatherv(np.ones((3, 1 + comm.rank))),
    ]
    with pytest.raises(cc.Mismatch) as told:
        calls[case]()
    return told.value.operation, told.value.rank


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("case", range(7))
def test_ranks_that_call_different_things_are_told(backend: str, case: int) -> None:
    assert all(blamed is not None for _, blamed in cc.run(differs, 2, args=(case,), backend=backend, timeout=60))


def late(comm: cc.Communicator, settings: dict[str, Any]) -> None:
    """Everybody connects once more, with a timeout; rank 1 stays away until rank 0 has seen it run out."""
    with cc.connect(**settings, rank=comm.rank, size=2, timeout=0.5) as timed:
        if comm.rank == 0:
            with pytest.raises(cc.TimedOut) as told:
                timed.barrier()
            assert told.value.rank == 1
        comm.barrier()


def test_a_rank_that_stays_away_is_named() -> None:
    cc.run(late, 2, args=({"backend": "shm", "name": f"cobre-test-late-{os.getpid()}"},), timeout=60)


def aborts(comm: cc.Communicator) -> None:
    comm.barrier()
    if comm.rank == 1:
        print("flushed before the end", end="")
        comm.abort(7)
    with pytest.raises(cc.Aborted) as told:
        comm.barrier()
    assert told.value.rank == 1


@pytest.mark.parametrize("backend", BACKENDS)
def test_abort_ends_the_job(backend: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(cc.WorkerError, match="7"):
        cc.run(aborts, 2, backend=backend, timeout=60)
    assert "[1] flushed before the end" in capsys.readouterr().out


def test_errors_travel_between_processes() -> None:
    error = pickle.loads(pickle.dumps(cc.TimedOut("barrier: timed out, rank 3", "barrier", "TimedOut", 3)))
    assert type(error) is cc.TimedOut
    assert (str(error), error.operation, error.kind, error.rank) == ("barrier: timed out, rank 3", "barrier", "TimedOut", 3)
    assert issubclass(cc.Refused, cc.CommError)
