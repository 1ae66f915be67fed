"""Search for the fewest claims to move so that pods fit (iterative deepening over the number of claims).

A pod that fits nowhere is tried on each node without some of the units there; these then need nodes themselves, and may
displace others. A solution with one claim is looked for before one with two. Nodes of equal form, and units that are
exchangeable, are tried once. The number of trials is bounded, and the result states whether the bound was reached.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from itertools import combinations, islice
from typing import Final

import msgspec

from cathedra.api.core.core_v1 import Pod
from cathedra.insight.moving.domains import GangDomains
from cathedra.insight.moving.movable import Movables, Unit
from cathedra.insight.moving.world import MoveLayout, World
from cathedra.semantics.groupdomains import AttributeValue

MOST_TRIALS: Final = 5_000
"""Default bound on the trials of one search; a trial takes about 3 ms."""
MOST_MOVES: Final = 8
"""Default bound on the claims that are moved."""
_NODES_PER_TRIAL: Final = 20
"""A pod is tried on all nodes at once in the time that this many nodes take in a trial of one."""
_ALL_SUBSETS: Final = 8
"""Largest number of units on a node of which all subsets are tried; of more only those without a smaller one."""
_ALTERNATIVES: Final = 24
"""Solutions with equally many claims among which the one that does the least harm is chosen."""


Place = tuple[str, tuple[AttributeValue, ...]]
"""A node, and values that the devices of a pod must have there."""


class MoveOptions(msgspec.Struct, frozen=True):
    """Bounds of a search, its preferences, and whether the plan is proved."""

    moves: int = MOST_MOVES
    trials: int = MOST_TRIALS
    cheapest: bool = False
    """False: the fewest claims. True: the least harm, with up to `moves` claims."""
    evict: bool = True
    """True if pods of lower priority may be left without a node where no solution moves all."""
    prove: bool = True
    """True if a simulation takes the steps of the plan."""


DEFAULT_OPTIONS: Final = MoveOptions()


class MoveSolution(msgspec.Struct, frozen=True):
    """A state in which all wanted pods have nodes."""

    world: World
    moved: tuple[Unit, ...]
    evicted: tuple[Pod, ...] = ()
    """Pods of lower priority that find no other node."""

    @property
    def size(self) -> int:
        """The number of claims that are moved or evicted."""
        return sum(unit.size for unit in self.moved)

    @property
    def harm(self) -> tuple[int, int, int, float]:
        """Sort key: final evictions, pods without a controller, the highest priority, lost work."""
        bare = sum(unit.bare for unit in self.moved)
        top = max((unit.priority for unit in self.moved), default=0)
        return (len(self.evicted), bare, top, sum(unit.seconds for unit in self.moved))


class FoundMoves(msgspec.Struct, frozen=True):
    """The best solution, if there is one."""

    solution: MoveSolution | None
    trials: int
    complete: bool
    """True if the bound on trials was not reached, so that fewer claims are not enough."""


class _TooManyTrials(Exception):
    """The bound on trials is reached."""


def fewest_moves(movables: Movables, wanted: Sequence[Pod], options: MoveOptions = DEFAULT_OPTIONS) -> FoundMoves:
    """Return the solution that moves the fewest claims, or does the least harm.

    Pods are left without a node only where moves alone do not help.
    """
    search = _Search(movables, movables.units, wanted, options, 0)
    try:
        found = search.run(0)
        if found is None and options.evict:
            if movables.wholes is not movables.units:
                search = _Search(movables, movables.wholes, wanted, options, search.trials)
            found = search.run(options.moves)
    except _TooManyTrials:
        return FoundMoves(search.best, search.trials, False)
    return FoundMoves(found, search.trials, True)


class _Search:
    def __init__(
        self, movables: Movables, units: Sequence[Unit], wanted: Sequence[Pod], options: MoveOptions, trials: int
    ) -> None:
        """``trials``: those of searches before."""
        self._movables = movables
        self._wanted = {pod.metadata.uid for pod in wanted}
        self._priority = min(pod.spec.priority or 0 for pod in wanted)
        self._todo = tuple(wanted)
        self._options = options
        self._start = World(movables.state.including(wanted), MoveLayout(movables.state))
        self._units_of = {pod.metadata.uid: unit for unit in units for pod in unit.pods}
        self._claim_units = {claim.metadata.uid: unit for unit in units for claim in unit.claims}
        self._domains = GangDomains(self._start.state)
        self._fits: dict[Hashable, bool] = {}
        self.trials = trials
        self.best: MoveSolution | None = None

    def run(self, evictions: int) -> MoveSolution | None:
        """Return the best solution that leaves at most ``evictions`` pods without a node; None if there is none.

        Raises:
            _TooManyTrials: the bound is reached; `best` is the best one so far.
        """
        for size in range(self._options.moves + 1):
            self._failed: dict[Hashable, int] = {}
            found = self._solve(self._start, self._todo, size, (), (), evictions)
            for solution in islice(found, _ALTERNATIVES):
                self._note(solution)
                if not solution.moved:
                    break
            if self.best is not None and not self._options.cheapest:
                return self.best
        return self.best

    def _note(self, solution: MoveSolution) -> None:
        key = (solution.harm, solution.size) if self._options.cheapest else (solution.size, solution.harm)
        best = self.best
        if best is None or key < ((best.harm, best.size) if self._options.cheapest else (best.size, best.harm)):
            self.best = solution

    def _solve(
        self,
        world: World,
        todo: tuple[Pod, ...],
        left: int,
        moved: tuple[Unit, ...],
        evicted: tuple[Pod, ...],
        evictions: int,
    ) -> Iterator[MoveSolution]:
        """Yield solutions in which ``todo`` have nodes and at most ``left`` more claims are moved."""
        if not todo:
            if _whole(moved, evicted):
                yield MoveSolution(world, moved, evicted)
            return
        key = self._key(world, todo, moved)
        if self._failed.get(key, -1) >= left:
            return
        # Entered before the search of this state, so that a way back to it ends.
        self._failed[key] = left
        for pod in _distinct(world, todo):
            rest = tuple(one for one in todo if one is not pod)
            for node, values in self._direct(world, pod):
                placed = self._placed(world, pod, node, values)
                if placed is not None:
                    yield from self._solve(placed, rest, left, moved, evicted, evictions)
            for place, units in self._displacements(world, pod, left, moved):
                placed = self._placed(world.after(units), pod, *place)
                if placed is not None:
                    waiting = (*rest, *(one for unit in units for one in unit.pods))
                    size = sum(unit.size for unit in units)
                    yield from self._solve(placed, waiting, left - size, (*moved, *units), evicted, evictions)
            if evictions and self._may_evict(pod):
                yield from self._solve(world, rest, left, moved, (*evicted, pod), evictions - 1)

    def _key(self, world: World, todo: Sequence[Pod], moved: Sequence[Unit]) -> Hashable:
        pods = [one for one in self._todo if one not in todo]
        pods += [pod for unit in moved for pod in unit.pods]
        places = []
        for one in pods:
            now = world.state.get(Pod, one.metadata.name, one.metadata.namespace)
            devices = (
                (result.pool, result.device)
                for claim in world.claims_of(now or one)
                if claim.status.allocation is not None
                for result in claim.status.allocation.devices.results
            )
            places.append((one.metadata.uid, now.spec.node_name if now is not None else "", tuple(devices)))
        return frozenset(one.metadata.uid for one in todo), frozenset(places)

    def _may_evict(self, pod: Pod) -> bool:
        return pod.metadata.uid not in self._wanted and (pod.spec.priority or 0) < self._priority

    def _count(self, trials: int = 1) -> None:
        if self.trials >= self._options.trials:
            raise _TooManyTrials
        self.trials += trials

    def _direct(self, world: World, pod: Pod) -> Iterator[Place]:
        """Yield the places that a pod fits on, one of each form."""
        self._count(1 + len(world.state.nodes) // _NODES_PER_TRIAL)
        for domain in self._domains.of(pod, world.state):
            if domain.values:
                self._count(1 + len(domain.nodes) // _NODES_PER_TRIAL)
            # Per domain: of two equal nodes one may be in another domain than the rest of the gang.
            seen: set[Hashable] = set()
            for node in world.fitting(pod, domain).nodes:
                form = world.form(node)
                if form not in seen:
                    seen.add(form)
                    yield node, domain.values

    def _placed(self, world: World, pod: Pod, node: str, values: tuple[AttributeValue, ...]) -> World | None:
        self._count()
        return world.placed(pod, node, values)

    def _displacements(
        self, world: World, pod: Pod, left: int, moved: Sequence[Unit]
    ) -> Iterator[tuple[Place, tuple[Unit, ...]]]:
        """Yield places with units of at most ``left`` claims without which the pod fits there; the fewest first."""
        if left < 1:
            return
        gone = {unit.key for unit in moved}
        places: list[tuple[Place, list[Unit]]] = []
        for domain in self._domains.of(pod, world.state):
            seen: set[Hashable] = set()
            for node in (one.metadata.name for one in world.state.nodes if one.metadata.name in domain.nodes):
                form = world.form(node)
                if form in seen:
                    continue
                seen.add(form)
                there = [unit for unit in self._there(world, node) if unit.key not in gone and unit.size <= left]
                place = (node, domain.values)
                if there and self._fits_without(world, pod, place, there):
                    places.append((place, there))
        found: dict[Place, list[frozenset[str]]] = {}
        for size in range(1, left + 1):
            for place, there in places:
                for units in self._subsets(world, pod, place, there, size, found.setdefault(place, [])):
                    if self._movables.allows((*moved, *units)):
                        yield place, units

    def _there(self, world: World, node: str) -> list[Unit]:
        """Return the units with a pod on the node or a device in its reach."""
        found: dict[str, Unit] = {}
        for pod in world.by_node.get(node, ()):
            unit = self._units_of.get(pod.metadata.uid)
            if unit is not None:
                found[unit.key] = unit
        for pool in world.layout.reach(node):
            for claim in world.by_pool.get(pool, ()):
                unit = self._claim_units.get(claim.metadata.uid)
                if unit is not None:
                    found[unit.key] = unit
        return sorted(found.values(), key=lambda unit: (unit.bare, unit.priority, unit.seconds, unit.key))

    def _subsets(
        self,
        world: World,
        pod: Pod,
        place: Place,
        there: Sequence[Unit],
        size: int,
        smaller: list[frozenset[str]],
    ) -> Iterator[tuple[Unit, ...]]:
        """Yield the sets of units with ``size`` claims without which the pod fits."""
        seen: set[Hashable] = set()
        forms = {unit.key: str(world.unit_form(unit)) for unit in there}
        for count in range(1, size + 1):
            for units in combinations(there, count):
                if sum(unit.size for unit in units) != size:
                    continue
                keys = frozenset(unit.key for unit in units)
                if len(there) > _ALL_SUBSETS and any(one <= keys for one in smaller):
                    continue
                form = tuple(sorted(forms[unit.key] for unit in units))
                if form in seen:
                    continue
                seen.add(form)
                if self._fits_without(world, pod, place, units):
                    smaller.append(keys)
                    yield units

    def _fits_without(self, world: World, pod: Pod, place: Place, units: Sequence[Unit]) -> bool:
        node, values = place
        key = (pod.metadata.uid, place, frozenset(unit.key for unit in units), world.content(node))
        found = self._fits.get(key)
        if found is None:
            self._count()
            found = self._fits[key] = node in world.after(units).on(node, pod, values).nodes
        return found


def _whole(moved: Sequence[Unit], evicted: Sequence[Pod]) -> bool:
    """Return True if of each gang all pods are left without a node, or none: the others would be of no use."""
    gone = {pod.metadata.uid for pod in evicted}
    counts = ((len(gone & {pod.metadata.uid for pod in unit.pods}), len(unit.pods)) for unit in moved if unit.is_gang)
    return all(count in (0, size) for count, size in counts)


def _distinct(world: World, pods: Sequence[Pod]) -> Iterator[Pod]:
    """Yield one pod of each form."""
    seen: set[Hashable] = set()
    for pod in pods:
        form = world.pod_form(pod)
        if form not in seen:
            seen.add(form)
            yield pod
