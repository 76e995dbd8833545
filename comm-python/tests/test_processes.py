"""Threads, signals and forks while a rank is inside a call."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
import uuid
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

import cobre_comm as cc
import numpy as np
import pytest

BACKENDS = ["shm", "tcp"]


def wait_for(path: str) -> None:
    until = time.monotonic() + 60
    while not Path(path).exists():
        assert time.monotonic() < until
        time.sleep(0.005)


def two_threads(comm: cc.Communicator, gates: str) -> None:
    """One of two threads is refused; only then the other rank makes the call, so that both threads were in the call at once."""
    for turn in range(30):
        gate = f"{gates}.{turn}"
        if comm.rank == 1:
            wait_for(gate)
            comm.barrier()
        else:
            from_two_threads(comm, gate)
    assert comm.allreduce(1) == comm.size


def from_two_threads(comm: cc.Communicator, gate: str) -> None:
    refused: list[cc.Refused] = []

    def call() -> None:
        try:
            comm.barrier()
        except cc.Refused as error:
            refused.append(error)
            Path(gate).touch()

    threads = [threading.Thread(target=call) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [error.rank for error in refused] == [0]
    assert "another thread" in str(refused[0])


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_second_thread_in_a_collective_is_refused(backend: str, tmp_path: Path) -> None:
    cc.run(two_threads, 2, args=(str(tmp_path / "gate"),), backend=backend, timeout=120)


def works_meanwhile(comm: cc.Communicator, gate: str) -> None:
    """The other rank makes the call only after this one has worked while its other thread waits."""
    table = comm.partitioned_array(3)
    # A fence over tcp does not wait for other ranks.
    waits = [comm.barrier, lambda: comm.allreduce(np.ones(3)), comm.barrier if comm.backend == "tcp" else table.fence]
    for number, wait in enumerate(waits):
        if comm.rank == 1:
            wait_for(f"{gate}.{number}")
            wait()
            continue
        waiting = threading.Thread(target=wait)
        waiting.start()
        assert sum(range(100_000)) == 4999950000
        assert waiting.is_alive()
        Path(f"{gate}.{number}").touch()
        waiting.join()


@pytest.mark.parametrize("backend", BACKENDS)
def test_other_threads_run_while_one_waits(backend: str, tmp_path: Path) -> None:
    cc.run(works_meanwhile, 2, args=(str(tmp_path / "gate"),), backend=backend, timeout=60)


class Bell(Exception):
    """The exception that a handler of a program raises."""


def ring(number: int, frame: FrameType | None) -> NoReturn:
    raise Bell(number)


def asleep(pid: int) -> bool:
    """Returns whether the main thread of a process waits in the kernel."""
    return Path(f"/proc/{pid}/task/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "S"


def interrupted(comm: cc.Communicator, number: int, gate: str) -> float:
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGUSR1, ring)
    pids = comm.allgather_object(os.getpid())
    started = time.monotonic()
    if comm.rank == 0:
        expected = KeyboardInterrupt if number == signal.SIGINT else Bell
        with pytest.raises(expected) as told:
            comm.barrier()
        took = time.monotonic() - started
        Path(gate).touch()
        cause = told.value.__cause__
        assert isinstance(cause, cc.Aborted)
        assert cause.rank == 0
        with pytest.raises(cc.Aborted):
            comm.barrier()
        return took
    while not asleep(pids[0]):
        time.sleep(0.001)
    os.kill(pids[0], number)
    # The other rank leaves the barrier without this rank, which calls it later and gets the reason.
    wait_for(gate)
    with pytest.raises(cc.Aborted) as heard:
        this_call_or_the_next(comm)
    assert heard.value.rank == 0
    return 0.0


def this_call_or_the_next(comm: cc.Communicator) -> None:
    comm.barrier()
    comm.barrier()


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGUSR1])
def test_a_signal_ends_a_blocked_call(backend: str, number: int, tmp_path: Path) -> None:
    took, _ = cc.run(interrupted, 2, args=(number, str(tmp_path / "gate")), backend=backend, timeout=60)
    assert took < 20


def goes_on(comm: cc.Communicator, gate: str) -> None:
    """A handler that raises nothing runs inside the call, and the call continues."""
    rung = threading.Event()

    def note(number: int, frame: FrameType | None) -> None:
        rung.set()
        Path(gate).touch()

    signal.signal(signal.SIGUSR1, note)
    pids = comm.allgather_object(os.getpid())
    if comm.rank == 1:
        while not asleep(pids[0]):
            time.sleep(0.001)
        os.kill(pids[0], signal.SIGUSR1)
        wait_for(gate)
    comm.barrier()
    assert comm.allreduce(1) == comm.size
    assert rung.is_set() == (comm.rank == 0)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_handler_that_raises_nothing_runs_inside_a_blocked_call(backend: str, tmp_path: Path) -> None:
    cc.run(goes_on, 2, args=(str(tmp_path / "gate"),), backend=backend, timeout=60)


@pytest.mark.parametrize(
    "settings",
    [
        {"backend": "shm", "name": f"cobre-test-{uuid.uuid4().hex}"},
        {"backend": "tcp", "coordinator": "127.0.0.1", "port": 0},
    ],
)
def test_a_signal_ends_a_start_that_waits_for_ranks(settings: dict[str, Any]) -> None:
    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, 0.3)
    try:
        with pytest.raises(Bell) as told:
            cc.connect(**settings, rank=0, size=2, connect_timeout=60)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert isinstance(told.value.__cause__, cc.BackendError)


def in_a_child(comm: cc.Communicator, table: cc.SharedArray) -> list[str]:
    found = []
    calls: list[Any] = [comm.barrier, lambda: comm.allreduce(1), lambda: comm.allreduce([1]), lambda: table.part, table.fence]
    for call in calls:
        try:
            call()
        except (cc.CommError, TypeError) as error:
            found.append(f"{getattr(error, 'kind', '')} {error}")
    return found


def forks(comm: cc.Communicator) -> None:
    table = comm.partitioned_array(3)
    context = multiprocessing.get_context("fork")
    receive, send = context.Pipe(duplex=False)
    child = context.Process(target=lambda: send.send(in_a_child(comm, table)))
    child.start()
    assert receive.poll(30)
    told = receive.recv()
    child.join(30)
    assert child.exitcode == 0
    expected = 4 if comm.backend == "tcp" else 5
    assert len(told) >= expected, told
    for line in told:
        if not line.startswith(" x: a list"):
            assert line.startswith("InvalidCommunicator ")
            assert "multiprocessing with the start method fork" in line
            assert 'get_context("spawn")' in line
    # The child has not disturbed the communicator.
    table.part[:] = 1
    table.fence()
    assert comm.allreduce(1) == comm.size


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_forked_child_is_told_that_it_is_no_rank(backend: str) -> None:
    cc.run(forks, 2, backend=backend, timeout=60)
