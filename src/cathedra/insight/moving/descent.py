"""First moves that make room, found without going back: for gangs and clusters too large to search exhaustively.

The pods with the most devices are placed first, each on the fullest node that has room. Without one, the node is
cleared on which the fewest claims have to move; their pods are placed in the same way. The result is a plan, and there
may be plans with fewer moves.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Final

from cathedra.api.core.core_v1 import Pod
from cathedra.insight.moving.domains import GangDomains
from cathedra.insight.moving.movable import Movables, Unit
from cathedra.insight.moving.search import MoveSolution, Place
from cathedra.insight.moving.world import MoveLayout, World

_COMPARED: Final = 6
"""Nodes that can be cleared for a pod, of which the one with the fewest claims to move is taken."""


def first_moves(movables: Movables, wanted: Sequence[Pod], most: int) -> MoveSolution | None:
    """Return moves of at most ``most`` claims with which all wanted pods have nodes; None if this way finds none."""
    descent = _Descent(movables, wanted, most)
    while descent.waiting:
        if not descent.place():
            return None
    return MoveSolution(descent.world, tuple(descent.moved))


class _Descent:
    """The pods that are placed, and those that wait for it."""

    def __init__(self, movables: Movables, wanted: Sequence[Pod], most: int) -> None:
        self._movables, self._left = movables, most
        self._units_of = {pod.metadata.uid: unit for unit in movables.units for pod in unit.pods}
        self._claim_units = {claim.metadata.uid: unit for unit in movables.units for claim in unit.claims}
        self.world = World(movables.state.including(wanted), MoveLayout(movables.state))
        self._domains = GangDomains(self.world.state)
        self.moved: list[Unit] = []
        self.waiting = list(wanted)

    def place(self) -> bool:
        """Place the pod with the most devices of those that wait; False if there is no room for it."""
        pod = max(self.waiting, key=self._devices)
        self.waiting.remove(pod)
        places = [
            (node, domain.values)
            for domain in self._domains.of(pod, self.world.state)
            for node in self.world.fitting(pod, domain).nodes
        ]
        if places:
            return self._enter(self.world, pod, max(places, key=lambda place: self._held(place[0])))
        return self._clear(pod)

    def _devices(self, pod: Pod) -> int:
        """Return the number of devices that the pod's claims request, as far as they name it."""
        requests = (one for claim in self.world.claims_of(pod) for one in claim.spec.devices.requests or ())
        return sum((one.exactly.count or 1) if one.exactly is not None else 1 for one in requests)

    def _held(self, node: str) -> int:
        """Return the number of devices in the node's reach that are in use."""
        return sum(
            len(claim.status.allocation.devices.results)
            for pool in self.world.layout.reach(node)
            for claim in self.world.by_pool.get(pool, ())
            if claim.status.allocation is not None
        )

    def _enter(self, world: World, pod: Pod, place: Place) -> bool:
        placed = world.placed(pod, *place)
        if placed is None:
            return False
        self.world = placed
        return True

    def _clear(self, pod: Pod) -> bool:
        """Place the pod where the fewest claims have to move for it."""
        found: list[tuple[int, int, str, list[Unit], Place]] = []
        seen: set[Hashable] = set()
        domains = self._domains.of(pod, self.world.state)
        # Nodes with little on them first: of these, few have to be compared.
        there = ((node.metadata.name, self._there(node.metadata.name)) for node in self.world.state.nodes)
        ordered = sorted(there, key=lambda one: (sum(unit.size for unit in one[1]), one[0]))
        for node, units, domain in ((*one, domain) for one in ordered if one[1] for domain in domains):
            if len(found) == _COMPARED:
                break
            form = (self.world.form(node), domain)
            if node not in domain.nodes or form in seen:
                continue
            seen.add(form)
            place = (node, domain.values)
            chosen = self._needed(pod, place, units)
            size = sum(unit.size for unit in chosen)
            if chosen and size <= self._left and self._movables.allows((*self.moved, *chosen)):
                found.append((size, max(unit.priority for unit in chosen), node, chosen, place))
        if not found:
            return False
        size, _, _, chosen, place = min(found, key=lambda one: one[:3])
        self.moved += chosen
        self._left -= size
        self.waiting += [one for unit in chosen for one in unit.pods]
        return self._enter(self.world.after(chosen), pod, place)

    def _there(self, node: str) -> list[Unit]:
        """Return the units with a pod on the node or a device in its reach that have not been moved."""
        gone = {unit.key for unit in self.moved}
        pods = (self._units_of.get(pod.metadata.uid) for pod in self.world.by_node.get(node, ()))
        claims = (
            self._claim_units.get(claim.metadata.uid)
            for pool in self.world.layout.reach(node)
            for claim in self.world.by_pool.get(pool, ())
        )
        found = {unit.key: unit for unit in (*pods, *claims) if unit is not None and unit.key not in gone}
        return sorted(found.values(), key=lambda unit: (-unit.size, -unit.priority, -unit.seconds, unit.key))

    def _needed(self, pod: Pod, place: Place, units: Sequence[Unit]) -> list[Unit]:
        """Return the units without which the pod fits; empty if it does not fit without all of them."""
        node, values = place
        chosen = list(units)
        if node not in self.world.after(chosen).on(node, pod, values).nodes:
            return []
        # The units that are worst to move are kept first.
        for unit in units:
            rest = [one for one in chosen if one is not unit]
            if rest and node in self.world.after(rest).on(node, pod, values).nodes:
                chosen = rest
        return chosen
