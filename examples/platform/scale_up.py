"""Which nodes an autoscaler should add so that manifests fit, at the least price: tried on a copy of the cluster.

python examples/platform/scale_up.py DUMP MANIFESTS PROFILE=PRICE...
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from cathedra.insight import ClusterState, PlannedChanges, read_dump, simulate
from cathedra.profiles import load_profile

MOST = 4
"""Nodes that are added at most."""


def plans(state: ClusterState, manifests: Path, prices: dict[str, float]) -> Iterator[tuple[float, str, int]]:
    """For each kind of node: price, kind, and the smallest number with which nothing of ours stays pending."""
    before = {pod for one in simulate(state, copies=0).pending for pod in one.pods}
    for kind, price in prices.items():
        for count in range(1, MOST + 1):
            found = simulate(state, PlannedChanges(apply=manifests, add_nodes=[f"{count}={kind}"]), copies=0)
            if not {pod for one in found.pending for pod in one.pods} - before:
                yield count * price, kind, count
                break


def main() -> None:
    """Print the plans, the cheapest first."""
    dump, manifests, *given = sys.argv[1:]
    prices = {kind: float(price) for kind, _, price in (word.partition("=") for word in given)}
    # The drivers of all kinds are installed, so that their device classes exist.
    classes = [one for kind in prices for one in load_profile(kind).device_classes]
    state = read_dump(Path(dump)).including(classes)
    for price, kind, count in sorted(plans(state, Path(manifests), prices)):
        print(f"{price:6.2f}  {count} × {kind}")


if __name__ == "__main__":
    main()
