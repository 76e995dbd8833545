"""Every code block of the guides that needs the package runs and prints the output below it."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parent.parent.parent
BLOCK = re.compile(r"^<!-- ([^\n]*) -->\n```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


class Block(NamedTuple):
    guide: str
    mark: str
    language: str
    text: str
    output: str | None


def blocks() -> list[Block]:
    found = []
    for guide in ("python", "server"):
        marked = BLOCK.findall((ROOT / "docs/guides" / f"{guide}.md").read_text())
        for (mark, language, text), (below, _, output) in zip(marked, [*marked[1:], ("", "", "")], strict=True):
            if mark.startswith("run: package"):
                found.append(Block(guide, mark, language, text, output if below == "output" else None))
    return found


def test_there_are_blocks() -> None:
    assert len(blocks()) == 8


ALONE_IN_A_FILE = [block for block in blocks() if block.language == "python" and not block.mark.endswith("server")]


@pytest.mark.parametrize("block", ALONE_IN_A_FILE, ids=lambda block: block.guide)
def test_a_block_prints_what_stands_below_it(block: Block, tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(block.text)
    command = [sys.executable, "-c", block.text] if block.mark.endswith("prompt") else [sys.executable, str(program)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, cwd=tmp_path)
    assert ended.returncode == 0, ended.stderr
    if block.output is not None:
        # Ranks print in any order.
        assert sorted(ended.stdout.splitlines()) == sorted(block.output.splitlines())
    else:
        assert "100 %" in ended.stdout


SDK = """
import asyncio, json, sys

class MCPServer:
    def __init__(self, name, lifespan):
        self.lifespan, self.tools = lifespan, {}

    def tool(self):
        return lambda function: self.tools.setdefault(function.__name__, function)

    def run(self):
        asyncio.run(self.serve())

    async def serve(self):
        wire = sys.stdout.buffer
        async with self.lifespan(self):
            await asyncio.gather(*[self.answer(json.loads(line), wire) for line in sys.stdin])

    async def answer(self, call, wire):
        result = await self.tools[call["tool"]](**call["arguments"])
        wire.write(json.dumps({"id": call["id"], "result": result}).encode() + b"\\n")
        wire.flush()
"""
"""A stand-in for the official SDK: it takes the stream of `sys.stdout` when its transport starts, as the SDK does."""


def test_the_server_speaks_its_protocol_while_ranks_print(tmp_path: Path) -> None:
    (block,) = (block for block in blocks() if block.mark == "run: package server")
    (tmp_path / "server.py").write_text(block.text)
    (tmp_path / "mcp/server").mkdir(parents=True)
    (tmp_path / "mcp/server/mcpserver.py").write_text(SDK)
    calls = [json.dumps({"id": n, "tool": "total", "arguments": {"n": n}}) for n in (3, 5)]
    ended = subprocess.run(
        [sys.executable, "server.py"],
        input="\n".join(calls),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        cwd=tmp_path,
    )
    assert ended.returncode == 0, ended.stderr
    answers = sorted((json.loads(line) for line in ended.stdout.splitlines()), key=lambda answer: answer["id"])
    assert answers == [{"id": n, "result": str([2 * n] * 2)} for n in (3, 5)]
    # Two ranks of two jobs printed, but not into the protocol.
    assert sorted(re.findall(r"^\[\d\] adding \d$", ended.stderr, re.MULTILINE)) == [
        f"[{rank}] adding {n}" for rank in (0, 1) for n in (3, 5)
    ]


ALONE = [
    ["python", "-m", "cobre_comm.run", "-n", "4", "hello.py"],
    ["comm-run", "-n", "2", "--backend", "tcp", "hello.py"],
    ["python", "kmeans.py"],
    ["python", "two_jobs.py"],
]
"""Works where only the package is installed: no tools, and no Rust in the path."""


def test_the_shell_commands_install_into_an_empty_environment_and_run(built: Path, tmp_path: Path) -> None:
    (block,) = (block for block in blocks() if block.mark == "run: package shell")
    (tmp_path / "target").mkdir()
    (tmp_path / "target/wheels").symlink_to(built / "wheels")
    for example in (ROOT / "comm-python/examples").glob("*.py"):
        shutil.copy(example, tmp_path)
    path = f"{Path(sys.base_prefix) / 'bin'}:{os.defpath}"
    environment = {name: value for name, value in os.environ.items() if name not in ("VIRTUAL_ENV", "PYTHONPATH")}
    ended = subprocess.run(
        ["sh", "-eu", "-c", block.text],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        cwd=tmp_path,
        env={**environment, "PATH": path},
    )
    assert ended.returncode == 0, ended.stderr
    assert sum(" of 2: sum " in line for line in ended.stdout.splitlines()) == 2
    programs = tmp_path / "env/bin"
    for name, *words in ALONE:
        ended = subprocess.run(
            [programs / name, *words],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
            cwd=tmp_path,
            env={**environment, "PATH": f"{programs}:{os.defpath}"},
        )
        assert ended.returncode == 0, (name, words, ended.stderr)
