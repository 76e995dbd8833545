"""Runs the checks of a module on the ranks of one job, and reports the result of each check."""

from __future__ import annotations

import functools
import importlib
import traceback
from collections.abc import Callable
from typing import Any

import cobre_comm as cc
import pytest

Check = Callable[[cc.Communicator], None]

WORLDS = [("local", 1), ("shm", 1), ("shm", 2), ("shm", 4), ("tcp", 1), ("tcp", 2), ("tcp", 4)]
"""Backends and numbers of ranks."""


def checks(module: str) -> dict[str, Check]:
    """Lists the checks of a module, in the order of their definition."""
    members = vars(importlib.import_module(module))
    return {name.removeprefix("check_"): check for name, check in members.items() if name.startswith("check_")}


MODULES: list[str] = []
"""The modules with checks in this test run."""


def play(comm: cc.Communicator, modules: list[str]) -> dict[str, str]:
    """Runs all checks on one rank; returns the result of each, up to the first failure."""
    found = {}
    for module in modules:
        for name, check in checks(module).items():
            try:
                check(comm)
            except BaseException:
                found[f"{module}.{name}"] = f"rank {comm.rank} of {comm.size}:\n{traceback.format_exc()}"
                # The other ranks get the failure, and do not wait.
                comm.close()
                return found
            found[f"{module}.{name}"] = ""
    return found


@functools.cache
def played(backend: str, ranks: int) -> list[dict[str, str]]:
    """Runs all checks of all modules in one job, because a job for each would take minutes."""
    if backend == "local":
        return [play(cc.connect("local"), MODULES)]
    return cc.run(play, ranks, args=(MODULES,), backend=backend, timeout=120)


def judge(module: str, backend: str, ranks: int, name: str) -> None:
    """Fails if a rank has found a failure."""
    name = f"{module}.{name}"
    everybody = [found.get(name, "not run, because a check before it failed") for found in played(backend, ranks)]
    report = "\n".join(what for what in everybody if what)
    if report:
        pytest.fail(report, pytrace=False)


def every(module: str) -> Callable[[Callable[..., None]], Any]:
    """Creates a test for every check of a module in every world."""
    names = list(checks(module))
    MODULES.append(module)
    cases = [(backend, ranks, name) for backend, ranks in WORLDS for name in names]
    return pytest.mark.parametrize(("backend", "ranks", "name"), cases, ids=lambda value: str(value))
