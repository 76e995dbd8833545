"""Packs a call for the ranks, and unpacks it there."""

from __future__ import annotations

import importlib
import os
import pickle
import runpy
import sys
import types
from collections.abc import Callable, Mapping, Sequence
from typing import Any, BinaryIO

MAIN = "__mp_main__"
"""The name of the script's module in a rank: the same as in `multiprocessing`, so that guards and pickles work."""

_NEEDS_CLOUDPICKLE = (
    "; the ranks import a function by its module and name, and cannot import this one."
    " Install cloudpickle (pip install cloudpickle), or move it to the top level of a module"
)

_importing = False


def importing_main() -> bool:
    """Returns whether this rank imports the script right now."""
    return _importing


def pack(function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any] | None) -> list[bytes]:
    """Packs a call, by name if the ranks can import its names, otherwise by value. A file holds the pieces in order."""
    args, kwargs = _arguments(args, kwargs)
    named = {"function": function, "args": args, "kwargs": kwargs}
    main = _main()
    cloudpickle = _cloudpickle()
    parts: list[bytes] = []
    names_main = False
    for name, part in named.items():
        try:
            data = pickle.dumps(part, pickle.HIGHEST_PROTOCOL)
            names_main = names_main or _names_main(part, data)
            if main is None and names_main:
                raise pickle.PicklingError("it is defined in a notebook or at a prompt")
        except Exception as error:
            if cloudpickle is None:
                raise TypeError(f"{name}: {_shown(part)} cannot be sent: {error}{_NEEDS_CLOUDPICKLE}") from error
            break
        parts.append(data)
    else:
        return _enclose(main if names_main else None, parts)
    return _enclose(None, [_by_value(cloudpickle, name, part) for name, part in named.items()])


def _arguments(args: Sequence[Any], kwargs: Mapping[str, Any] | None) -> tuple[tuple[Any, ...], dict[str, Any]]:
    if isinstance(args, (str, bytes, Mapping)):
        raise TypeError(f"args: expected a sequence of arguments, not {type(args).__name__}; pass (argument,) for a single one")
    try:
        args = tuple(args)
    except TypeError:
        raise TypeError(f"args: expected a sequence of arguments, not {type(args).__name__}; pass a tuple or a list") from None
    try:
        kwargs = {} if kwargs is None else dict(kwargs)
    except (TypeError, ValueError):
        raise TypeError(f"kwargs: expected a mapping of arguments, not {type(kwargs).__name__}") from None
    for name in kwargs:
        if not isinstance(name, str):
            raise TypeError(f"kwargs: expected the names of arguments as keys, not {name!r}")
    return args, kwargs


def unpack(file: BinaryIO) -> tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]:
    """Unpacks a call in a rank, after it has set the caller's ``sys.path`` and imported the script under its name."""
    enclosed = pickle.load(file)
    sys.path[:] = enclosed["path"]
    sys.argv[:] = enclosed["argv"]
    if enclosed["main"] is not None:
        _import_main(*enclosed["main"])
    return pickle.load(file), pickle.load(file), pickle.load(file)


def dump(result: Any, file: Any) -> None:
    """Pickles a result, by value if the caller cannot import its type."""
    start = file.tell()
    try:
        pickle.dump(result, file, pickle.HIGHEST_PROTOCOL)
    except Exception:
        cloudpickle = _cloudpickle()
        if cloudpickle is None:
            raise
        file.seek(start)
        file.truncate()
        cloudpickle.dump(result, file)


def _names_main(part: object, data: bytes) -> bool:
    """Returns whether a pickle refers to the script, which has another name in a rank or a child of `multiprocessing`."""
    # These words may also be data of an argument. Only then is the part pickled a second time, because that takes time.
    if b"__main__" not in data and MAIN.encode() not in data:
        return False
    finder = _Finder()
    finder.dump(part)
    return finder.found


class _Nowhere:
    """A file that drops everything written to it."""

    def write(self, data: object) -> None:
        """Drops the data."""


class _Finder(pickle.Pickler):
    """Looks for references to the script while it pickles."""

    def __init__(self) -> None:
        super().__init__(_Nowhere(), pickle.HIGHEST_PROTOCOL)
        self.found = False

    def reducer_override(self, obj: object) -> Any:
        self.found = self.found or getattr(obj, "__module__", None) in ("__main__", MAIN)
        return NotImplemented


def _enclose(main: tuple[str, str] | None, parts: list[bytes]) -> list[bytes]:
    enclosed = {"path": sys.path, "argv": sys.argv, "main": main}
    return [pickle.dumps(enclosed, pickle.HIGHEST_PROTOCOL), *parts]


def _by_value(cloudpickle: Any, name: str, part: object) -> bytes:
    try:
        data: bytes = cloudpickle.dumps(part)
    except Exception as error:
        raise TypeError(f"{name}: {_shown(part)} cannot be sent, not even by cloudpickle: {error}") from error
    return data


def _shown(part: object) -> str:
    return str(getattr(part, "__qualname__", None) or type(part).__qualname__)


def _cloudpickle() -> Any:
    try:
        return importlib.import_module("cloudpickle")
    except ImportError:
        return None


def _main() -> tuple[str, str] | None:
    """Returns how a rank can import the main module of this process: by name or by path; ``None`` for a notebook or a prompt."""
    main = sys.modules["__main__"]
    # The result of a rank may refer to it.
    sys.modules.setdefault(MAIN, main)
    spec = getattr(main, "__spec__", None)
    if spec is not None and spec.name != "__main__":
        return ("name", spec.name)
    path = getattr(main, "__file__", None)
    if path is not None and os.path.isfile(path) and not hasattr(sys, "ps1"):
        return ("path", os.path.abspath(path))
    return None


def _import_main(way: str, where: str) -> None:
    global _importing
    _importing = True
    try:
        by_name = way == "name"
        names = runpy.run_module(where, run_name=MAIN, alter_sys=True) if by_name else runpy.run_path(where, run_name=MAIN)
    finally:
        _importing = False
    module = types.ModuleType(MAIN)
    module.__dict__.update(names)
    sys.modules["__main__"] = sys.modules[MAIN] = module
