"""Options and fixtures of the tests."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--kills", type=int, default=5, help="how often a random rank is killed")
    libraries = ["ipykernel", "jax", "pandas", "torch"]
    words = "also run the tests of this library; may be repeated"
    parser.addoption("--other", action="append", choices=libraries, default=[], help=words)


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "other(library): runs only with `--other library`, and then fails if the library is missing")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselects the tests of libraries that were not requested."""
    asked = config.getoption("--other")

    def is_asked_for(item: pytest.Item) -> bool:
        mark = item.get_closest_marker("other")
        return mark is None or mark.args[0] in asked

    config.hook.pytest_deselected(items=[item for item in items if not is_asked_for(item)])
    items[:] = [item for item in items if is_asked_for(item)]


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    not_run(report)


def pytest_collectreport(report: pytest.CollectReport) -> None:
    not_run(report)


def not_run(report: pytest.TestReport | pytest.CollectReport) -> None:
    """Reports a test, or a file of tests, that did not run, and the reason, to `cargo xtask test`."""
    path = os.environ.get("COMM_NOT_RUN")
    if path is not None and report.skipped and isinstance(report.longrepr, tuple):
        reason = " ".join(report.longrepr[2].removeprefix("Skipped: ").split())
        with open(path, "a") as lines:
            lines.write(f"comm-python {report.nodeid}: {reason}\n")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "kill" in metafunc.fixturenames:
        metafunc.parametrize("kill", range(metafunc.config.getoption("--kills")))


@pytest.fixture
def built() -> Path:
    """Returns the folder with the files that `cargo xtask python` has built."""
    folder = os.environ.get("COBRE_COMM_TARGET")
    if folder is None:
        pytest.skip("needs the files that `cargo xtask python` builds: the example hello, and the wheel")
    return Path(folder)
