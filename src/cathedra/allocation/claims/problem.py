"""The requests of a pod on one node: options with their devices, ready for a search.

Devices are numbered in the order of the search; sets of devices are bit masks over these numbers.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from cathedra.allocation.checks.capacity import CapacityUsage, Unusable, usage
from cathedra.allocation.checks.requestedcounters import Drawn, drawn, mapped_capacities
from cathedra.allocation.checks.selectors import Interrupted, SelectorFailure, selector_error
from cathedra.allocation.checks.values import PROGRAMS, Value, constraint_value, derive, scalar_or_set
from cathedra.allocation.claims.requests import CLAIM_LIMIT, ClaimPlan, Constraint, Obstacle, RequestOption
from cathedra.allocation.errors import FatalError, NodeError
from cathedra.allocation.features import Features
from cathedra.allocation.supply.devices import DeviceRecord
from cathedra.allocation.supply.ledger import PoolState, qualified
from cathedra.allocation.supply.pools import NodeSupply, PoolStatus, PoolSupply
from cathedra.api.core import core_v1
from cathedra.api.resource import CounterSetConsumption


class Choice(msgspec.Struct, frozen=True, eq=False):
    """An option on a node: how many devices, and for All which."""

    option: RequestOption
    count: int
    devices: tuple[int, ...] | None = None
    """Positions of all devices, for All."""


class RequestOnNode(msgspec.Struct, frozen=True, eq=False):
    """A request on a node: its choices in order of preference."""

    choices: tuple[Choice, ...]
    alternatives: bool


class DevicePlacement(msgspec.Struct, frozen=True):
    """One device for one choice; ``usage`` if it is a share. ``drawn`` is what the request takes of counters."""

    choice: Choice
    position: int
    usage: CapacityUsage | None
    drawn: tuple[CounterSetConsumption, ...] = ()


class Solution(msgspec.Struct, frozen=True):
    """Per claim the placements in order, and which choice each of its requests got."""

    placements: tuple[tuple[DevicePlacement, ...], ...]
    chosen: tuple[tuple[int, ...], ...]


class Problem:
    """The claims of a pod on one node."""

    __slots__ = (
        "claims",
        "devices",
        "features",
        "interrupted",
        "node",
        "operations_optional",
        "plans",
        "requests",
        "states",
        "supply",
    )

    def __init__(
        self,
        plans: Sequence[ClaimPlan],
        node: core_v1.Node,
        supply: NodeSupply,
        states: tuple[PoolState, ...],
        features: Features,
        interrupted: Interrupted | None = None,
    ) -> None:
        """``interrupted`` is called often while selectors are evaluated; an exception that it raises passes."""
        self.interrupted = interrupted
        self.plans = plans
        self.node = node
        self.supply = supply
        self.features = features
        self.devices = supply.devices
        self.states = states
        self.operations_optional = features.optional_node_operations and declares_optional_operations(node)
        self.requests: list[list[RequestOnNode]] = []

    @property
    def pool_of(self) -> list[int]:
        """For each device the place of its pool among those that can be used."""
        return self.supply.pool_of

    # --- the ledger's state of a device

    def state_of(self, position: int) -> tuple[PoolState, int]:
        """Return the state of the device's pool, and the device's place in the pool."""
        pool = self.pool_of[position]
        return self.states[pool], position - self.supply.offsets[pool]

    def pool(self, position: int) -> PoolSupply:
        """Return the pool of the device at a position."""
        return self.supply.usable[self.pool_of[position]]

    def is_shareable(self, record: DeviceRecord) -> bool:
        """Return True if the device can be allocated several times."""
        return record.shareable and self.features.consumable_capacity

    def usage(self, option: RequestOption, record: DeviceRecord) -> CapacityUsage | Unusable:
        """Return the capacity that ``option`` consumes of the device."""
        if option.capacity and self.draws(record):
            # The amounts of these capacities are taken of counters, so the device itself need not have them.
            mapped = mapped_capacities(record) - {qualified(name, record.id[0]) for name in record.device.capacity}
            left = {name: one for name, one in option.capacity.items() if qualified(name, record.id[0]) not in mapped}
            return usage(record.signature, left, (option.capacity_key, mapped), self.features)
        return usage(record.signature, option.capacity, option.capacity_key, self.features)

    def draws(self, record: DeviceRecord) -> bool:
        """Return True if the device takes counters by the amounts of requests."""
        return self.features.shared_consumable_capacity and record.draws

    def drawn(self, option: RequestOption, position: int) -> Drawn | Unusable:
        """Return what an allocation of the device for ``option`` takes of counters beside fixed values."""
        return drawn(self.devices[position], self.pool(position).definitions, option.capacity, self.features)

    def selectable(self, option: RequestOption, position: int) -> bool:
        """Return True if the device passes class, selectors and node (docs/spec/allocation.md §7).

        Raises:
            FatalError: a selector fails on it.
        """
        record = self.devices[position]
        if record.device.binding_conditions and not self.features.device_binding_and_status:
            return False
        verdict = option.question.verdict(record.signature, self.interrupted)
        if isinstance(verdict, SelectorFailure):
            # The cached verdict may come from a device that looks alike; the text must be this one's.
            verdict = option.question.evaluate(record.signature, self.interrupted)
            assert isinstance(verdict, SelectorFailure)
            raise selector_error(verdict, option.origins, record, self.features)
        if not verdict or record.own_target is None:
            return bool(verdict)
        try:
            return record.own_target.matches(self.node)
        except FatalError as error:
            raise FatalError(
                f"{option.where}: failed to perform node selection for device &{record.device}"
                f" in slice {record.slice.name}: {error}"
            ) from error

    def value(self, option: RequestOption, record: DeviceRecord, constraint: Constraint) -> Value | None:
        """Return the value that ``constraint`` compares for the device; None if there is none.

        Raises:
            FatalError: a derived attribute fails.
        """
        for name, expression in option.derived:
            if name == constraint.attribute:
                return self._derived(name, expression, record, distinct=constraint.distinct)
        return constraint_value(record.signature, constraint.attribute, self.features, distinct=constraint.distinct)

    def _derived(self, name: str, expression: str, record: DeviceRecord, *, distinct: bool) -> Value | None:
        attribute = derive(name, expression, record, self.features, self.supply.caches.of(PROGRAMS), self.interrupted)
        return None if attribute is None else scalar_or_set(attribute, self.features, distinct=distinct)


def declares_optional_operations(node: core_v1.Node) -> bool:
    """Return True if the kubelet of ``node`` can skip the preparation of devices that do not need it."""
    return "DRAOptionalNodeOperations" in (node.status.declared_features or ())


def expand(problem: Problem) -> None:
    """Work out the choices of every request, in the order of section 6.

    Raises:
        FatalError: the claims are faulty, or a selector fails.
        NodeError: All meets a pool that cannot be used.
    """
    late = problem.features.behaviour.claim_size_checked_last
    for plan in problem.plans:
        total = 0
        requests: list[RequestOnNode] = []
        for request in plan.requests:
            choices: list[Choice] = []
            for option in request.options:
                if isinstance(option, Obstacle):
                    # One error serves all nodes. Each raise would add to its traceback, until freeing the chain
                    # overflows the stack of WebAssembly.
                    raise option.error.with_traceback(None)
                choices.append(_choice(problem, option))
            # The smallest alternative counts: the claim exceeds the limit only if each of them does.
            wanted = min((choice.count for choice in choices), default=0)
            if not late and total + wanted > CLAIM_LIMIT:
                raise FatalError(
                    f"{request.where}: adding {wanted} devices exceeds the claim limit of {CLAIM_LIMIT}, "
                    f"with {total} already accounted for"
                )
            total += wanted
            requests.append(RequestOnNode(tuple(choices), request.alternatives))
        if total > CLAIM_LIMIT:
            raise FatalError(
                f"{plan.where}: number of requested devices {total} exceeds the claim limit of {CLAIM_LIMIT}"
            )
        if plan.obstacle is not None:
            raise plan.obstacle.error.with_traceback(None)  # as above
        problem.requests.append(requests)


def _choice(problem: Problem, option: RequestOption) -> Choice:
    if not option.all_devices:
        return Choice(option, option.count)
    # Kubernetes' stable implementation has kept the older answer.
    fatal = problem.features.behaviour.bad_pool_under_all_is_fatal or problem.features.stable
    positions: list[int] = []
    position = 0
    for pool in problem.supply.pools:
        # «All» of a pool that is being updated is not known, so nothing may be allocated.
        if pool.status is not PoolStatus.COMPLETE:
            text = f"{option.where}: asks for all devices, but resource pool {pool} is currently {pool.trouble}"
            raise (FatalError if fatal else NodeError)(text)
        for record in pool.devices:
            if problem.selectable(option, position) and _could_serve(problem, option, record, position):
                positions.append(position)
            position += 1
    return Choice(option, len(positions), tuple(positions))


def _could_serve(problem: Problem, option: RequestOption, record: DeviceRecord, position: int) -> bool:
    """Return True if mode All counts the device: its total capacity must suffice."""
    if not problem.features.consumable_capacity:
        return True
    needed = problem.usage(option, record)
    if isinstance(needed, Unusable):
        if needed.error:
            raise FatalError(needed.error)
        return False
    if problem.features.behaviour.all_leaves_out_full_devices:
        state, place = problem.state_of(position)
        return needed.fits(state.capacity.get(place, {}))
    return needed.fits_alone
