"""Tests that are made before a search: for each option, the devices that pass every test which no placement can change.

The outcome of a test depends on the kind of the device alone, so it is computed once per kind and pod, and once per
shape for a whole pool. Nodes of equal shape share the work down to a few shifts and masks (docs/spec/allocation.md
§15.4).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import compress
from operator import is_not
from typing import Final

import msgspec

from cathedra.allocation.checks.capacity import Unusable, usage
from cathedra.allocation.checks.selectors import Interrupted, SelectorFailure
from cathedra.allocation.claims.problem import Problem
from cathedra.allocation.claims.requests import (
    ClaimPlan,
    ClassLookup,
    Obstacle,
    RequestKey,
    RequestOption,
    request_key_of,
)
from cathedra.allocation.features import Features
from cathedra.allocation.supply.caches import CacheSlot, LRUCache
from cathedra.allocation.supply.devices import DeviceRecord, Interner, Projection
from cathedra.allocation.supply.ledger import PoolState
from cathedra.allocation.supply.pools import NodeSupply, PoolSupply
from cathedra.api.resource import DeviceClass, ResourceClaim
from cathedra.semantics.tolerations import first_untolerated_on_device

_NO, _YES, _RISK = 0, 1, 2


class PoolMasks(msgspec.Struct, frozen=True, eq=False):
    """Masks over the devices of one pool."""

    options: tuple[int, ...]
    """Per option the devices that pass all fixed tests."""
    risky: tuple[int, ...]
    """For each option, the devices on which a test may fail with an error. A search that reaches one must evaluate it.
    """
    shareable: int


class _FixedTests:
    """Outcomes of the fixed tests of an option: for each kind of device, and for each shape of a pool the masks of good
    and of risky devices. Options with equal requests share them, from pod to pod."""

    __slots__ = ("kinds", "pools")

    def __init__(self) -> None:
        self.kinds: dict[tuple[int, bool], int] = {}
        self.pools: dict[tuple[int, bool], tuple[int, int]] = {}


_FIXED_TESTS: Final[CacheSlot[dict[tuple[object, object, Features], _FixedTests]]] = CacheSlot("fixed tests", dict)


def _fixed_tests_of(option: RequestOption, features: Features) -> _FixedTests:
    key = (option.tolerations, option.capacity_key, features)
    cache = option.question.caches.of(_FIXED_TESTS)
    found = cache.get(key)
    # Dropping the whole table bounds the memory; an entry costs one test to make again.
    if found is None or len(found.pools) > _LIMIT or len(found.kinds) > _LIMIT:
        found = cache[key] = _FixedTests()
    return found


_LIMIT: Final = 200_000


class OptionTables:
    """Outcomes of the fixed tests of one pod's options, shared by all pods with equal requests."""

    def __init__(self, plans: Sequence[ClaimPlan], features: Features, interner: Interner) -> None:
        self.features = features
        self.plans = plans
        self.options: list[RequestOption] = [
            option
            for plan in plans
            for request in plan.requests
            for option in request.options
            if not isinstance(option, Obstacle)
        ]
        self.attributes = self._looked_at()
        """The attributes by which devices are distinguished; None if the texts do not determine them."""
        self.projection = None if self.attributes is None else interner.widened(self.attributes)
        self._fixed = [_fixed_tests_of(option, features) for option in self.options]
        self.mask_key = tuple(
            [
                (fixed, option.admin, option.checks_capacity_last)
                for fixed, option in zip(self._fixed, self.options, strict=True)
            ]
        )
        """Key that is equal for pods whose options have the same masks, as long as the same devices are held."""
        self._pools: dict[tuple[int, bool], PoolMasks] = {}

    def _looked_at(self) -> Projection | None:
        """Return the attributes that selectors and constraints read; None if the texts do not determine them."""
        projection: set[str] = {constraint.attribute for plan in self.plans for constraint in plan.constraints}
        for option in self.options:
            seen = option.question.projection
            if seen is None or option.derived:
                return None
            projection.update(seen)
        return tuple(sorted(projection))

    def pool(
        self, pool: PoolSupply, interner: Interner, *, operations: bool, interrupted: Interrupted | None = None
    ) -> PoolMasks:
        """Return the masks of ``pool``; ``operations`` is True if the node can leave out optional operations.
        ``interrupted`` is called once per test and while selectors are evaluated; an exception that it raises passes,
        and nothing is kept."""
        key = (pool.shape_under(self.projection, interner), operations)
        known = self._pools.get(key)
        if known is None:
            if len(self._pools) >= _LIMIT:
                self._pools.clear()
            known = self._pools[key] = self._build(pool, key, interrupted)
        return known

    def _build(self, pool: PoolSupply, key: tuple[int, bool], interrupted: Interrupted | None) -> PoolMasks:
        masks = []
        risky = []
        for option, fixed in zip(self.options, self._fixed, strict=True):
            found = fixed.pools.get(key)
            if found is None:
                found = fixed.pools[key] = self._mask(option, fixed.kinds, pool, key[1], interrupted)
            masks.append(found[0])
            risky.append(found[1])
        shareable = pool.shareable if self.features.consumable_capacity else 0
        return PoolMasks(tuple(masks), tuple(risky), shareable)

    def _mask(
        self,
        option: RequestOption,
        kinds: dict[tuple[int, bool], int],
        pool: PoolSupply,
        operations: bool,
        interrupted: Interrupted | None,
    ) -> tuple[int, int]:
        mask = risky = 0
        bit = 1
        for record in pool.devices:
            key = (record.kind, operations)
            verdict = kinds.get(key)
            if verdict is None:
                verdict = kinds[key] = self._test(option, record, operations, interrupted)
            if verdict == _YES:
                mask |= bit
            elif verdict == _RISK:
                risky |= bit
            bit <<= 1
        return mask, risky

    def _test(
        self, option: RequestOption, record: DeviceRecord, operations: bool, interrupted: Interrupted | None
    ) -> int:
        # Called before each test, because one evaluation of CEL may take milliseconds and there may be thousands of
        # kinds.
        if interrupted is not None:
            interrupted()
        features = self.features
        device = record.device
        if device.binding_conditions and not features.device_binding_and_status:
            return _NO
        verdict = option.question.verdict(record.signature, interrupted)
        # An error ends the pod's attempt, but only if the search reaches the device. So it is no refusal here.
        if isinstance(verdict, SelectorFailure):
            return _RISK
        if not verdict:
            return _NO
        target = record.own_target
        if target is not None and target.problem and not target.name and not target.all_nodes:
            return _RISK
        if features.consumable_capacity:
            needed = usage(record.signature, option.capacity, option.capacity_key, features)
            if isinstance(needed, Unusable):
                return _RISK if needed.error else _NO
            if not needed.fits_alone:
                return _NO
        if record.slice.skip_operations and not operations:
            return _NO
        if device.consumes_counters and not features.partitionable_devices:
            return _NO
        if features.device_taints and first_untolerated_on_device(record.taints, option.tolerations) is not None:
            return _NO
        return _YES


class Bases(msgspec.Struct, frozen=True, eq=False):
    """Masks over the devices of one node."""

    masks: list[int]
    """Per option the devices that pass all fixed tests and are free."""
    risky: list[int]
    """Per option the devices on which a fixed test may fail with an error."""
    shareable: int
    shared: int
    """Shareable devices of which shares are in use."""


def bases(tables: OptionTables, problem: Problem) -> Bases:
    """Return the outcomes of the fixed tests for the devices of a node."""
    supply = problem.supply
    if len(supply.usable) < MANY_POOLS:
        node_masks = _NodeMasks(len(tables.options))
    else:
        key = (supply, tables.mask_key, problem.operations_optional)
        node_masks = supply.caches.of(_NODE_MASKS).get(key, lambda: _NodeMasks(len(tables.options)))
    node_masks.follow(tables, problem)
    masks = list(node_masks.masks)
    if supply.node_mask is not None:
        masks = [mask & supply.node_mask for mask in masks]
    return Bases(masks, list(node_masks.risky), node_masks.shareable, node_masks.shared)


class _NodeMasks:
    """The masks of a node as they stood in the last search: since then few pools have changed."""

    __slots__ = ("_parts", "_states", "masks", "risky", "shareable", "shared")

    def __init__(self, options: int) -> None:
        self.masks = [0] * options
        self.risky = [0] * options
        self.shareable = 0
        self.shared = 0
        self._states: tuple[PoolState, ...] = ()
        self._parts: list[tuple[list[int], list[int], int]] = []
        """For each pool, its part of each mask except ``shareable``."""

    def follow(self, tables: OptionTables, problem: Problem) -> None:
        """Take over how the pools stand now."""
        if not self._states:
            self._begin(tables, problem)
            return
        for at in compress(range(len(self._states)), map(is_not, problem.states, self._states)):
            # An evaluation may be interrupted in `_part`: until then nothing is changed.
            part = _part(tables, problem, at)
            self._add(problem, at, self._parts[at])
            self._parts[at] = part
            self._add(problem, at, part)
        self._states = problem.states

    def _begin(self, tables: OptionTables, problem: Problem) -> None:
        supply = problem.supply
        # Interrupted evaluations raise here, before anything is entered.
        parts = [_part(tables, problem, at) for at in range(len(supply.usable))]
        self.shareable = 0
        for at, (pool, offset) in enumerate(zip(supply.usable, supply.offsets, strict=True)):
            found = tables.pool(pool, supply.interner, operations=problem.operations_optional)
            self.shareable |= found.shareable << offset
            self._add(problem, at, parts[at])
        self._parts = parts
        self._states = problem.states

    def _add(self, problem: Problem, at: int, part: tuple[list[int], list[int], int]) -> None:
        """Add a pool to the masks, or remove it if it is there."""
        offset = problem.supply.offsets[at]
        masks, risky, shared = part
        for number, (mask, risk) in enumerate(zip(masks, risky, strict=True)):
            # Bits of a pool are either all in the mask or all absent, so the same exclusive or adds and removes them.
            self.masks[number] ^= mask << offset
            self.risky[number] ^= risk << offset
        self.shared ^= shared << offset


MANY_POOLS: Final = 16
"""Number of pools from which their state keys are cached for the next search."""
_NODE_MASKS: Final[CacheSlot[LRUCache[tuple[NodeSupply, object, bool], _NodeMasks]]] = CacheSlot(
    "node_masks of devices", lambda: LRUCache(_RECENT)
)
_RECENT: Final = 8


def _part(tables: OptionTables, problem: Problem, at: int) -> tuple[list[int], list[int], int]:
    """Per option the devices of a pool that are good and free, and the risky ones; and those that are shared."""
    supply, state = problem.supply, problem.states[at]
    pool = supply.usable[at]
    found = tables.pool(pool, supply.interner, operations=problem.operations_optional, interrupted=problem.interrupted)
    consumable = tables.features.consumable_capacity
    closed = state.taken | (state.shared & ~found.shareable)
    masks, risky = list(found.options), list(found.risky)
    for number, option in enumerate(tables.options):
        if not option.admin:
            masks[number] &= ~closed
            risky[number] &= ~state.taken
        if consumable and state.capacity and not option.checks_capacity_last:
            masks[number] = _with_capacity(masks[number], pool, state, option, tables.features)
    return masks, risky, state.shared


def _with_capacity(mask: int, pool: PoolSupply, state: PoolState, option: RequestOption, features: Features) -> int:
    for place, used in state.capacity.items():
        if mask >> place & 1:
            needed = usage(pool.devices[place].signature, option.capacity, option.capacity_key, features)
            if isinstance(needed, Unusable) or not needed.fits(used):
                mask &= ~(1 << place)
    return mask


# --- requests prepared before


LIMIT: Final = 256
"""Largest number of cached request specs; the oldest is dropped first."""


class PreparedSpecs(msgspec.Struct, frozen=True, eq=False):
    """Prepared requests of claims with one list of specs."""

    plans: tuple[ClaimPlan, ...]
    """Plans of the first claims with these specs. Later claims may have other names."""
    tables: OptionTables
    key: RequestKey | None
    """Equal for claims that get the same devices; None if they are faulty."""
    classes: tuple[DeviceClass, ...] = ()
    """Device classes from which the plans were made, besides the specs."""

    def is_current(self, classes: ClassLookup, interner: Interner) -> bool:
        """Return True if preparing the claims now would give an equal result."""
        for known in self.classes:
            if classes(known.metadata.name) is not known:
                return False
        tables = self.tables
        return tables.attributes is None or interner.widened(tables.attributes) == tables.projection


class SpecCache:
    """Cache of prepared requests, keyed by the identity of the claims' specs.

    The plans hold a reference to the specs, so an identity cannot be reused by another object.
    """

    __slots__ = ("_known",)

    def __init__(self) -> None:
        self._known: dict[tuple[object, ...], PreparedSpecs] = {}

    def get(
        self, claims: Sequence[ResourceClaim], classes: ClassLookup, features: Features, interner: Interner
    ) -> PreparedSpecs | None:
        """Return the prepared requests of ``claims`` if they are cached and current."""
        known = self._known.get((features, *[id(claim.spec) for claim in claims]))
        return known if known is not None and known.is_current(classes, interner) else None

    def add(self, plans: tuple[ClaimPlan, ...], features: Features, interner: Interner) -> PreparedSpecs:
        """Return the prepared requests of claims with these plans, and cache them unless they have an obstacle."""
        specs = PreparedSpecs(plans, OptionTables(plans, features, interner), request_key_of(plans), _classes_of(plans))
        if specs.key is not None:
            if len(self._known) >= LIMIT:
                del self._known[next(iter(self._known))]
            self._known[features, *[id(plan.claim.spec) for plan in plans]] = specs
        return specs


SPEC_CACHE: Final[CacheSlot[SpecCache]] = CacheSlot("requests", SpecCache)


def _classes_of(plans: Sequence[ClaimPlan]) -> tuple[DeviceClass, ...]:
    options = [option for plan in plans for request in plan.requests for option in request.options]
    found = {one.device_class.metadata.name: one.device_class for one in options if not isinstance(one, Obstacle)}
    return tuple(found.values())
