"""The package in a notebook: with `--other ipykernel`, a real kernel runs the cells."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.other("ipykernel")

PATIENCE = 60.0


class Notebook:
    """A kernel, and the output of its cells."""

    def __init__(self, folder: Path) -> None:
        from jupyter_client import manager

        self.kernel: Any
        self.client: Any
        self.kernel, self.client = manager.start_new_kernel(startup_timeout=PATIENCE, kernel_name="python3", cwd=str(folder))

    def start(self, cell: str) -> str:
        """Starts a cell."""
        cell_id: str = self.client.execute(cell)
        return cell_id

    def follow(self, cell_id: str, until: str | None = None) -> tuple[str, str]:
        """Returns the output of the cell and its result or exception; with `until`, as soon as the cell has printed that text."""
        printed, result = "", ""
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            message = self.client.get_iopub_msg(timeout=PATIENCE)
            if message["parent_header"].get("msg_id") != cell_id:
                continue
            kind, content = message["msg_type"], message["content"]
            if kind == "stream":
                printed += content["text"]
                if until is not None and until in printed:
                    return printed, result
            elif kind == "execute_result":
                result = content["data"]["text/plain"]
            elif kind == "error":
                result = content["ename"] + ": " + content["evalue"]
            elif kind == "status" and content["execution_state"] == "idle":
                return printed, result
        raise TimeoutError(f"the cell did not end; it printed {printed!r}")

    def run(self, cell: str) -> tuple[str, str]:
        return self.follow(self.start(cell))


@pytest.fixture(scope="module")
def notebook(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Notebook]:
    notebook = Notebook(tmp_path_factory.mktemp("notebook"))
    notebook.run("import os, time\nimport numpy as np\nimport cobre_comm as cc")
    yield notebook
    notebook.client.stop_channels()
    notebook.kernel.shutdown_kernel(now=True)


def test_a_function_of_a_cell_runs_on_ranks(notebook: Notebook) -> None:
    notebook.run(
        "factor = 3\nclass Point:\n    def __init__(self, x): self.x = x\n    def __repr__(self): return f'Point({self.x})'"
    )
    cell = (
        "def work(comm):\n    print('rank', comm.rank)\n    return Point(factor * comm.allreduce(comm.rank))\ncc.run(work, ranks=2)"
    )
    printed, result = notebook.run(cell)
    assert sorted(printed.splitlines()) == ["[0] rank 0", "[1] rank 1"]
    assert result == "[Point(3), Point(3)]"
    # The class of the result is the one of the notebook, not a copy.
    assert notebook.run("type(cc.run(work, ranks=1)[0]) is Point")[1] == "True"


def test_an_error_of_a_rank_is_the_error_of_the_cell(notebook: Notebook) -> None:
    cell = "def fails(comm):\n    if comm.rank == 1: raise ValueError('bad luck')\n    comm.barrier()\ncc.run(fails, ranks=2)"
    _, result = notebook.run(cell)
    assert result.startswith("WorkerError: rank 1 raised ValueError: bad luck")
    assert "in fails" in result


def test_a_progress_bar_moves_while_the_ranks_work(notebook: Notebook, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    cell = f"""
def bar(comm):
    if comm.rank == 0:
        print("\\r50%", end="")
        end = time.monotonic() + {PATIENCE}
        while not os.path.exists({str(gate)!r}):
            assert time.monotonic() < end
            time.sleep(0.01)
        print("\\r100%")
cc.run(bar, ranks=2)
"""
    cell_id = notebook.start(cell)
    printed, _ = notebook.follow(cell_id, until="50%")
    assert "[0] 50%" in printed
    gate.touch()
    printed, _ = notebook.follow(cell_id)
    assert "[0] 100%\n" in printed


@pytest.mark.parametrize("work", ["comm.barrier()", "time.sleep(0.01)", "sum(range(1000))"])
def test_an_interrupt_ends_the_ranks(notebook: Notebook, work: str) -> None:
    cell = f"def forever(comm):\n    print('pid', os.getpid())\n    while True: {work}\ncc.run(forever, ranks=2)"
    cell_id = notebook.start(cell)
    pids: list[int] = []
    while len(pids) < 2:
        printed, _ = notebook.follow(cell_id, until="\n")
        pids += [int(line.split()[-1]) for line in printed.splitlines()]
    notebook.kernel.interrupt_kernel()
    _, result = notebook.follow(cell_id)
    assert result.startswith("KeyboardInterrupt")
    for pid in pids:
        assert not Path(f"/proc/{pid}").exists(), os.listdir("/proc")
    assert notebook.run("cc.run(lambda comm: comm.size, ranks=2)")[1] == "[2, 2]"
