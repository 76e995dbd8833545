"""Finds clusters among points that are in memory only once, however many ranks read them.

``python kmeans.py`` starts four ranks; ``python kmeans.py clusters.png`` also draws the clusters, if matplotlib is installed. The
second argument ``tcp`` runs the ranks over sockets, where every rank has its own points.
"""

import sys

import cobre_comm as cc
import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def scatter_points(rng: np.random.Generator, count: int, clusters: int) -> Floats:
    """Returns points around the corners of a polygon."""
    angles = 2 * np.pi * rng.integers(0, clusters, count) / clusters
    centres = 4 * np.column_stack([np.cos(angles), np.sin(angles)])
    return centres + rng.normal(size=(count, 2))


def nearest(points: Floats, centres: Floats) -> NDArray[np.intp]:
    """Returns the number of the nearest centre for every point."""
    squared = ((points[:, None, :] - centres[None, :, :]) ** 2).sum(axis=2)
    labels: NDArray[np.intp] = squared.argmin(axis=1)
    return labels


def kmeans(comm: cc.Communicator, count: int, clusters: int, seed: int) -> tuple[Floats, int, Floats | None]:
    """Returns the centres, the number of rounds, and on rank 0 some of the points to draw."""
    # Every rank fills its part of one array; after the fence every rank can read all parts of its machine.
    points = comm.partitioned_array((count, 2), np.float64)
    points.part[:] = scatter_points(np.random.default_rng([seed, comm.rank]), count, clusters)
    points.fence()
    everything = points.array
    centres = everything[:clusters].copy()
    comm.broadcast(centres, root=0)
    machine = comm.split_local()
    mine = everything[machine.rank :: machine.size]
    rounds = 0
    while True:
        rounds += 1
        labels = nearest(mine, centres)
        # Sums and counts in one array, for one collective per round.
        sums = np.zeros((clusters, 3))
        np.add.at(sums, labels, np.column_stack([mine, np.ones(len(mine))]))
        sums = comm.allreduce(sums)
        moved = np.where(sums[:, 2:] > 0, sums[:, :2] / np.maximum(sums[:, 2:], 1), centres)
        # All ranks compute the same bits, so all of them stop in the same round.
        if np.abs(moved - centres).max() < 1e-9 or rounds == 100:
            break
        centres = moved
        if comm.rank == 0:
            print(f"\rround {rounds}", end="")
    if comm.rank == 0:
        print(f"\r{rounds} rounds over {count * comm.size} points")
    sample = everything[:: max(1, len(everything) // 2000)].copy() if comm.rank == 0 else None
    return moved, rounds, sample


def draw(centres: Floats, sample: Floats, file: str) -> None:
    """Draws points in the colour of their cluster."""
    try:
        import matplotlib
    except ImportError:
        print("no picture: matplotlib is not installed")
        return
    matplotlib.use("agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots()
    axes.scatter(sample[:, 0], sample[:, 1], c=nearest(sample, centres), s=4, cmap="tab10")
    axes.scatter(centres[:, 0], centres[:, 1], c="black", marker="x")
    axes.set_aspect("equal")
    figure.savefig(file)
    pyplot.close(figure)
    print(f"see {file}")


def main(file: str | None = None, backend: str = "shm") -> None:
    """Runs four ranks and prints their result."""
    results = cc.run(kmeans, ranks=4, args=(5000, 5, 7), backend=backend, timeout=120)
    centres, _rounds, sample = results[0]
    assert all(np.array_equal(centres, other) for other, _, _ in results)
    for x, y in sorted(centres.tolist()):
        print(f"centre at {x:6.3f} {y:6.3f}")
    if file is not None and sample is not None:
        draw(centres, sample, file)


if __name__ == "__main__":
    main(*sys.argv[1:3])
