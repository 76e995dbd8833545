"""Runs two jobs at once from one process, as a server does that answers requests.

Each request is a thread with a job of its own; the server itself is no rank, and goes on when a job fails.
"""

from concurrent.futures import ThreadPoolExecutor

import cobre_comm as cc
import numpy as np


def simulate(comm: cc.Communicator, seed: int, samples: int) -> float:
    """Estimates pi: every rank throws its share of the darts."""
    darts = np.random.default_rng([seed, comm.rank]).random((samples // comm.size, 2))
    inside = int(((darts**2).sum(axis=1) < 1).sum())
    return 4 * comm.allreduce(inside) / (samples // comm.size * comm.size)


def answer(request: tuple[str, int, int]) -> str:
    """Answers one request; an error becomes an answer, too."""
    backend, ranks, samples = request
    try:
        results = cc.run(simulate, ranks=ranks, args=(ranks, samples), backend=backend, timeout=60)
    except cc.WorkerError as error:
        return f"{backend} x {ranks}: failed: {type(error.__cause__).__name__}"
    return f"{backend} x {ranks}: pi is about {results[0]:.2f}"


def main() -> None:
    """Answers two requests at once, then one that fails."""
    with ThreadPoolExecutor(max_workers=2) as pool:
        for line in pool.map(answer, [("shm", 2, 200_000), ("tcp", 3, 300_000)]):
            print(line)
    print(answer(("shm", 2, 0)))


if __name__ == "__main__":
    main()
