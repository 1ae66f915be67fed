"""The fewest moves by trying everything: all sets of units, all orders of pods, all nodes.

It shares with the search only the trial of one pod. States that were tried are kept, because many orders lead to the
same one.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import combinations

from cathedra.api.core.core_v1 import Pod
from cathedra.api.resource import ResourceClaim
from cathedra.insight.explanation.gangs import tried
from cathedra.insight.moving.movable import Movables, lifted
from cathedra.insight.reading.state import ClusterState

Places = frozenset[tuple[str, ...]]
"""UID, node and devices of each pod that is placed."""


def fewest_by_trying_all(known: Movables, pods: Iterable[Pod], most: int) -> int | None:
    """The number of claims of the smallest set of units that can be placed anew together with the pods."""
    wanted = list(pods)
    for size in range(most + 1):
        for count in range(size + 1):
            for units in combinations(known.units, count):
                if sum(unit.size for unit in units) != size or not known.allows(units):
                    continue
                waiting = [*wanted, *(one for unit in units for one in unit.pods)]
                if _all_fit(lifted(units, known.state), waiting, frozenset(), set()):
                    return size
    return None


def _all_fit(state: ClusterState, pods: list[Pod], places: Places, failed: set[Places]) -> bool:
    if not pods:
        return True
    if places in failed:
        return False
    failed.add(places)
    for pod in pods:
        rest = [one for one in pods if one is not pod]
        trial = tried(state.get(Pod, pod.metadata.name, pod.metadata.namespace) or pod, state)
        for node in trial.nodes:
            placement = trial.placement(node)
            if placement is None:
                continue
            place = (pod.metadata.uid, node, *_devices(placement))
            if _all_fit(trial.state.including(placement), rest, places | {place}, failed):
                return True
    return False


def _devices(objects: Iterable[Pod | ResourceClaim]) -> list[str]:
    return sorted(
        f"{result.pool}/{result.device}"
        for one in objects
        if isinstance(one, ResourceClaim) and one.status.allocation is not None
        for result in one.status.allocation.devices.results
    )
