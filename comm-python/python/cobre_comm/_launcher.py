"""Executes the launcher that lies in this package: `comm-run`."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import NoReturn

PROGRAM = Path(__file__).parent / "_bin" / "comm-run"
"""The launcher."""


def main() -> NoReturn:
    """Becomes ``comm-run`` with the arguments of this process. A program that ends in ``.py`` runs in this interpreter."""
    arguments = sys.argv[1:]
    # Anything but a job, such as `doctor`, has no program.
    if arguments and arguments[0].startswith("-"):
        arguments = ["--python", sys.executable, *arguments]
    try:
        os.execv(PROGRAM, ["comm-run", *arguments])
    except OSError as error:
        sys.exit(f"comm-run: cannot execute {PROGRAM}: {error.strerror}; install the package from its wheel")
