"""Free devices: those that drivers publish, without those that claims hold or are about to hold.

Between the decision and the informer's event of its write, a device is held in at least one of three places: in flight
(decided in Reserve), assumed (the server has responded), or in the informer. All three are in one ledger, so the device
cannot be allocated twice (docs/spec/scheduling.md §11).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from random import Random
from typing import Final

import msgspec

from cathedra.allocation import (
    UNLIMITED,
    Allocator,
    Budget,
    Features,
    Inventory,
    Ledger,
    LedgerSnapshot,
    Occupancy,
    PreparedRequests,
    SearchAllowance,
    behaviour_of,
)
from cathedra.allocation.packing import room_of
from cathedra.allocation.supply.pools import NodeSupplyCache
from cathedra.allocation.supply.undecodable import effect_of
from cathedra.api.core.core_v1 import Node
from cathedra.api.resource import (
    AllocationResult,
    Device,
    DeviceClass,
    DeviceRequest,
    DeviceRequestAllocationResult,
    DeviceTaintRule,
    ResourceClaim,
    ResourceSlice,
)
from cathedra.api.undecodable import Undecodable
from cathedra.client.events import EventRecorder
from cathedra.client.informer import Informer, SharedInformers
from cathedra.client.mergedslices import MergedSliceInformer
from cathedra.client.resources import DEVICECLASSES, DEVICETAINTRULES, RESOURCECLAIMS, RESOURCESLICES
from cathedra.clock import Clock
from cathedra.releases import FeatureGates
from cathedra.scheduler.dynamicresources.claims import ClaimCache
from cathedra.scheduler.dynamicresources.extended_resources import class_of
from cathedra.scheduler.framework.attempt import Attempt
from cathedra.scheduler.framework.events import Action, EventResource
from cathedra.scheduler.framework.plugin import DeviceUsage, Notify
from cathedra.scheduler.framework.status import Status, error, unresolvable
from cathedra.scheduler.state.node_info import NodeInfo

MOST_RESOURCES: Final = 1024
"""Largest number of extended resources whose class is cached."""
_ALLOWANCE: Final = "DynamicResources"
_BRIEF: Final = Budget(states=10_000)
_NOBODY: Final[frozenset[str]] = frozenset()
_CLAIM: Final = EventResource.RESOURCE_CLAIM
_ADD, _DELETE, _UPDATE = Action.ADD, Action.DELETE, Action.UPDATE
"""Read for every event of a claim; reading them off their class takes 0.5 µs."""


class FreeDevices:
    """Inventory and ledger, kept up to date by informers and by the scheduler's own decisions."""

    def __init__(
        self,
        claims: ClaimCache,
        *,
        recorder: EventRecorder,
        clock: Clock,
        random: Random,
        gates: FeatureGates,
        filter_timeout: float,
    ) -> None:
        """``filter_timeout``: seconds that the allocator may take for one pod; 0 is no limit."""
        self._gates = gates
        self._recorder = recorder
        features = Features.from_gates(gates, behaviour_of(gates.release))
        self._features = msgspec.structs.replace(features, admin_access=gates.admin_access)
        self._claims = claims
        self._random = random
        self._clock = clock
        limited = gates["DRASchedulerFilterTimeout"] and filter_timeout > 0
        self._budget = Budget(seconds=filter_timeout, monotonic=clock.monotonic) if limited else UNLIMITED
        self.seconds = self._budget.seconds
        """Return the allowance that the searches of one attempt share."""
        self.features = features
        """The allocator's features, by gates and release."""
        self.inventory = Inventory(rules_need_selector=features.behaviour.rules_need_selector)
        self.ledger = Ledger()
        self.classes: dict[str, DeviceClass] = {}
        """Device classes by name."""
        self._providing: dict[str, str | None] = {}
        """Cache of the class of each extended resource; cleared when a class changes."""
        self._in_flight: dict[str, AllocationResult] = {}
        self._holders: dict[str, frozenset[str]] = {}
        """Claim UID → the pods for which its decision is held; several of one PodGroup may share it."""
        self._notify: Notify = _ignore

    def listen(self, informers: SharedInformers, wake: Notify) -> None:
        """Follow slices, classes, rules and claims."""
        self._notify = wake
        if self._gates["DRADeviceTaintRules"]:
            informers.of(DEVICETAINTRULES).add_handler(
                self._rule_set, lambda _, rule: self._rule_set(rule), self._rule_gone
            )
        informers.of(DEVICECLASSES).add_handler(self._class_added, self._class_updated, self._class_deleted)
        slices: Informer[ResourceSlice] | MergedSliceInformer = informers.of(RESOURCESLICES)
        if self._gates.merged_taint_rules:
            slices = MergedSliceInformer(informers, self._recorder, self._gates)
        slices.add_handler(self._slice_added, self._slice_updated, self._slice_deleted)
        # Claims come through the cache, not the informer: the ledger must see the scheduler's own writes at once.
        self._claims.listen(self._claim_changed)
        for ref in (RESOURCECLAIMS, RESOURCESLICES, *((DEVICETAINTRULES,) if self._follows_rules else ())):
            # A separate handler: those above are notified that the object was deleted, this one that it still exists.
            informers.of(ref).add_handler(on_undecodable=self._undecodable, on_resolved=self._resolved)

    def share(self, other: FreeDevices) -> None:
        """Allocate from the inventory, ledger and classes that ``other`` keeps up to date, instead of listening.

        Valid until a class changes, and while ``other`` has no decision that is not written.
        """
        self.inventory, self.ledger, self.classes = other.inventory, other.ledger, other.classes

    def limit_searches(self, seconds: float) -> None:
        """Let the allocator search for one pod for so long at most, in releases without a limit of their own too."""
        self._budget = Budget(seconds=seconds, monotonic=self._clock.monotonic)
        self.seconds = seconds

    @property
    def _follows_rules(self) -> bool:
        return self._gates["DRADeviceTaintRules"] or self._gates.merged_taint_rules

    # --- decisions

    def prepare(
        self,
        claims: Sequence[ResourceClaim],
        attempt: Attempt | SearchAllowance | None = None,
        ledger: LedgerSnapshot | None = None,
    ) -> PreparedRequests:
        """Return the part of the allocation of ``claims`` that is the same on all nodes.

        An allowance is that of a search which does not count for the attempt.
        ``ledger`` has the devices in use in a trial; None: those of this moment.

        Raises:
            AllocationError: a claim cannot be allocated anywhere.
            LongSearch: the turn of ``attempt`` is over; also from what is returned.
        """
        return self._allocator(ledger).prepare(claims, None if attempt is None else partial(self._allowance, attempt))

    def prepare_anew(
        self,
        claims: Sequence[ResourceClaim],
        decided: Sequence[ResourceClaim],
        attempt: Attempt | SearchAllowance | None,
    ) -> PreparedRequests:
        """Do the same as if the devices of ``decided``, whose allocations are not written yet, were free.

        Without an attempt, whose searches may continue in the thread, they are short.
        """
        ledger = self.ledger.copy()
        for claim in decided:
            ledger.remove(claim)
        allowance = partial(SearchAllowance, _BRIEF) if attempt is None else partial(self._allowance, attempt)
        return self._allocator(ledger.snapshot()).prepare(claims, allowance)

    def _allowance(self, attempt: Attempt | SearchAllowance) -> SearchAllowance:
        """Return the allowance that all searches of ``attempt`` share, updated by the time that the attempt has
        used."""
        if isinstance(attempt, SearchAllowance):
            return attempt
        allowance: SearchAllowance | None = attempt.data.get(_ALLOWANCE)
        if allowance is None:
            allowance = attempt.data[_ALLOWANCE] = SearchAllowance(self._budget)
        allowance.interrupted = attempt.interrupted(self.seconds)
        allowance.exhausted = attempt.used >= self.seconds
        return allowance

    def usage(self) -> DeviceUsage:
        """Return the counts of devices behind an extended resource, and of those in use, at this moment."""
        occupancy = Occupancy(self._allocator())

        def usage(resource: str, node: NodeInfo) -> tuple[int, int]:
            name = self.class_behind(resource)
            device_class = self.device_class(name) if name is not None else None
            return occupancy.of(node.node, device_class) if device_class is not None else (0, 0)

        return usage

    def room(self) -> Callable[[Node], tuple[int, int]]:
        """Return a function for the devices of a node's own pools at this moment, all and those in use, in thousandths.

        Partitions and shares count as the part of their device that they are. Devices that several nodes reach are left
        out: they are the same for all of these.
        """
        inventory, ledger = self.inventory.snapshot(), self.ledger.snapshot()
        supplies = NodeSupplyCache(inventory, self.features)

        def room(node: Node) -> tuple[int, int]:
            own = {record.pool for record in inventory.bound.get(node.metadata.name, ())}
            total = used = 0
            for pool in supplies.of(node).usable if own else ():
                if pool.id in own:
                    there, taken = room_of(pool, ledger.pool(pool.id))
                    total, used = total + there, used + taken
            return total, used

        return room

    def are_plain(self, node: str) -> bool:
        """Return True if a node has devices of its own only, each of which belongs to one claim and uses no
        counters."""
        inventory = self.inventory.snapshot()
        return not inventory.unbound and not any(
            record.device.consumes_counters or record.device.allow_multiple_allocations
            for piece in inventory.bound.get(node, ())
            for record in piece.devices
        )

    def refusal(self, claim: ResourceClaim) -> Status | None:
        """Return the reason why a claim cannot be allocated on any node; None if none is known."""
        if claim.metadata.uid in self._in_flight:
            return unresolvable(f"resource claim {_name(claim)} is in the process of being allocated")
        for request in claim.spec.devices.requests or ():
            asked = request.exactly
            if asked is not None and asked.device_class_name in self.classes:
                continue
            refusal = self._requestable(_name(claim), request)
            if refusal is not None:
                return refusal
        return None

    def _requestable(self, where: str, request: DeviceRequest) -> Status | None:
        if request.exactly is not None:
            return self._class_exists(request.name, request.exactly.device_class_name)
        if not request.first_available:
            return unresolvable(f"resource claim {where}, request {request.name}: unknown request type")
        if not self._gates["DRAPrioritizedList"]:
            return unresolvable(
                f"resource claim {where}, request {request.name}: has subrequests, "
                "but the DRAPrioritizedList feature is disabled"
            )
        for sub in request.first_available:
            refusal = self._class_exists(f"{request.name}/{sub.name}", sub.device_class_name)
            if refusal is not None:
                return refusal
        return None

    def _class_exists(self, request: str, class_name: str) -> Status | None:
        if not class_name:
            return error(f"request {request}: unsupported request type")
        if self.device_class(class_name) is None:
            return unresolvable(f"request {request}: device class {class_name} does not exist")
        return None

    def _allocator(self, ledger: LedgerSnapshot | None = None) -> Allocator:
        return Allocator(
            self._features,
            self.classes,
            self.inventory.snapshot(),
            ledger or self.ledger.snapshot(),
            budget=self._budget,
            random=self._random,
        )

    def device_class(self, name: str) -> DeviceClass | None:
        """Return the class of that name, or None."""
        return self.classes.get(name)

    def class_behind(self, resource: str) -> str | None:
        """Return the name of the class behind an extended resource, or None."""
        known = self._providing
        if resource not in known:
            # Pods with ever new names of resources would fill the memory.
            if len(known) >= MOST_RESOURCES:
                known.clear()
            known[resource] = class_of(resource, self.classes.values())
        return known[resource]

    @property
    def in_flight(self) -> int:
        """For how many claims an allocation was decided and is not written yet."""
        return len(self._in_flight)

    def held_in(self, namespace: str) -> Iterator[tuple[ResourceClaim, AllocationResult]]:
        """Yield the claims of a namespace that hold devices, with what is decided for them or stored."""
        for claim in self._claims.of_namespace(namespace):
            allocation = self.allocation_of(claim)
            if allocation is not None:
                yield claim, allocation

    def allocation_of(self, claim: ResourceClaim) -> AllocationResult | None:
        """Return what is decided for a claim, or stored."""
        return self._in_flight.get(claim.metadata.uid) or claim.status.allocation

    def device_of(self, result: DeviceRequestAllocationResult) -> Device | None:
        """Return a device that is allocated; None if no driver publishes it any more."""
        pieces = self.inventory.snapshot().pools.get((result.driver, result.pool), ())
        devices = (record for piece in pieces for record in piece.devices)
        return next((record.device for record in devices if record.name == result.device), None)

    def is_in_flight(self, claim: ResourceClaim) -> bool:
        """Return True if an allocation of the claim is decided and not written yet."""
        return claim.metadata.uid in self._in_flight

    def holders(self, uid: str) -> frozenset[str]:
        """Return the UIDs of the pods for which a decision on the claim is held."""
        return self._holders.get(uid, _NOBODY)

    def decisions(self) -> Iterator[tuple[str, AllocationResult, frozenset[str]]]:
        """Yield the UID, the allocation and the holders of each claim whose decision is not written yet."""
        return ((uid, allocation, self._holders[uid]) for uid, allocation in self._in_flight.items())

    def take(self, claim: ResourceClaim, allocation: AllocationResult, holder: str) -> None:
        """Hold the devices of a decision until it is written or withdrawn for every ``holder`` (a pod's UID)."""
        uid = claim.metadata.uid
        others = self._holders.get(uid)
        self._holders[uid] = frozenset((holder,)) if others is None else others | {holder}
        self._in_flight[uid] = allocation
        self.ledger.hold(claim, allocation)

    def retake(self, claim: ResourceClaim, allocation: AllocationResult) -> None:
        """Hold other devices for a decision that is not written yet, for the same holders."""
        self._in_flight[claim.metadata.uid] = allocation
        self.ledger.hold(claim, allocation)

    def settle(self, claim: ResourceClaim, holder: str) -> None:
        """Release the decision for ``holder``, which is written or withdrawn. After the last holder the claim's own
        status counts."""
        uid = claim.metadata.uid
        others = self._holders.pop(uid, _NOBODY) - {holder}
        if others:
            self._holders[uid] = others
            return
        decided = self._in_flight.pop(uid, None)
        if decided is None:
            return
        known = self._claims.get(claim.metadata.namespace, claim.metadata.name)
        # From now on the claim's status counts: as written, as another client has changed it, or none if the write
        # failed.
        held = known.status.allocation if known is not None and known.metadata.uid == uid else None
        # Nearly always the stored allocation is the decided one and the ledger has it already.
        if held is None or held.devices.results != decided.devices.results:
            self._hold(claim, held)

    # --- informers

    def _claim_changed(self, old: ResourceClaim | None, new: ResourceClaim | None) -> None:
        before = None
        if old is not None and new is not None and old.metadata.uid == new.metadata.uid:
            # Other changes, such as the finalizer that the scheduler writes itself, change no allocation and cannot
            # make a waiting pod schedulable.
            if old.status is new.status:
                return
            before = old.status.allocation
        elif old is not None:
            # A claim that was deleted and created under the same name is another one: what the old one held is free.
            self._hold(old, None)
        # Compared by identity: a new object with equal content costs the ledger a few microseconds, and a changed
        # object is never missed.
        if new is not None and new.status.allocation is not before:
            self._hold(new, new.status.allocation)
        action = _ADD if old is None else _DELETE if new is None else _UPDATE
        # After the ledger has changed: a pod that this event wakes is tried with the new state.
        self._notify(_CLAIM, action, old, new)

    def _hold(self, claim: ResourceClaim, allocation: AllocationResult | None) -> None:
        """Make the ledger hold exactly ``allocation``, unless it holds what is decided for the claim."""
        # The decision wins over the informer, which may still have the claim without an allocation. `settle` corrects
        # the ledger.
        if claim.metadata.uid in self._in_flight:
            return
        if allocation is None:
            self.ledger.remove(claim)
        else:
            self.ledger.hold(claim, allocation)

    def _slice_added(self, slice_: ResourceSlice) -> None:
        self.inventory.add_slice(slice_)
        self._notify(EventResource.RESOURCE_SLICE, Action.ADD, None, slice_)

    def _slice_updated(self, old: ResourceSlice, new: ResourceSlice) -> None:
        self.inventory.add_slice(new)
        self._notify(EventResource.RESOURCE_SLICE, Action.UPDATE, old, new)

    def _slice_deleted(self, slice_: ResourceSlice) -> None:
        self.inventory.remove_slice(slice_)
        self._notify(EventResource.RESOURCE_SLICE, Action.DELETE, slice_, None)

    def _class_added(self, class_: DeviceClass) -> None:
        self.classes[class_.metadata.name] = class_
        # Any class may be the first that provides a resource, or no longer the oldest.
        self._providing.clear()
        self._notify(EventResource.DEVICE_CLASS, Action.ADD, None, class_)

    def _class_updated(self, old: DeviceClass, new: DeviceClass) -> None:
        self.classes[new.metadata.name] = new
        self._providing.clear()
        self._notify(EventResource.DEVICE_CLASS, Action.UPDATE, old, new)

    def _class_deleted(self, class_: DeviceClass) -> None:
        self.classes.pop(class_.metadata.name, None)
        self._providing.clear()
        self._notify(EventResource.DEVICE_CLASS, Action.DELETE, class_, None)

    def _undecodable(self, what: Undecodable) -> None:
        """Keep from being allocated what the object may hold, or may have changed."""
        effect = effect_of(what)
        if effect is None:
            return
        self.ledger.hold_for(effect.key, effect.holder, effect.held)
        self.inventory.withhold(effect.key, effect.withheld)

    def _resolved(self, what: Undecodable, _: object) -> None:
        effect = effect_of(what)
        if effect is None:
            return
        self.ledger.release(effect.key)
        self.inventory.release(effect.key)
        self._notify(EventResource.RESOURCE_SLICE, Action.UPDATE, None, None)

    def _rule_set(self, rule: DeviceTaintRule) -> None:
        self.inventory.add_taint_rule(rule)
        self._notify(EventResource.RESOURCE_SLICE, Action.UPDATE, None, None)

    def _rule_gone(self, rule: DeviceTaintRule) -> None:
        self.inventory.remove_taint_rule(rule)
        self._notify(EventResource.RESOURCE_SLICE, Action.UPDATE, None, None)


def _ignore(*change: object) -> None:
    """Before the queue follows, changes concern no pod."""


def _name(claim: ResourceClaim) -> str:
    return f"{claim.metadata.namespace}/{claim.metadata.name}"
