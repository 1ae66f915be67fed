"""The allocator as a library: one call, with objects in any form.

    >>> from cathedra.allocation import Cluster, allocate
    >>> cluster = Cluster.of([
    ...     {"kind": "Node", "metadata": {"name": "n1"}},
    ...     {"kind": "DeviceClass", "metadata": {"name": "gpu"}, "spec": {}},
    ...     {"kind": "ResourceSlice", "metadata": {"name": "s1"}, "spec": {
    ...         "driver": "gpu.example.com", "nodeName": "n1",
    ...         "pool": {"name": "n1", "generation": 1, "resourceSliceCount": 1},
    ...         "devices": [{"name": "gpu-0"}, {"name": "gpu-1"}]}},
    ... ])
    >>> claim = {"metadata": {"name": "c", "namespace": "default"}, "spec": {"devices": {"requests": [
    ...     {"name": "r", "exactly": {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1}}]}}}
    >>> outcome = allocate("n1", [claim], cluster)
    >>> outcome.results[0].devices.results[0].device
    'gpu-0'
    >>> fits([claim], cluster)
    ['n1']
    >>> how_many([claim], cluster)
    {'n1': 2}

Objects can be typed structs, dicts, objects of the official client, a `pathlib.Path`, or YAML text with any number of
documents and Lists in it, in every served version. Kinds that allocation does not read are ignored, so the dump of a
whole cluster is accepted. Requests can be claims, templates, pods and workloads, with extended resources that a class
stands for. Devices decide, and beside them only the allocatable room of whole nodes: what other pods use, taints and
affinity are the scheduler's business (`cathedra.insight`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import msgspec

from cathedra.allocation.allocator import Allocator
from cathedra.allocation.answers import Allocation
from cathedra.allocation.checks.selectors import SelectorFailure
from cathedra.allocation.claimsets import ClaimSet, Key, read_claim_set
from cathedra.allocation.errors import Aborted, FatalError, InvalidInput, NodeError
from cathedra.allocation.features import Features
from cathedra.allocation.reading import Input, plain_objects, typed_object
from cathedra.allocation.refusal import Refusal
from cathedra.allocation.search.budget import Budget
from cathedra.allocation.supply.inventory import Inventory
from cathedra.allocation.supply.ledger import Ledger
from cathedra.allocation.supply.pools import NodeSupplyCache
from cathedra.allocation.supply.undecodable import effect_of
from cathedra.api.core import core_v1
from cathedra.api.resource import DeviceClass, DeviceTaintRule, ResourceClaim, ResourceClaimTemplate, ResourceSlice
from cathedra.api.struct import from_dict
from cathedra.api.undecodable import Undecodable
from cathedra.deadline import Interruption

TIMEOUT: Final = 10.0
"""Seconds that a call may take, as long as Kubernetes searches for a pod."""
CONSUMERS: Final = 256
"""Largest number of pods that can share one claim: the limit of ``status.reservedFor``."""


class Cluster(msgspec.Struct, eq=False):
    """The objects of a cluster that allocation reads: nodes, classes, slices with taint rules, claims and their
    templates.

    Change it by `add` and `remove`, or by the methods of ``inventory`` and ``ledger``.
    """

    features: Features = msgspec.field(default_factory=Features)
    budget: Budget = msgspec.field(default_factory=Budget)
    nodes: dict[str, core_v1.Node] = msgspec.field(default_factory=dict)
    classes: dict[str, DeviceClass] = msgspec.field(default_factory=dict)
    inventory: Inventory = msgspec.field(default_factory=Inventory)
    ledger: Ledger = msgspec.field(default_factory=Ledger)
    claims: dict[Key, ResourceClaim] = msgspec.field(default_factory=dict)
    """Claims by namespace and name, for the pods that name them."""
    templates: dict[Key, ResourceClaimTemplate] = msgspec.field(default_factory=dict)

    def __post_init__(self) -> None:
        self.inventory.rules_need_selector = self.features.behaviour.rules_need_selector

    def __repr__(self) -> str:
        nodes, classes, claims = len(self.nodes), len(self.classes), len(self.claims)
        return f"Cluster({nodes} nodes, {classes} classes, {claims} claims)"

    @staticmethod
    def of(objects: Input, features: Features | None = None) -> Cluster:
        """Return a cluster of these objects; other kinds are ignored.

        Raises:
            InvalidInput: something is no object, has no kind, or a field of the wrong type.
        """
        cluster = Cluster(features or Features())
        cluster.add(objects)
        return cluster

    def add(self, objects: Input) -> None:
        """Enter objects, or their new state.

        Raises:
            InvalidInput: something is no object, has no kind, or a field of the wrong type; what is before it is
                entered.
        """
        for one in plain_objects(objects):
            match typed := typed_object(one, strict=False):
                case core_v1.Node():
                    self.nodes[typed.metadata.name] = typed
                case DeviceClass():
                    self.classes[typed.metadata.name] = typed
                case ResourceSlice():
                    self.inventory.add_slice(typed)
                case DeviceTaintRule():
                    self.inventory.add_taint_rule(typed)
                case ResourceClaim():
                    self.ledger.add(typed)
                    self.claims[_key(typed)] = typed
                case ResourceClaimTemplate():
                    self.templates[_key(typed)] = typed

    def remove(self, objects: Input) -> None:
        """Remove objects; unknown ones are ignored."""
        for one in plain_objects(objects):
            match typed := typed_object(one, strict=False):
                case core_v1.Node():
                    self.nodes.pop(typed.metadata.name, None)
                case DeviceClass():
                    self.classes.pop(typed.metadata.name, None)
                case ResourceSlice():
                    self.inventory.remove_slice(typed)
                case DeviceTaintRule():
                    self.inventory.remove_taint_rule(typed)
                case ResourceClaim():
                    self.ledger.remove(typed)
                    self.claims.pop(_key(typed), None)
                case ResourceClaimTemplate():
                    self.templates.pop(_key(typed), None)

    def add_undecodable(self, what: Undecodable) -> None:
        """Record an object that cannot be decoded. Devices that it may hold are not allocated."""
        effect = effect_of(what)
        if effect is not None:
            self.ledger.hold_for(effect.key, effect.holder, effect.held)
            self.inventory.withhold(effect.key, effect.withheld)

    def allocator(self, budget: Budget | None = None) -> Allocator:
        """Return an allocator for this moment; ``budget``, if given, replaces the cluster's."""
        return Allocator(
            self.features,
            self.classes,
            self.inventory.snapshot(),
            self.ledger.snapshot(),
            budget=budget or self.budget,
        )

    def node(self, node: core_v1.Node | Mapping[str, Any] | str) -> core_v1.Node:
        """Return a node that is given by name or by itself. In a cluster without Node objects, every name is a node
        without labels.

        Raises:
            InvalidInput: the cluster has nodes, but none of that name.
        """
        if isinstance(node, core_v1.Node):
            return node
        if not isinstance(node, str):
            found = typed_object({"kind": "Node", **node}, strict=False)
            assert isinstance(found, core_v1.Node), "that is its kind"
            return found
        if node in self.nodes:
            return self.nodes[node]
        if self.nodes:
            some = ", ".join(list(self.nodes)[:5]) + (" …" if len(self.nodes) > 5 else "")
            raise InvalidInput(f"node {node!r} is not in the cluster; it has {some}")
        return from_dict(core_v1.Node, {"metadata": {"name": node}})

    def claim_set(self, claims: Input) -> ClaimSet:
        """Return the requests of ``claims`` in this cluster: claims, templates, pods, or workloads.

        Raises:
            InvalidInput: something is none of these, names what is not there, or is invalid.
        """
        return read_claim_set(claims, self.claims, self.templates, self.classes)


def allocate(
    node: core_v1.Node | Mapping[str, Any] | str,
    claims: Input,
    cluster: Cluster | Input,
    *,
    timeout: float | None = TIMEOUT,
) -> Allocation | Refusal:
    """Allocate ``claims`` together on ``node``, all or none. ``cluster`` is not changed.

    After ``timeout`` seconds the search is stopped: then the refusal is ``stopped``. None is no limit.

    Raises:
        InvalidInput: something is no object, names what is not there, or is invalid.
        NodeError: the node cannot be used, others might be.
        FatalError: the claims cannot be allocated anywhere until something changes.
    """
    known = _cluster(cluster)
    claim_set, target = known.claim_set(claims), known.node(node)
    if short := claim_set.shortage(target):
        raise NodeError(f"Insufficient {short}")
    if not claim_set.reaches(target):
        raise NodeError("resourceclaim not available on the node")
    return known.allocator(_budget(known, timeout)).allocate(target, claim_set.claims)


def fits(claims: Input, cluster: Cluster | Input, *, timeout: float | None = TIMEOUT) -> list[str]:
    """Return the names of the nodes on which ``claims`` fit together, in the order in which the nodes were entered.

    Raises:
        InvalidInput: something is no object, names what is not there, or is invalid.
        FatalError: the claims cannot be allocated anywhere until something changes.
        Aborted: all searches together take longer than ``timeout`` seconds, or one more states than the budget has.
    """
    known = _cluster(cluster)
    claim_set = known.claim_set(claims)
    nodes = [node for node in known.nodes.values() if claim_set.reaches(node)]
    if not claim_set.claims:
        return [node.metadata.name for node in nodes]
    prepared = known.allocator(_budget(known, timeout)).prepare(claim_set.claims)
    answers = prepared.on_each(nodes)
    fitting = set(answers.fitting())
    if len(fitting) < len(nodes):
        kinds = {answers.kind(place): place for place in range(len(nodes)) if place not in fitting}
        for place in kinds.values():
            _require_end(answers[place])
    return [nodes[place].metadata.name for place in sorted(fitting)]


def how_many(
    claims: Input, cluster: Cluster | Input, *, limit: int = 1000, timeout: float | None = TIMEOUT
) -> dict[str, int]:
    """Return the number of further copies of ``claims`` that fit, by node: name → copies, without nodes on which none
    fits.

    Copies are placed one after the other, and each node is filled before the next. ``limit`` bounds the sum.
    ``cluster`` is not changed.

    Raises:
        InvalidInput: something is no object, names what is not there, or is invalid.
        FatalError: the claims cannot be allocated anywhere until something changes.
        Aborted: all searches together take longer than ``timeout`` seconds, or one more states than the budget has.
    """
    known = _cluster(cluster)
    budget = _budget(known, timeout)
    claim_set = known.claim_set(claims)
    inventory = known.inventory.snapshot()
    ledger = known.ledger.copy()
    found: dict[str, int] = {}
    total = 0
    for node in known.nodes.values():
        while total < limit and claim_set.reaches(node, found.get(node.metadata.name, 0) + 1):
            if not claim_set.claims:
                # Only claims that are shared already: what bounds the copies is how many may reserve them.
                copies = min(limit, CONSUMERS) - total
                return found | ({node.metadata.name: found.get(node.metadata.name, 0) + copies} if copies > 0 else {})
            allocator = Allocator(known.features, known.classes, inventory, ledger.snapshot(), budget=budget)
            try:
                answer = allocator.allocate(node, claim_set.claims)
            except NodeError:
                break
            if not isinstance(answer, Allocation):
                _require_end(answer)
                break
            for claim, result in zip(claim_set.claims, answer.results, strict=True):
                ledger.assume(_copy_of(claim, total), result)
            claim_set = claim_set.after(answer.results)
            total += 1
            found[node.metadata.name] = found.get(node.metadata.name, 0) + 1
    return found


def _budget(cluster: Cluster, timeout: float | None) -> Budget:
    """Return the cluster's budget with a deadline for all its searches; unchanged if ``timeout`` is None."""
    if timeout is None:
        return cluster.budget
    return msgspec.structs.replace(cluster.budget, seconds=timeout, until=Interruption(timeout))


def _require_end(answer: Allocation | Refusal | NodeError) -> None:
    if isinstance(answer, Refusal) and answer.stopped:
        raise Aborted(f"node {answer.node}: the search was {answer.stop}")


def _copy_of(claim: ResourceClaim, number: int) -> ResourceClaim:
    name = f"{claim.metadata.name}#{number}"
    return from_dict(ResourceClaim, {"metadata": {"name": name, "namespace": claim.metadata.namespace}})


def _cluster(cluster: Cluster | Input) -> Cluster:
    return cluster if isinstance(cluster, Cluster) else Cluster.of(cluster)


def _key(one: ResourceClaim | ResourceClaimTemplate) -> Key:
    return (one.metadata.namespace or "default", one.metadata.name)


# --- occupancy


class DeviceUsage(NamedTuple):
    """Devices that are there, and those of them that a claim holds, alone or with others."""

    devices: int
    in_use: int


NONE = DeviceUsage(0, 0)


class Occupancy:
    """Counts of devices at one moment of the cluster: that of ``allocator``."""

    def __init__(self, allocator: Allocator) -> None:
        self._allocator = allocator
        self._supplies = NodeSupplyCache(allocator.inventory, allocator.features)

    def of(self, node: core_v1.Node, device_class: DeviceClass) -> DeviceUsage:
        """Return the usage of the class's devices that ``node`` can reach; zero if a selector does not compile or
        fails.

        Devices of pools that are being updated count, because they exist.
        """
        try:
            return self._count(node, device_class)
        except FatalError:
            return NONE

    def _count(self, node: core_v1.Node, device_class: DeviceClass) -> DeviceUsage:
        claim_set = self._allocator.selectors_of(device_class)
        devices = in_use = 0
        for pool in self._supplies.of(node).pools:
            state = pool.state(self._allocator.ledger.pool(pool.id), shares=True)
            held = state.taken | state.shared
            for position, record in enumerate(pool.devices):
                if record.own_target is not None and not record.own_target.matches(node):
                    continue
                verdict = claim_set.verdict(record.signature)
                if isinstance(verdict, SelectorFailure):
                    return NONE
                if verdict:
                    devices += 1
                    in_use += held >> position & 1
        return DeviceUsage(devices, in_use)
