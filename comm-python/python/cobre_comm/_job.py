"""Runs a function on many ranks and returns their results."""

from __future__ import annotations

import contextlib
import math
import operator
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from cobre_comm import _blame, _native, _output, _parcel

R = TypeVar("R")

START = """
import signal
if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    signal.signal(signal.SIGINT, signal.SIG_DFL)
from cobre_comm._worker import main
main()
"""
"""The program of a rank. While it imports modules, Ctrl-C ends it without a traceback."""

MOST_SECONDS = 1e9
"""The longest ``timeout``."""
MOST_RANKS = {"shm": 1024, "tcp": 4096}
"""The backends, and the most ranks of a job with each."""


def run(
    function: Callable[..., R],
    ranks: int,
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    backend: str = "shm",
    timeout: float | None = None,
) -> list[R]:
    """Runs ``function(comm, *args, **kwargs)`` on every rank of a new job and returns the results, in rank order.

    Every rank is a process of this interpreter with its own communicator, over shared memory (``backend="shm"``) or sockets
    (``"tcp"``). The output of the ranks appears on ``sys.stdout`` and ``sys.stderr`` of this process, with ``[rank]`` in front. No
    process of the job is left when this returns or raises. Jobs are independent: threads of one process may run several at once.

    `pickle` sends the function by its name: the ranks import its module, or the script, in which calls of ``run`` must
    therefore be below ``if __name__ == "__main__":``. A function in a notebook, a lambda or a function inside another function
    has no such name; it is sent by value if `cloudpickle` is installed.

    Raises `WorkerError`, with the traceback of the rank that failed first, if a rank raises, exits or is killed; `WorkerTimeout`,
    with the stack of every rank, if the job takes longer than ``timeout`` seconds; `TypeError` or `ValueError`, which name the
    argument, if an argument is invalid, before anything is started. Ctrl-C ends all ranks and raises `KeyboardInterrupt`.

    >>> import operator
    >>> import cobre_comm as cc
    >>> cc.run(operator.attrgetter("rank", "size"), ranks=2)
    [(0, 2), (1, 2)]
    """
    if _parcel.importing_main():
        raise RuntimeError(
            'cobre_comm.run: called while a rank imports this script; put the call below `if __name__ == "__main__":`'
        )
    if not callable(function):
        raise TypeError(f"function: expected a function that takes a communicator, not {type(function).__name__}")
    if not isinstance(backend, str):
        raise TypeError(f"backend: expected {' or '.join(map(repr, MOST_RANKS))}, not {type(backend).__name__}")
    if backend not in MOST_RANKS:
        raise ValueError(f"backend: {backend!r} is not one of {', '.join(map(repr, MOST_RANKS))}")
    count = _count(ranks, backend)
    seconds = _seconds(timeout)
    command = [sys.executable, *_flags(), "-c", START]
    started = time.monotonic()
    # This process does not keep the call while the job runs: its arguments may be large.
    job = _native.Job(command, count, backend, seconds, _parcel.pack(function, args, kwargs))
    _follow(job)
    timed_out, blamed, ends = job.wait()
    with contextlib.ExitStack() as files:
        stories = [_blame.Story(job, rank, end, started) for rank, end in enumerate(ends)]
        for story in stories:
            files.callback(story.close)
        if timed_out:
            raise _blame.timeout(stories, seconds)
        if failure := _blame.first(stories, blamed):
            error, cause = _blame.error(failure, stories)
            raise error from cause
        return [story.result() for story in stories]


def _flags() -> list[str]:
    """Returns the options with which this interpreter was started."""
    # Imported here, because a rank does not need it to start.
    from multiprocessing import util

    flags: list[str] = util._args_from_interpreter_flags()  # type: ignore[attr-defined]
    return flags


def _count(ranks: int, backend: str) -> int:
    if isinstance(ranks, bool):
        raise TypeError("ranks: expected a number of ranks, not a bool")
    try:
        count = operator.index(ranks)
    except TypeError:
        raise TypeError(f"ranks: expected a whole number, not {type(ranks).__name__}") from None
    if not 1 <= count <= MOST_RANKS[backend]:
        raise ValueError(f"ranks: a job over {backend} has from 1 to {MOST_RANKS[backend]} ranks, not {count}")
    return count


def _seconds(timeout: float | None) -> float | None:
    if timeout is None:
        return None
    try:
        seconds = float(timeout)
    except (TypeError, ValueError):
        raise TypeError(f"timeout: expected seconds or None, not {type(timeout).__name__}") from None
    except OverflowError:
        seconds = math.inf
    if seconds > MOST_SECONDS:
        raise ValueError("timeout: expected at most 1e9 seconds, or None for no limit")
    if not seconds > 0:
        raise ValueError(f"timeout: expected more than 0 seconds, or None for no limit, not {timeout}")
    return seconds


def _follow(job: _native.Job) -> None:
    """Shows the output of the job until it ends. An exception in this thread first ends the job, a second one kills it."""
    output = _output.Output()
    interrupted: BaseException | None = None
    while True:
        try:
            pieces = job.read()
            if pieces is None:
                break
            output.write(pieces)
        except BaseException as error:
            job.stop(kill=interrupted is not None)
            if not isinstance(error, KeyboardInterrupt):
                output.close()
            interrupted = interrupted or error
    if interrupted is not None:
        job.wait()
        raise interrupted
