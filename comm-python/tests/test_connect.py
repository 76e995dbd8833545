"""The arguments of `connect`, and the errors about wrong ones."""

from __future__ import annotations

import os
import subprocess
import sys
import uuid
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import cobre_comm as cc
import pytest

NAME = f"cobre-test-{uuid.uuid4().hex}"


def test_a_program_that_is_started_alone_is_one_rank() -> None:
    with cc.connect(timeout=5) as comm:
        assert (comm.rank, comm.size, comm.backend, comm.is_leader) == (0, 1, "local", True)
        assert repr(comm) == "<cobre_comm.Communicator rank 0 of 1 on local>"
    with pytest.raises(ValueError, match=r"^the communicator is closed; connect again"):
        comm.allreduce(1)


def test_settings_stand_for_variables() -> None:
    # Threads of one process can be ranks, too, if each has its own communicator.
    def rank(number: int) -> float:
        with cc.connect("shm", name=NAME, rank=number, size=3, timeout=30, connect_timeout=30.5) as comm:
            return float(comm.allreduce(comm.rank + 0.5))

    with ThreadPoolExecutor(3) as threads:
        assert list(threads.map(rank, range(3))) == [4.5] * 3


@pytest.mark.parametrize(
    ("backend", "settings", "error", "words"),
    [
        ("smh", {}, cc.BackendError, r'^backend: there is no backend "smh", did you mean "shm"; this program has tcp, shm, local'),
        ("mpi", {}, cc.BackendError, r"^backend: this package has no mpi, it has tcp, shm, local; .*mpiexec .*connect\(\)"),
        (5, {}, TypeError, r"^backend: an int is no name; pass"),
        ("local", {"rank": 0}, TypeError, r"^rank: the local backend has no such setting; it has timeout"),
        ("shm", {"color": 1}, TypeError, r"^color: the shm backend has no such setting; it has name, rank, size"),
        ("shm", {}, cc.BackendError, r"^shm: COBRE_SHM_NAME, COBRE_SHM_RANK, COBRE_SHM_SIZE not set"),
        ("shm", {"name": "a/b", "rank": 0, "size": 1}, cc.BackendError, r"a name contains no slash"),
        ("shm", {"name": NAME, "rank": 4, "size": 4}, cc.BackendError, r"ranks go from 0 to 3"),
        ("shm", {"name": NAME, "rank": "x", "size": 4}, cc.BackendError, r"COBRE_SHM_RANK"),
        ("shm", {"name": NAME, "rank": None, "size": 4}, TypeError, r"^rank: None is no value for a setting"),
        ("shm", {"name": NAME, "rank": 0, "size": 1, "connect_timeout": -1}, ValueError, r"^connect_timeout: -1 is no number"),
        (
            "shm",
            {"name": NAME, "rank": 0, "size": 1, "connect_timeout": 1e300},
            ValueError,
            r"^connect_timeout: 1e\+300 is no .*to 1e9",
        ),
        ("shm", {"name": NAME, "rank": 0, "size": 2, "connect_timeout": 0.2}, cc.BackendError, r"rank 1"),
        ("tcp", {"coordinator": "127.0.0.1", "port": 0, "rank": 0, "size": 2, "connect_timeout": 0.2}, cc.BackendError, r"rank 1"),
    ],
)
def test_what_cannot_be_connected_is_explained(backend: Any, settings: dict[str, Any], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        cc.connect(backend, **settings)


def test_a_backend_of_the_environment_that_is_not_there_is_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COBRE_COMM_BACKEND", "mpi")
    with pytest.raises(cc.BackendError, match=r"^COBRE_COMM_BACKEND: this package has no mpi, it has tcp, shm, local; "):
        cc.connect()


@pytest.mark.parametrize("empty", ["", " "])
def test_an_empty_variable_leaves_its_value_to_the_launcher(monkeypatch: pytest.MonkeyPatch, empty: str) -> None:
    launcher = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29500", "RANK": "0", "WORLD_SIZE": "1"}
    ours = dict.fromkeys(["COBRE_TCP_COORDINATOR", "COBRE_TCP_RANK", "COBRE_TCP_SIZE"], empty)
    for name, value in {**launcher, **ours}.items():
        monkeypatch.setenv(name, value)
    with cc.connect("tcp") as comm:
        assert (comm.rank, comm.size, comm.backend) == (0, 1, "tcp")


def test_a_free_threaded_python_is_refused_at_import() -> None:
    program = "import sysconfig; sysconfig.get_config_vars()['Py_GIL_DISABLED'] = 1; import cobre_comm"
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, env={**os.environ})
    assert run.returncode == 1
    assert "ImportError: cobre_comm does not work with free-threaded Python" in run.stderr
