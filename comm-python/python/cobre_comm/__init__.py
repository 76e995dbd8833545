"""Collective communication between the ranks of a job, without MPI.

>>> import numpy as np
>>> import cobre_comm as cc
>>> with cc.connect("local") as comm:
...     total = comm.allreduce(np.array([1.0, 2.0]))
...     everything, counts = comm.allgatherv(total)
>>> everything, counts
(array([1., 2.]), array([2]))

A program that is started alone has one rank; ``python -m cobre_comm.run -n 4 program.py`` starts it with four.
"""

import sysconfig

if sysconfig.get_config_var("Py_GIL_DISABLED"):
    raise ImportError(
        "cobre_comm does not work with free-threaded Python, because it needs the lock of the interpreter to guard shared "
        "arrays; use the ordinary build of this version (python3.13 instead of python3.13t)"
    )

from cobre_comm._blame import WorkerError, WorkerTimeout
from cobre_comm._errors import Aborted, BackendError, CommError, Mismatch, PeerLost, Refused, TimedOut
from cobre_comm._job import run
from cobre_comm._native import Communicator, SharedArray, connect

__all__ = [
    "Aborted",
    "BackendError",
    "CommError",
    "Communicator",
    "Mismatch",
    "PeerLost",
    "Refused",
    "SharedArray",
    "TimedOut",
    "WorkerError",
    "WorkerTimeout",
    "connect",
    "run",
]
