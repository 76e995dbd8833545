"""Executes the launcher `comm-run` of this package."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import NoReturn

PROGRAM = Path(__file__).parent / "_bin" / "comm-run"
"""The launcher."""


def main() -> NoReturn:
    """Replaces this process with ``comm-run``, with the same arguments. A program that ends in ``.py`` runs in this interpreter."""
    arguments = sys.argv[1:]
    # Subcommands such as `doctor` start no program.
    if arguments and arguments[0].startswith("-"):
        arguments = ["--python", sys.executable, *arguments]
    try:
        os.execv(PROGRAM, ["comm-run", *arguments])
    except OSError as error:
        sys.exit(f"comm-run: cannot execute {PROGRAM}: {error.strerror}; install the package from a wheel")
