"""Compare the search for moves with trying everything, on random small clusters, and count.

    python -m tools.compare_moves --clusters 1000

The suite does the same for a few seeds, with larger clusters.
"""

from __future__ import annotations

import argparse
import time
from collections import Counter
from random import Random

from tests.unit.insight.moving.clusters import random_cluster
from tests.unit.insight.moving.exhaustive import fewest_by_trying_all

from cathedra.api.core.core_v1 import Pod
from cathedra.insight.moving.movable import movables
from cathedra.insight.moving.search import MoveOptions, fewest_moves

OPTIONS = MoveOptions(evict=False, trials=100_000)


def compared(seed: int, pods: int) -> tuple[int | None, int | None]:
    """Return the number of moves that the search finds and that of trying everything; None: no moves help."""
    state, names = random_cluster(Random(seed), pods)
    wanted = [pod for name in names if (pod := state.get(Pod, name, "default")) is not None]
    known = movables(state, wanted[0].spec.priority or 0, [pod.metadata.uid for pod in wanted])
    found = fewest_moves(known, wanted, OPTIONS)
    assert found.complete, f"the search of seed {seed} reached its bound"
    size = found.solution.size if found.solution is not None else None
    return size, fewest_by_trying_all(known, wanted, OPTIONS.moves)


def main() -> int:
    """Print the counts of each number of moves, and the seeds that differ."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clusters", type=int, default=1000, help="number of clusters (default 1000)")
    parser.add_argument("--seed", type=int, default=1000, help="seed of the first one (default 1000)")
    parser.add_argument("--pods", type=int, default=3, help="number of pods that run, about (default 3)")
    options = parser.parse_args()
    counts: Counter[int | None] = Counter()
    different = 0
    began = time.process_time()
    for number, seed in enumerate(range(options.seed, options.seed + options.clusters), start=1):
        found, least = compared(seed, options.pods)
        counts[least] += 1
        if found != least:
            different += 1
            print(f"seed {seed}: the search finds {found}, and {least} are enough", flush=True)
        if number % 100 == 0 or number == options.clusters:
            moves = ", ".join(
                f"{'none helps' if one is None else one}: {counts[one]}" for one in sorted(counts, key=str)
            )
            seconds = time.process_time() - began
            print(
                f"{number} clusters, {different} different, {seconds:.0f} s of processor time; moves {moves}",
                flush=True,
            )
    return 1 if different else 0


if __name__ == "__main__":
    raise SystemExit(main())
