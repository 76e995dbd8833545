"""What goes wrong: errors that name the operation, the kind of failure and the rank to blame."""

from __future__ import annotations

from typing import Any


class CommError(Exception):
    """A collective or a shared array failed.

    After a failure of any kind but ``"Refused"`` the communicator is of no more use: every later call raises the first cause again.

    >>> import cobre_comm as cc
    >>> error = cc.PeerLost("barrier: peer lost, rank 2: its process ended", "barrier", "PeerLost", 2)
    >>> error.operation, error.kind, error.rank
    ('barrier', 'PeerLost', 2)
    """

    operation: str
    """The method that was called, such as ``"allreduce"``."""
    kind: str
    """What kind of failure it was: the name of a class below this one, ``"Io"`` or ``"InvalidCommunicator"``."""
    rank: int | None
    """The rank to blame, where one is."""

    def __init__(self, message: str, operation: str = "", kind: str = "", rank: int | None = None) -> None:
        super().__init__(message)
        self.operation = operation
        self.kind = kind or type(self).__name__
        self.rank = rank

    def __reduce__(self) -> tuple[type[CommError], tuple[Any, ...]]:
        """Travels between processes with all it holds."""
        return type(self), (str(self), self.operation, self.kind, self.rank)


class PeerLost(CommError):
    """A rank died, or closed its communicator, before it contributed."""


class TimedOut(CommError):
    """A rank is alive but did not come within the timeout."""


class Mismatch(CommError):
    """The ranks called different things."""


class Refused(CommError):
    """A rank refused its arguments, or this rank is inside another collective already. The communicator stays usable."""


class Aborted(CommError):
    """A rank called ``abort``, or was interrupted."""


class BackendError(Exception):
    """There is no communicator: a backend that does not exist, settings that are missing or wrong, ranks that did not come."""
