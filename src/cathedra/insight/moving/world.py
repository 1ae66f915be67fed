"""One state of a search for moves: the nodes that pods fit on, and the units in their way.

A trial on one node runs the scheduler's filters on a state that has only that node with what concerns it. Therefore a
trial takes the same time in a small cluster as in a large one. Pods whose rules depend on other nodes (affinity to
pods, topology spread) are tried on the whole state.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import replace as dataclass_replace
from functools import cached_property
from typing import Any

import msgspec

from cathedra.api.core.core_v1 import Node, Pod
from cathedra.api.core.scheduling_v1beta1 import PodGroup
from cathedra.api.resource import Device, ResourceClaim, ResourceSlice
from cathedra.api.selectors import node_selector_matches
from cathedra.api.struct import encode, replace
from cathedra.insight.explanation.gangs import PodTrial, tried
from cathedra.insight.moving.movable import Unit, lifted
from cathedra.insight.reading.state import ClusterState, key_of
from cathedra.semantics.groupdomains import AttributeValue, Domain
from cathedra.semantics.podclaims import claim_names, pod_group_name
from cathedra.semantics.podgroups import parent_name

Pool = tuple[str, str]
"""Driver and name of a pool."""


class MoveLayout:
    """Facts that no move changes: the pools that a node can use, and the nodes and devices of equal form."""

    def __init__(self, state: ClusterState) -> None:
        self._slices: dict[Pool, list[ResourceSlice]] = {}
        for piece in state.all(ResourceSlice):
            self._slices.setdefault((piece.spec.driver, piece.spec.pool.name), []).append(piece)
        self._by_node: dict[str, list[Pool]] = {}
        self._elsewhere: list[Pool] = []
        for pool, pieces in self._slices.items():
            names = {piece.spec.node_name for piece in pieces}
            if len(names) == 1 and "" not in names and None not in names:
                self._by_node.setdefault(next(iter(filter(None, names))), []).append(pool)
            else:
                self._elsewhere.append(pool)
        self._nodes = {node.metadata.name: node for node in state.nodes}
        self._known: dict[str, tuple[Pool, ...]] = {}
        self._shared_values = _shared(device for pieces in self._slices.values() for device in _devices(pieces))
        self._forms: dict[str, Hashable] = {}
        self._device_forms: dict[tuple[str, str, str], Hashable] = {}

    def reach(self, node: str) -> tuple[Pool, ...]:
        """Return the pools with devices that the node can use."""
        found = self._known.get(node)
        if found is None:
            there = self._nodes[node]
            others = (pool for pool in self._elsewhere if any(_reaches(piece, there) for piece in self._slices[pool]))
            found = self._known[node] = (*self._by_node.get(node, ()), *others)
        return found

    def slices_of(self, node: str) -> Iterator[ResourceSlice]:
        """Yield the slices of the pools in reach of a node."""
        for pool in self.reach(node):
            yield from self._slices[pool]

    def form(self, node: str) -> Hashable:
        """Return a value that is equal for nodes with equal labels, taints, room and devices, names apart."""
        if node not in self._forms:
            one = self._nodes[node]
            labels = tuple(sorted((key, value) for key, value in one.metadata.labels.items() if value != node))
            local = self._by_node.get(node, ())
            devices = tuple(
                sorted(
                    (str(self._form(device)), device.name) for pool in local for device in _devices(self._slices[pool])
                )
            )
            pools = tuple(pool for pool in self.reach(node) if pool not in local)
            amounts = tuple(sorted((name, str(amount)) for name, amount in one.status.allocatable.items()))
            spec = encode(replace(one.spec, provider_id="", pod_cidr="", pod_cidrs=()))
            self._forms[node] = (labels, spec, amounts, devices, pools)
        return self._forms[node]

    def device_form(self, driver: str, pool: str, name: str) -> Hashable:
        """Return a value that is equal for interchangeable devices: what only one device has is left out."""
        key = (driver, pool, name)
        if key not in self._device_forms:
            found = next((one for one in _devices(self._slices.get((driver, pool), ())) if one.name == name), None)
            self._device_forms[key] = (driver, pool, self._form(found) if found is not None else name)
        return self._device_forms[key]

    def _form(self, device: Device) -> Hashable:
        values = tuple(
            sorted(
                (name, encode(value))
                for name, value in device.attributes.items()
                if (name, encode(value)) in self._shared_values
            )
        )
        rest = encode(replace(device, name="", attributes={}))
        return values, rest


class World:
    """A state with indices by node and pool. Nothing in it changes."""

    def __init__(self, state: ClusterState, layout: MoveLayout) -> None:
        self.state = state
        self.layout = layout
        self._trials: dict[tuple[str, Domain | None], PodTrial] = {}

    def after(self, units: Iterable[Unit]) -> World:
        """Return the world without the pods of ``units``."""
        return World(lifted(units, self.state), self.layout)

    def including(self, objects: Iterable[Pod | ResourceClaim]) -> World:
        """Return the world with pods and claims in another place."""
        return World(self.state.including(objects), self.layout)

    @cached_property
    def by_node(self) -> Mapping[str, list[Pod]]:
        """The pods on each node."""
        found: dict[str, list[Pod]] = {}
        for pod in self.state.pods:
            if pod.spec.node_name:
                found.setdefault(pod.spec.node_name, []).append(pod)
        return found

    @cached_property
    def by_pool(self) -> Mapping[Pool, list[ResourceClaim]]:
        """The claims with devices of each pool."""
        found: dict[Pool, list[ResourceClaim]] = {}
        for claim in self.state.all(ResourceClaim):
            if claim.status.allocation is not None:
                for pool in {(one.driver, one.pool) for one in claim.status.allocation.devices.results}:
                    found.setdefault(pool, []).append(claim)
        return found

    def fitting(self, pod: Pod, domain: Domain | None = None) -> PodTrial:
        """Return all nodes that the pod fits on, or those of a domain."""
        key = (pod.metadata.uid, domain)
        found = self._trials.get(key)
        if found is None:
            found = self._trials[key] = self._tried(pod, domain)
        return found

    def _tried(self, pod: Pod, domain: Domain | None) -> PodTrial:
        if domain is None:
            return tried(self._current(pod), self.state)
        # Values only exclude devices, so nodes that are refused without them need no further trial.
        found = self.fitting(pod)
        names = tuple(name for name in found.nodes if name in domain.nodes)
        if names and domain.values:
            return tried(self._current(pod), self.state, frozenset(names), domain.values)
        return msgspec.structs.replace(found, nodes=names)

    def on(self, node: str, pod: Pod, values: tuple[AttributeValue, ...] = ()) -> PodTrial:
        """Return the trial of a pod on one node, with devices that have ``values``."""
        pod = self._current(pod)
        return tried(pod, self._view(node, pod) if _is_local(pod) else self.state, frozenset((node,)), values)

    def placed(self, pod: Pod, node: str, values: tuple[AttributeValue, ...]) -> World | None:
        """Return the world with the pod on a node, with devices that have ``values``; None if it does not fit there."""
        trial = self.on(node, pod, values)
        placement = trial.placement(node) if node in trial.nodes else None
        return None if placement is None else self.including(placement)

    def content(self, node: str) -> Hashable:
        """Return what is on a node and in its pools: trials with equal content have equal results."""
        pods = frozenset(pod.metadata.uid for pod in self.by_node.get(node, ()))
        return pods, frozenset(
            (claim.metadata.uid, *((one.pool, one.device) for one in _results(claim)))
            for pool in self.layout.reach(node)
            for claim in self.by_pool.get(pool, ())
        )

    def form(self, node: str) -> Hashable:
        """Return a value that is equal for nodes of equal form with equal pods on equal devices."""
        held = sorted(
            str((self.pod_form(pod), sorted(one.device for claim in self.claims_of(pod) for one in _results(claim))))
            for pod in self.by_node.get(node, ())
        )
        return self.layout.form(node), tuple(held)

    def pod_form(self, pod: Pod) -> Hashable:
        """Return a value that is equal for pods that differ in nothing but names."""
        specs = tuple(encode(claim.spec) for claim in self.claims_of(pod))
        spec = replace(pod.spec, node_name="", hostname="", resource_claims=())
        named = (entry.resource_claim_template_name for entry in pod.spec.resource_claims)
        return pod.metadata.namespace, encode(spec), tuple(sorted(pod.metadata.labels.items())), specs, tuple(named)

    def unit_form(self, unit: Unit) -> Hashable:
        """Return a value that is equal for units that are exchangeable where they are."""
        devices = tuple(
            sorted(
                str(self.layout.device_form(one.driver, one.pool, one.device))
                for claim in unit.claims
                for one in _results(claim)
            )
        )
        nodes = tuple(sorted(pod.spec.node_name for pod in unit.pods))
        return tuple(sorted(map(str, map(self.pod_form, unit.pods)))), devices, nodes, unit.priority, unit.bare

    def claims_of(self, pod: Pod) -> list[ResourceClaim]:
        """Return the claims of a pod that exist."""
        found = (self.state.get(ResourceClaim, name, pod.metadata.namespace) for name in claim_names(pod))
        return [claim for claim in found if claim is not None]

    def _current(self, pod: Pod) -> Pod:
        return self.state.get(Pod, pod.metadata.name, pod.metadata.namespace) or pod

    def _grouped(self, pod: Pod) -> Iterable[Pod]:
        """Return the pods of the pod's group, of all groups in its namespace if these form hierarchies: without them
        its gang is incomplete."""
        name, namespace = pod_group_name(pod), pod.metadata.namespace
        if not name:
            return ()
        group = self.state.get(PodGroup, name, namespace)
        alone = group is not None and not parent_name(group)
        return [
            one
            for one in self.state.pods
            if one.metadata.namespace == namespace
            and (pod_group_name(one) == name if alone else bool(pod_group_name(one)))
        ]

    def _view(self, node: str, pod: Pod) -> ClusterState:
        """Return the state with one node and what concerns it."""
        claims = {key_of(claim): claim for pool in self.layout.reach(node) for claim in self.by_pool.get(pool, ())}
        claims.update((key_of(claim), claim) for claim in self.claims_of(pod))
        objects: dict[Any, Any] = {
            **self.state.objects,
            Node: {("", node): next(one for one in self.state.nodes if one.metadata.name == node)},
            Pod: {key_of(one): one for one in (*self._grouped(pod), *self.by_node.get(node, ()), pod)},
            ResourceClaim: claims,
            ResourceSlice: {key_of(piece): piece for piece in self.layout.slices_of(node)},
        }
        return dataclass_replace(self.state, objects=objects)


def _results(claim: ResourceClaim) -> Iterable[Any]:
    return claim.status.allocation.devices.results if claim.status.allocation is not None else ()


def _devices(pieces: Iterable[ResourceSlice]) -> Iterator[Device]:
    for piece in pieces:
        yield from piece.spec.devices or ()


def _shared(devices: Iterable[Device]) -> frozenset[tuple[str, bytes]]:
    """Return the attributes with values that more than one device has."""
    counts = Counter((name, encode(value)) for device in devices for name, value in device.attributes.items())
    return frozenset(key for key, count in counts.items() if count > 1)


def _reaches(piece: ResourceSlice, node: Node) -> bool:
    spec = piece.spec
    if spec.all_nodes or spec.node_name == node.metadata.name:
        return True
    if spec.node_selector is not None:
        return node_selector_matches(spec.node_selector, node)
    return any(
        one.all_nodes
        or one.node_name == node.metadata.name
        or (one.node_selector is not None and node_selector_matches(one.node_selector, node))
        for one in spec.devices or ()
    )


def _is_local(pod: Pod) -> bool:
    """Return True if no rule of the pod depends on other nodes."""
    affinity = pod.spec.affinity
    spread = bool(pod.spec.topology_spread_constraints)
    return not spread and (affinity is None or (affinity.pod_affinity is None and affinity.pod_anti_affinity is None))
