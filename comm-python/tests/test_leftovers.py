"""Nothing is left behind when ranks or their caller are ended."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import calls
import cobre_comm as cc
import pytest

MARK = "COBRE_COMM_TEST_MARK"
PATIENCE = 30.0


def eventually(what: str, holds: Callable[[], object]) -> None:
    until = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < until, what
        time.sleep(0.01)


def processes(mark: str) -> list[int]:
    """Returns the living processes, except this one, that carry the mark in their environment."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit() and int(folder.name) != os.getpid():
            try:
                marked = f"{MARK}={mark}".encode() in (folder / "environ").read_bytes().split(b"\0")
                if marked and ") Z " not in (folder / "stat").read_text():
                    found.append(int(folder.name))
            except OSError:
                continue
    return found


class Traces:
    """The things that a job could leave behind: marked processes, names in shared memory, temporary files."""

    def __init__(self, mark: str, temporary: Path) -> None:
        self.mark, self.temporary = mark, temporary

    def check(self) -> None:
        """Waits until nothing is left. Names in shared memory contain the ids of the jobs."""
        eventually(f"processes are left: {processes(self.mark)}", lambda: not processes(self.mark))
        eventually("a file is left", lambda: not list(self.temporary.iterdir()))
        eventually("a segment is left", lambda: not self.segments())

    def segments(self) -> list[str]:
        """Returns the segments that belong to jobs of these tests: a file holds the ids of the jobs."""
        noted = Path(f"{self.temporary}.jobs")
        names = noted.read_text().split() if noted.exists() else []
        return [name for name in os.listdir("/dev/shm") for job in names if job in name]


@pytest.fixture
def traces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Traces:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    mark = f"{os.getpid()}-{tmp_path.name}"
    monkeypatch.setenv(MARK, mark)
    monkeypatch.setenv("TMPDIR", str(temporary))
    monkeypatch.setenv("COBRE_COMM_TEST_JOBS", f"{temporary}.jobs")
    return Traces(mark, temporary)


def announced(file: Path, ranks: int) -> list[int]:
    """Waits until every rank has written its process id, and returns the ids."""
    files = [Path(f"{file}.{rank}") for rank in range(ranks)]
    eventually("the ranks have started", lambda: all(path.exists() and path.read_text() for path in files))
    pids = [int(path.read_text()) for path in files]
    for path in files:
        path.unlink()
    return pids


CALLER = """
import sys
import threading
import calls, cobre_comm as cc
try:
    cc.run(calls.works, ranks=3, args=(sys.argv[1],), backend=sys.argv[2])
except KeyboardInterrupt:
    print("interrupted", flush=True)
    raise
"""


def caller(file: Path, backend: str) -> subprocess.Popen[str]:
    command = ["env", "--default-signal=INT", sys.executable, "-c", CALLER, str(file), backend]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parent)}
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.mark.parametrize("backend", ["shm", "tcp"])
def test_ctrl_c_ends_everybody(traces: Traces, tmp_path: Path, backend: str) -> None:
    with caller(tmp_path / "rank", backend) as process:
        announced(tmp_path / "rank", 3)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=PATIENCE)
    assert out == "interrupted\n", err
    assert "KeyboardInterrupt" in err
    assert process.returncode == -signal.SIGINT
    traces.check()


@pytest.mark.parametrize("backend", ["shm", "tcp"])
def test_nothing_outlives_a_caller_that_is_killed(traces: Traces, tmp_path: Path, backend: str) -> None:
    with caller(tmp_path / "rank", backend) as process:
        announced(tmp_path / "rank", 3)
        process.kill()
        process.communicate(timeout=PATIENCE)
    traces.check()


def test_a_kill_of_a_random_rank_leaves_nothing(traces: Traces, tmp_path: Path, kill: int) -> None:
    seed = random.randrange(1 << 32)
    chance = random.Random(seed)
    ranks, backend = chance.choice([2, 3, 4]), chance.choice(["shm", "tcp"])
    victim, pause = chance.randrange(ranks), chance.random() * 0.02

    def strike() -> None:
        pid = announced(tmp_path / "rank", ranks)[victim]
        # At a random moment of a collective.
        time.sleep(pause)
        os.kill(pid, signal.SIGKILL)

    killer = threading.Thread(target=strike)
    killer.start()
    with pytest.raises(cc.WorkerError) as caught:
        cc.run(calls.works, ranks=ranks, args=(str(tmp_path / "rank"),), backend=backend, timeout=4 * PATIENCE)
    killer.join()
    assert (caught.value.rank, caught.value.signal) == (victim, signal.SIGKILL), (seed, kill, caught.value)
    traces.check()


def test_an_idle_job_leaves_nothing(traces: Traces) -> None:
    assert len(cc.run(calls.place, ranks=4)) == 4
    traces.check()
