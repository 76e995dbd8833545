"""Runs two jobs at once from one process, as a server that answers requests does.

Each request has its own thread and its own job. The server is not a rank: it must survive a failed job, and collectives of
different requests must not mix.
"""

from concurrent.futures import ThreadPoolExecutor

import cobre_comm as cc
import numpy as np


def simulate(comm: cc.Communicator, seed: int, samples: int) -> float:
    """Estimates pi; every rank throws its share of the darts."""
    darts = np.random.default_rng([seed, comm.rank]).random((samples // comm.size, 2))
    inside = int(((darts**2).sum(axis=1) < 1).sum())
    return 4 * comm.allreduce(inside) / (samples // comm.size * comm.size)


def answer(request: tuple[str, int, int]) -> str:
    """Answers one request; a failed job also gives an answer."""
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
