"""The benchmark refuses to measure a build without optimisation."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from cobre_comm import _native

COMPARE = Path(__file__).parent.parent / "bench/compare.py"


def test_figures_of_a_debug_build_are_refused() -> None:
    timings = "/somewhere/target/debug/examples/timings"
    environment = {**os.environ, "COMM_TIMINGS": timings}
    command = [sys.executable, str(COMPARE), "--rounds", "1"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, env=environment)
    assert ended.returncode == 1, ended.stdout
    assert ended.stdout == ""
    assert f"{timings}: built without optimisation; run `cargo xtask python --bench`" in ended.stderr
    assert ("the package in" in ended.stderr) != _native.OPTIMISED
