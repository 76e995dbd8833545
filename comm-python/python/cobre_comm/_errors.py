"""The exceptions, which name the operation, the kind of failure and the rank to blame."""

from __future__ import annotations

from typing import Any


class CommError(Exception):
    """A collective or a shared array failed.

    After any failure except ``"Refused"`` the communicator is unusable: every later call raises the first error again.

    >>> import cobre_comm as cc
    >>> error = cc.PeerLost("barrier: peer lost, rank 2: its process ended", "barrier", "PeerLost", 2)
    >>> error.operation, error.kind, error.rank
    ('barrier', 'PeerLost', 2)
    """

    operation: str
    """The method that was called, such as ``"allreduce"``."""
    kind: str
    """The kind of failure: the name of a subclass of this class, ``"Io"`` or ``"InvalidCommunicator"``."""
    rank: int | None
    """The rank to blame, if there is one."""

    def __init__(self, message: str, operation: str = "", kind: str = "", rank: int | None = None) -> None:
        super().__init__(message)
        self.operation = operation
        self.kind = kind or type(self).__name__
        self.rank = rank

    def __reduce__(self) -> tuple[type[CommError], tuple[Any, ...]]:
        """Pickles the error with all its fields."""
        return type(self), (str(self), self.operation, self.kind, self.rank)


class PeerLost(CommError):
    """A rank died, or closed its communicator, before it contributed."""


class TimedOut(CommError):
    """A rank is alive but did not enter the call within the timeout."""


class Mismatch(CommError):
    """The ranks made different calls."""


class Refused(CommError):
    """A rank passed invalid arguments, or this rank is already inside another collective. The communicator stays usable."""


class Aborted(CommError):
    """A rank called ``abort``, or was interrupted."""


class BackendError(Exception):
    """The communicator cannot be created: an unknown backend, missing or wrong settings, or ranks that did not join."""
