"""How often a pod fits on one node of each kind: asked of profiles, without a cluster.

python examples/platform/kinds_of_nodes.py MANIFESTS PROFILE...
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

from cathedra.allocation import Cluster, how_many
from cathedra.api.resource import DeviceClass
from cathedra.insight import profiled_node
from cathedra.profiles import load_profile


def room(manifests: Path, name: str, classes: Iterable[DeviceClass]) -> int:
    """How many pods of the manifests one node of the profile holds, as far as devices go."""
    cluster = Cluster.of([*classes, *profiled_node(load_profile(name), "node")])
    return sum(how_many(manifests, cluster, limit=100).values())


def main() -> None:
    """Print one line for each kind."""
    manifests, *names = sys.argv[1:]
    # A request for a class that does not exist is an error, and no «no»: all drivers are taken to be installed.
    classes = [one for name in names for one in load_profile(name).device_classes]
    for name in names:
        print(f"{name:<12} {room(Path(manifests), name, classes)}")


if __name__ == "__main__":
    main()
