"""Compares the package with mpi4py on MPICH and Open MPI, and with Rust, in turns, with two ranks.

In each round every contender runs once, and the round starts with another one. Ratios are computed within one round; the table
shows the median over the rounds.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from pathlib import Path
from statistics import median

from cobre_comm import _native

ROWS = ["barrier", "allreduce:8", "allreduce:8192", "allreduce:1048576", "allreduce:8388608", "allgatherv:16777216"]
MEASURE = str(Path(__file__).parent / "measure.py")
OURS, RUST = "cobre_comm", "Rust"
SECONDS = "0.2"
"""The time that every contender spends on a row, in each round."""

Figures = dict[str, float]


def contenders() -> dict[str, tuple[list[str], dict[str, str]]]:
    """Returns the commands and variables of the available contenders."""
    ranks = [sys.executable, "-m", "cobre_comm.run", "-n", "2", "--"]
    found: dict[str, tuple[list[str], dict[str, str]]] = {OURS: ([*ranks, sys.executable, MEASURE, OURS, SECONDS], {})}
    timings = os.environ.get("COMM_TIMINGS")
    if timings is not None:
        found[RUST] = ([*ranks, timings, "--seconds", SECONDS], {})
    peer = [sys.executable, MEASURE, "mpi4py", SECONDS]
    hydra = shutil.which("mpiexec.hydra", path=str(Path(sys.executable).parent))
    if hydra is not None:
        variables = {"MPI4PY_MPIABI": "mpich", "LD_LIBRARY_PATH": str(Path(sys.prefix) / "lib")}
        found["mpi4py, MPICH"] = ([hydra, "-n", "2", *peer], variables)
    openmpi = shutil.which("mpiexec.openmpi")
    if openmpi is not None:
        # With its defaults, except that it would wait without yielding if both ranks share one processor.
        crowded = {"OMPI_MCA_mpi_yield_when_idle": "1"} if len(os.sched_getaffinity(0)) < 2 else {}
        words = [openmpi, "--allow-run-as-root", "--oversubscribe", "-n", "2", *peer]
        found["mpi4py, Open MPI"] = (words, {"MPI4PY_MPIABI": "openmpi", **crowded})
    return found


def refuse_unoptimised() -> None:
    """Exits if a contender was built without optimisation, because its figures would be misleading."""
    timings = Path(os.environ.get("COMM_TIMINGS", ""))
    found = [] if _native.OPTIMISED else [f"the package in {sys.prefix}"]
    found += [str(timings)] if "debug" in timings.parts else []
    if found:
        advice = "run `cargo xtask python --bench`, which builds the contenders with optimisation"
        raise SystemExit(f"{' and '.join(found)}: built without optimisation; {advice}")


def run(command: list[str], variables: dict[str, str]) -> Figures:
    """Runs a contender once and returns its microseconds by row."""
    environment = {**os.environ, **variables}
    ended = subprocess.run([*command, *ROWS], env=environment, capture_output=True, text=True, timeout=600, check=False)
    if ended.returncode != 0:
        raise SystemExit(f"{' '.join(command)}: exit code {ended.returncode}\n{ended.stderr}")
    figures = {}
    for line in ended.stdout.splitlines():
        _, _, line = line.rpartition("] ")
        words = line.split(",")
        if words[0] == "timing":
            # Rust: call, bytes, calls, median, ..; Python: row, median.
            row = words[1] if len(words) == 3 else f"{words[1]}:{words[2]}".removesuffix(":0")
            figures[row] = float(words[2] if len(words) == 3 else words[4])
    missing = [row for row in ROWS if row not in figures]
    if missing:
        raise SystemExit(f"{' '.join(command)}: no figure for {missing}\n{ended.stdout}")
    return figures


def main() -> None:
    """Prints a table of microseconds and ratios."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=9)
    rounds = max(1, parser.parse_args().rounds)
    refuse_unoptimised()
    those = contenders()
    names = list(those)
    book: dict[str, list[Figures]] = {name: [] for name in names}
    try:
        for number in range(rounds):
            turn = number % len(names)
            for name in [*names[turn:], *names[:turn]]:
                book[name].append(run(*those[name]))
            print(f"\rround {number + 1} of {rounds}", end="", flush=True, file=sys.stderr)
    except KeyboardInterrupt:
        # Only complete rounds count.
        pass
    print(file=sys.stderr)
    rounds = min(map(len, book.values()))
    if rounds == 0:
        raise SystemExit("no round was completed")
    peers = [name for name in names if name not in (OURS, RUST)]
    print("| row | " + " | ".join(f"{name}, us" for name in names) + " | over the best mpi4py | over Rust |")
    print("|---|" + "---|" * (len(names) + 2))
    for row in ROWS:
        cells = [f"{median(figures[row] for figures in book[name][:rounds]):.3f}" for name in names]
        for group in (peers, [RUST] if RUST in names else []):
            ratios = [book[OURS][at][row] / min(book[name][at][row] for name in group) for at in range(rounds) if group]
            cells.append(f"{median(ratios):.2f}" if ratios else "")
        print(f"| {row} | " + " | ".join(cells) + " |")
    print("\nTargets: the first three rows at or below the best mpi4py; the others within 1.05 of Rust.")


if __name__ == "__main__":
    main()
