"""Options and fixtures of the tests."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--kills", type=int, default=5, help="how often a random rank is killed")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "kill" in metafunc.fixturenames:
        metafunc.parametrize("kill", range(metafunc.config.getoption("--kills")))


@pytest.fixture
def built() -> Path:
    """Returns the folder of what `cargo xtask python` has built."""
    folder = os.environ.get("COBRE_COMM_TARGET")
    if folder is None:
        pytest.skip("needs what `cargo xtask python` builds: the example hello, and the wheel")
    return Path(folder)
