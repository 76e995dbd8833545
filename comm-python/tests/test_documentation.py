"""The examples in the documentation run."""

from __future__ import annotations

import ast
import doctest
import inspect
import itertools
import re
import subprocess
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cobre_comm as cc
import pytest


def documented() -> Iterator[tuple[str, Any]]:
    """Lists the documented objects: the package, its exports, and their methods."""
    yield "cobre_comm", cc
    for name in cc.__all__:
        member = getattr(cc, name)
        yield name, member
        if inspect.isclass(member):
            for inner, method in vars(member).items():
                if not inner.startswith("_") and not isinstance(method, types.MemberDescriptorType):
                    yield f"{name}.{inner}", method


EVERYTHING = dict(documented())


@pytest.mark.parametrize("name", [name for name, thing in EVERYTHING.items() if ">>>" in (thing.__doc__ or "")])
def test_examples_run(name: str) -> None:
    test = doctest.DocTestParser().get_doctest(EVERYTHING[name].__doc__, {}, name, None, None)
    report: list[str] = []
    doctest.DocTestRunner().run(test, out=report.append)
    assert not report, "".join(report)


def test_everything_is_documented() -> None:
    assert [name for name, thing in EVERYTHING.items() if not (thing.__doc__ or "").strip()] == []
    examples = sum(">>>" in (thing.__doc__ or "") for thing in EVERYTHING.values())
    assert examples >= 12


def test_the_documentation_of_allreduce_names_every_operation() -> None:
    with pytest.raises(ValueError, match="no operation") as refused:
        cc.connect("local").allreduce(1, op="unknown")  # type: ignore[call-overload]
    operations = re.findall(r'"\w+"', str(refused.value).split("pass")[1])
    assert len(operations) == 7
    documentation = cc.Communicator.allreduce.__doc__ or ""
    assert [name for name in operations if name not in documentation] == []


@pytest.mark.parametrize("name", ["split_local", "shared_array", "partitioned_array"])
def test_what_differs_over_tcp_says_so(name: str) -> None:
    assert 'Over ``"tcp"``' in (getattr(cc.Communicator, name).__doc__ or "")


def stubs() -> Iterator[tuple[str, str | None]]:
    """Lists the objects in the stub with their documentation; of overloads, the first one has it."""
    tree = ast.parse(Path(cc.__file__).with_name("_native.pyi").read_text())
    for node in tree.body:
        if isinstance(node, ast.FunctionDef):
            yield node.name, ast.get_docstring(node)
        if isinstance(node, ast.ClassDef) and node.name in cc.__all__:
            yield node.name, ast.get_docstring(node)
            methods = [inner for inner in node.body if isinstance(inner, ast.FunctionDef) and not inner.name.startswith("_")]
            for name, overloads in itertools.groupby(methods, key=lambda method: method.name):
                yield f"{node.name}.{name}", ast.get_docstring(next(overloads))


def test_the_stub_has_the_documentation_of_the_module() -> None:
    described = dict(stubs())
    assert described == {name: inspect.getdoc(EVERYTHING[name]) for name in described}
    native = [name for name, thing in EVERYTHING.items() if getattr(thing, "__module__", None) == "cobre_comm._native"]
    assert set(native) <= set(described)
    assert len(described) >= 25


def test_the_stub_has_the_names_and_arguments_of_the_module() -> None:
    command = [sys.executable, "-m", "mypy.stubtest", "--ignore-disjoint-bases", "cobre_comm._native"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
