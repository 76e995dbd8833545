"""The functions that the tests run on ranks, which import them by name."""

from __future__ import annotations

import atexit
import ctypes
import os
import re
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import cobre_comm as cc
import numpy as np


class Unsendable:
    """An object that cannot be pickled."""

    def __reduce__(self) -> str:
        raise TypeError("this one stays here")


class Strange(Exception):
    """An exception that can be pickled but not unpickled."""

    def __init__(self, first: int, second: int) -> None:
        super().__init__(f"{first} and {second}")


class Exits(Exception):
    """An exception, and a result, that ends the process that unpickles it."""

    def __reduce__(self) -> tuple[Any, ...]:
        return sys.exit, (3,)


def place(comm: cc.Communicator, *args: Any, **kwargs: Any) -> tuple[int, int, str, tuple[Any, ...], dict[str, Any]]:
    return comm.rank, comm.size, comm.backend, args, kwargs


def speak(comm: cc.Communicator) -> None:
    for line in range(3):
        print(f"line {line} of {comm.rank} \u00e9")
    print(f"complaint of {comm.rank}", file=sys.stderr)


def mixed(comm: cc.Communicator, gate: str) -> None:
    """Rank 0 leaves a line unfinished until rank 1 has printed."""
    if comm.rank == 0:
        print("half", end="", flush=True)
    else:
        wait_for(gate)
        print("whole")
    comm.barrier()
    if comm.rank == 0:
        print(" and half")


def progress(comm: cc.Communicator, gate: str) -> None:
    if comm.rank == 0:
        for percent in (10, 50):
            print(f"\r{percent}%", end="")
        wait_for(gate)
        print("\r100%")


def flood(comm: cc.Communicator, lines: int) -> None:
    for line in range(lines):
        print(comm.rank, line, "x" * 80)


def wait_for(path: str) -> None:
    until = time.monotonic() + 60
    while not Path(path).exists():
        assert time.monotonic() < until
        time.sleep(0.01)


def raises(comm: cc.Communicator, rank: int) -> None:
    """One rank raises while the others are inside a collective."""
    comm.barrier()
    if comm.rank == rank:
        raise ValueError(f"bad luck of {rank}")
    comm.barrier()


def raises_later(comm: cc.Communicator, rank: int) -> None:
    """The other ranks turn the error into their own exception."""
    try:
        raises(comm, rank)
    except cc.CommError as error:
        raise RuntimeError("the job is over") from error


def exits_instead(comm: cc.Communicator) -> None:
    """Rank 1 hangs; the others leave no record of their error."""
    try:
        hangs(comm)
    except cc.CommError:
        os._exit(4)


def strange(comm: cc.Communicator) -> None:
    raise Strange(1, 2)


def kills(comm: cc.Communicator, rank: int, number: int) -> None:
    print("rank", comm.rank, "is here")
    comm.barrier()
    if comm.rank == rank:
        os.kill(os.getpid(), number)
    comm.barrier()


def crashes(comm: cc.Communicator) -> None:
    if comm.rank == 1:
        ctypes.string_at(0)
    comm.barrier()


def exits(comm: cc.Communicator, rank: int, code: Any) -> None:
    if comm.rank == rank:
        sys.exit(code)
    comm.barrier()


def exits_hard(comm: cc.Communicator, rank: int, code: int) -> None:
    if comm.rank == rank:
        os._exit(code)
    comm.barrier()


def exits_at_the_end(comm: cc.Communicator) -> int:
    """Returns, and makes the process of rank 1 exit with another code afterwards."""
    comm.barrier()
    if comm.rank == 1:
        atexit.register(os._exit, 3)
    return comm.rank


def without_room(comm: cc.Communicator, limit: int, fails: bool) -> bytes:
    """Limits the size of files, as if the folder for temporary files were full."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
    if fails:
        raise ValueError("of the rank")
    return bytes(1_000_000)


def peak(comm: cc.Communicator, data: Any) -> tuple[int, int]:
    """Returns the size of an argument, and the peak memory of this rank in bytes."""
    found = re.search(r"^VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text(), re.MULTILINE)
    assert found is not None
    return len(memoryview(data).cast("B")), int(found[1]) * 1024


def hangs(comm: cc.Communicator) -> None:
    if comm.rank == 1:
        in_python_here()
    comm.barrier()


def in_python_here() -> None:
    while True:
        time.sleep(3600)


def leaves_a_child(comm: cc.Communicator) -> int:
    return subprocess.Popen(["sleep", "1000"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).pid


def works(comm: cc.Communicator, file: str) -> None:
    """Communicates until it is ended; writes its process id, and the id of the job, which is part of the segment's name."""
    comm.barrier()
    if comm.rank == 0 and (jobs := os.environ.get("COBRE_COMM_TEST_JOBS")):
        with open(jobs, "a") as noted:
            noted.write(os.environ["COBRE_JOB_ID"] + "\n")
    Path(f"{file}.{comm.rank}").write_text(str(os.getpid()))
    while True:
        comm.barrier()


def unsendable(comm: cc.Communicator) -> Unsendable | None:
    return Unsendable() if comm.rank == 1 else None


def large(comm: cc.Communicator, size: int) -> bytes:
    return bytes([comm.rank]) * size


def ignores_terminate(comm: cc.Communicator) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    while True:
        time.sleep(3600)


def total(comm: cc.Communicator, number: float) -> float:
    return float(comm.allreduce(number + comm.rank))


def inner(comm: cc.Communicator) -> list[float]:
    """A rank that starts another job."""
    return cc.run(total, ranks=2, args=(comm.rank,))


def forks(comm: cc.Communicator, ending: str) -> str:
    """A forked child leaves the function, in one of the possible ways, before the rank does."""
    child = os.fork()
    if child == 0:
        if ending == "raises":
            raise ValueError("of the child")
        if ending == "exits":
            sys.exit(3)
        return "the child"
    os.waitpid(child, 0)
    comm.barrier()
    return "the rank"


def raises_what_exits(comm: cc.Communicator) -> None:
    raise Exits("on its way")


def returns_what_exits(comm: cc.Communicator) -> Exits:
    return Exits()


def loses_the_environment(comm: cc.Communicator) -> None:
    os.environ.clear()
    os.environ["RANK"] = "the first"
    raises(comm, 1)


def closes(comm: cc.Communicator, fails: bool) -> int:
    """Closes the output streams."""
    sys.stdout.close()
    sys.stderr.close()
    if fails:
        raise ValueError("after the streams")
    return comm.size


def raises_within_a_line(comm: cc.Communicator) -> None:
    print("half a line", end="")
    print("half a complaint", end="", file=sys.stderr)
    raise ValueError("in the middle")


def large_with_a_lambda(comm: cc.Communicator, size: int) -> tuple[Any, Any]:
    rank = comm.rank
    return np.arange(size), lambda: rank
