"""The program of one rank. Its last arguments are the descriptors of three files: the call, the record and the stack."""

from __future__ import annotations

import contextlib
import errno
import faulthandler
import io
import os
import pickle
import signal
import sys
import time
import traceback
from typing import Any

from cobre_comm import _blame, _parcel, connect

RANK = os.getpid()
"""The process of the rank. A child that the function forks is no rank: it ends like any process and leaves no record."""


def main() -> None:
    """Makes the call from the first file, and writes its result to the second."""
    call, record, stack = (int(number) for number in sys.argv[1:4])
    for descriptor in (call, record, stack):
        os.set_inheritable(descriptor, False)
    # Writes the stack when a signal ends this rank; the launcher sends `SIGTERM` at a timeout.
    faulthandler.enable(file=stack)
    faulthandler.register(signal.SIGTERM, file=stack, chain=True)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # Line by line, as on a terminal; with PYTHONUNBUFFERED `print` would write each of its arguments separately.
            stream.reconfigure(encoding="utf-8", errors="backslashreplace", line_buffering=True, write_through=False)
    with os.fdopen(record, "wb") as file:
        try:
            if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:
                signal.signal(signal.SIGINT, signal.default_int_handler)
            _call(call, file)
        except BaseException as error:
            _leave(error, file)


def _call(call: int, file: io.BufferedWriter) -> None:
    with io.BufferedReader(_Call(call)) as packed:
        function, args, kwargs = _parcel.unpack(packed)
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
                raise _blame.NotSent(_not_sent(result, error)) from error
        except BaseException as error:
            # Before the communicator closes, so that the record of the first cause exists by then.
            _leave(error, file)


class _Call(io.RawIOBase):
    """Reads the call from its beginning: the ranks share the position of the descriptor."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor, self._position = descriptor, 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        read = os.preadv(self._descriptor, [buffer], self._position)
        self._position += read
        return read

    def close(self) -> None:
        if not self.closed:
            os.close(self._descriptor)
        super().close()


def _not_sent(result: object, error: Exception) -> str:
    what = f"the result, of type {type(result).__qualname__},"
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return f"{what} cannot be stored: {error}; free space in the folder for temporary files, or set TMPDIR to another folder"
    return f"{what} cannot be sent: {error}; return numbers, arrays or other data that can be pickled"


def _leave(error: BaseException, file: io.BufferedWriter) -> None:
    """Writes a record of the failure and ends this process at once, even if threads of the function still run."""
    when = time.monotonic()
    if os.getpid() != RANK:
        raise error
    try:
        file.seek(0)
        file.truncate()
        pickle.dump(_blame.Record.of(error, when), file)
        file.flush()
    except OSError:
        # No room for the record: at least the last lines of this rank show the failure.
        traceback.print_exception(error)
    for stream in (sys.stdout, sys.stderr):
        # The function may have closed or replaced it.
        with contextlib.suppress(Exception):
            stream.flush()
    os._exit(130 if isinstance(error, KeyboardInterrupt) else 1)
