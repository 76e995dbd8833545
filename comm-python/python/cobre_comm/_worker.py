"""One rank of a job: ``python -m cobre_comm._worker CALL RECORD STACK``, with the descriptors of three files."""

from __future__ import annotations

import contextlib
import faulthandler
import io
import mmap
import os
import pickle
import signal
import sys
import time
from typing import Any

from cobre_comm import _blame, _parcel, connect

RANK = os.getpid()
"""The process that is the rank. A child that the function forks is none: it ends as any process does, and leaves no record."""


def main() -> None:
    """Makes the call that the first file holds, and leaves what came of it in the second."""
    call, record, stack = (int(number) for number in sys.argv[1:4])
    for descriptor in (call, record, stack):
        os.set_inheritable(descriptor, False)
    # Where this rank is when a signal ends it; `SIGTERM` is what the launcher sends at a timeout.
    faulthandler.enable(file=stack)
    faulthandler.register(signal.SIGTERM, file=stack, chain=True)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # By the line, as on a terminal; with PYTHONUNBUFFERED `print` would write each of its arguments alone.
            stream.reconfigure(encoding="utf-8", errors="backslashreplace", line_buffering=True, write_through=False)
    with os.fdopen(record, "wb") as file:
        try:
            _call(call, file)
        except BaseException as error:
            _leave(error, file)


def _call(call: int, file: io.BufferedWriter) -> None:
    # The view is given back first: the traceback of an import that fails would hold it.
    with mmap.mmap(call, 0, access=mmap.ACCESS_READ) as data, memoryview(data) as view:
        function, args, kwargs = _parcel.unpack(view)
    with connect() as comm:
        try:
            result: Any = function(comm, *args, **kwargs)
            if os.getpid() != RANK:
                return
            pickle.dump(_blame.Record(_blame.RETURNED, time.monotonic()), file)
            try:
                _parcel.dump(result, file)
                file.flush()
            except Exception as error:
                raise _blame.NotSent(f"the result, of type {type(result).__qualname__}, cannot be sent: {error}") from error
        except BaseException as error:
            # Before the communicator ends: by then the record of the first cause is there.
            _leave(error, file)


def _leave(error: BaseException, file: io.BufferedWriter) -> None:
    """Leaves a record of the failure and ends this process at once: no thread of the function may keep it."""
    when = time.monotonic()
    if os.getpid() != RANK:
        raise error
    file.seek(0)
    file.truncate()
    pickle.dump(_blame.Record.of(error, when), file)
    file.flush()
    for stream in (sys.stdout, sys.stderr):
        # The function may have closed it, or put something else there.
        with contextlib.suppress(Exception):
            stream.flush()
    os._exit(130 if isinstance(error, KeyboardInterrupt) else 1)


if __name__ == "__main__":
    main()
