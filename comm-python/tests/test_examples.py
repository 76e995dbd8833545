"""The examples work as described, and `hello` prints the same bits as its twin in Rust."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

EXAMPLES = Path(__file__).parent.parent / "examples"


def run(*command: str | Path, **variables: str) -> list[str]:
    environment = {**os.environ, **variables}
    ended = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, env=environment)
    assert ended.returncode == 0, ended.stderr
    return sorted(ended.stdout.splitlines())


def launched(ranks: int, backend: str, *command: str | Path) -> list[str]:
    words = ["-m", "cobre_comm.run", "-n", str(ranks), "--backend", backend, "--"]
    return run(sys.executable, *words, *command)


def test_hello_prints_the_bits_of_rust_on_every_backend(built: Path) -> None:
    rust = built / "programs/python/debug/examples/hello"
    python = EXAMPLES / "hello.py"
    assert run(sys.executable, python) == run(rust)
    for backend in ("shm", "tcp"):
        for ranks in (1, 2, 3, 4):
            lines = launched(ranks, backend, python)
            assert len(lines) == ranks
            assert lines == launched(ranks, backend, rust), (backend, ranks)


def test_kmeans_finds_the_same_centres_on_every_backend(tmp_path: Path) -> None:
    found = {}
    for backend in ("shm", "tcp"):
        picture = tmp_path / f"{backend}.png"
        lines = run(sys.executable, EXAMPLES / "kmeans.py", picture, backend)
        found[backend] = [line for line in lines if line.startswith("centre")]
        assert len(found[backend]) == 5
        assert picture.exists() or "no picture: matplotlib is not installed" in lines
    assert found["shm"] == found["tcp"]


def test_two_jobs_at_once() -> None:
    lines = run(sys.executable, EXAMPLES / "two_jobs.py")
    assert lines == [
        "shm x 2: failed: ZeroDivisionError",
        "shm x 2: pi is about 3.14",
        "tcp x 3: pi is about 3.14",
    ]
