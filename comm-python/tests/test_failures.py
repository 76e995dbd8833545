"""The errors that a rank gets when something goes wrong: the operation, the kind, the rank to blame."""

from __future__ import annotations

import fcntl
import functools
import os
import pickle
import signal
import socket
from collections.abc import Callable
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
    # Every later call raises the first cause again.
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


def again(comm: cc.Communicator, number: int) -> cc.Communicator:
    """Connects these ranks once more, because a mismatch makes a communicator unusable."""
    place: dict[str, Any] = {"rank": comm.rank, "size": comm.size, "timeout": 30}
    if comm.backend == "shm":
        return cc.connect("shm", name=f"{os.environ['COBRE_JOB_ID']}-{number}", **place)
    listener = socket.create_server(("127.0.0.1", 0)) if comm.rank == 0 else None
    port: int = comm.broadcast_object(listener.getsockname()[1] if listener else None)
    if listener is not None:
        # A new number, because a process uses each number as a listener only once.
        place["listen_fd"] = fcntl.fcntl(listener, fcntl.F_DUPFD_CLOEXEC, 100 + number)
        listener.close()
    return cc.connect("tcp", coordinator="127.0.0.1", port=port, **place)


def calls(comm: cc.Communicator) -> list[Callable[[], Any]]:
    """Returns calls that differ between two ranks."""
    return [
        lambda: comm.allreduce(1 if comm.rank else 1.0),
        lambda: comm.allreduce(np.ones(2 + comm.rank)),
        lambda: comm.barrier() if comm.rank else comm.allreduce(1),
        lambda: comm.allgather(np.ones(3, np.float32 if comm.rank else np.float64)),
        lambda: comm.broadcast(np.ones(3), root=comm.rank),
        lambda: comm.allgatherv(np.ones(3, np.int64 if comm.rank else np.float64)),
        lambda: comm.allgatherv(np.ones((3, 1 + comm.rank))),
        # The same number of bytes with another meaning.
        lambda: comm.allgather(np.ones(3, np.int64 if comm.rank else np.float64)),
        lambda: comm.allgatherv(np.ones(3, np.uint32 if comm.rank else np.float32), [3, 3]),
        lambda: comm.broadcast(np.ones(3, bool if comm.rank else np.uint8)),
        lambda: comm.broadcast(np.zeros(3, "M8[s]" if comm.rank else "M8[D]")),
        lambda: comm.broadcast(np.zeros(3, [("b" if comm.rank else "a", "f8")])),
        lambda: comm.allgather(np.zeros(3, ">i4" if comm.rank else "<i4")),
        lambda: comm.broadcast(np.zeros(1, np.uint64)) if comm.rank else comm.broadcast_object("x"),
    ]


def differs(world: cc.Communicator) -> list[str]:
    """Makes all calls, and returns the complaint about each: empty if the error was as expected."""
    found = []
    for number in range(CASES):
        with again(world, number) as comm:
            try:
                calls(comm)[number]()
                found.append("no error")
            except cc.Mismatch as error:
                found.append("" if error.rank == 1 and error.operation else f"{error.operation}, {error.rank}: {error}")
            except Exception as error:
                found.append(repr(error))
    return found


@functools.cache
def differences(backend: str) -> list[list[str]]:
    return cc.run(differs, 2, backend=backend, timeout=120)


CASES = 14


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("case", range(CASES))
def test_ranks_that_call_different_things_are_told(backend: str, case: int) -> None:
    assert [rank[case] for rank in differences(backend)] == ["", ""]


def fails_somewhere(comm: cc.Communicator) -> None:
    with pytest.raises(cc.Mismatch) as first:
        comm.broadcast(np.ones(2)) if comm.rank == 0 else comm.allreduce(np.ones(2))
    # The place of the call, in this file, and not of what runs it.
    place = f" (at {fails_somewhere.__code__.co_filename}:{first.tb.tb_lineno})"
    assert str(first.value).endswith(place)
    # The place of the first call stays.
    with pytest.raises(cc.Mismatch) as later:
        comm.barrier()
    assert str(later.value).endswith(place)


@pytest.mark.parametrize("backend", BACKENDS)
def test_an_error_says_where_python_made_the_call(backend: str) -> None:
    cc.run(fails_somewhere, 2, backend=backend, timeout=60)


def late(comm: cc.Communicator, settings: dict[str, Any]) -> None:
    """All ranks connect once more, with a timeout; rank 1 makes no call until rank 0 has timed out."""
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
