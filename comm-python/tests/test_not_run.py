"""Tests that did not run are reported to the file that collects them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

TESTS = """
import pytest

def test_that_runs():
    pass

@pytest.mark.xfail
def test_that_fails_as_expected():
    raise ValueError

def test_that_cannot():
    pytest.skip("no\\n  such thing")

@pytest.mark.other("jax")
def test_that_nobody_asked_for():
    import jax_is_not_here
"""


def test_a_test_that_is_skipped_is_named_with_its_reason(tmp_path: Path) -> None:
    shutil.copy(Path(__file__).with_name("conftest.py"), tmp_path)
    (tmp_path / "test_some.py").write_text(TESTS)
    (tmp_path / "test_none.py").write_text("import pytest\npytest.importorskip('not_here_at_all', reason='not here')\n")
    lines = tmp_path / "lines"

    def run(*options: str) -> int:
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options, str(tmp_path)]
        variables = {**os.environ, "COMM_NOT_RUN": str(lines)}
        return subprocess.run(command, cwd=tmp_path, env=variables, capture_output=True, timeout=120).returncode

    assert run() == 0
    found = sorted(lines.read_text().splitlines())
    assert found == [
        "comm-python test_none.py: not here",
        "comm-python test_some.py::test_that_cannot: no such thing",
    ]
    # A library that was requested and is missing is a failure.
    assert run("--other", "jax") == 1
