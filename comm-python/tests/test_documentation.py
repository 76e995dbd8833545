"""The examples in the documentation run."""

from __future__ import annotations

import doctest
import inspect
import types
from collections.abc import Iterator
from typing import Any

import cobre_comm as cc
import pytest


def documented() -> Iterator[tuple[str, Any]]:
    """Lists what has documentation: the package, what it exports, and the methods of that."""
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
