"""The allocator for those who embed it: one call, from whatever they have.

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

Objects may be typed structs, plain dicts, or YAML text with any number of documents and Lists in it. Kinds that
allocation does not ask about are ignored, so the dump of a whole cluster will do.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias, TypeVar, cast

import msgspec

from cathedra.allocation.allocator import Allocator
from cathedra.allocation.answers import Allocation
from cathedra.allocation.errors import NodeError
from cathedra.allocation.features import Features
from cathedra.allocation.refusal import Refusal
from cathedra.allocation.search.budget import Budget
from cathedra.allocation.supply.inventory import Inventory
from cathedra.allocation.supply.ledger import Ledger
from cathedra.api.core import core_v1
from cathedra.api.core.meta_v1 import KubeObject
from cathedra.api.resource import DeviceClass, DeviceTaintRule, ResourceClaim, ResourceSlice
from cathedra.api.struct import from_dict

__all__ = ["Cluster", "Objects", "allocate", "fits", "how_many"]

T = TypeVar("T", bound=KubeObject)

Object: TypeAlias = KubeObject | Mapping[str, Any]
Objects: TypeAlias = str | Object | Iterable[Object]
"""YAML text, one object, or several."""

_KINDS: Mapping[str, type[KubeObject]] = {
    "Node": core_v1.Node,
    "DeviceClass": DeviceClass,
    "DeviceTaintRule": DeviceTaintRule,
    "ResourceClaim": ResourceClaim,
    "ResourceSlice": ResourceSlice,
}


class Cluster(msgspec.Struct, eq=False):
    """What allocation must know of a cluster: nodes, classes, slices with taint rules, and allocated claims.

    Change it by `add` and `remove`, or by the methods of ``inventory`` and ``ledger``.
    """

    features: Features = msgspec.field(default_factory=Features)
    budget: Budget = msgspec.field(default_factory=Budget)
    nodes: dict[str, core_v1.Node] = msgspec.field(default_factory=dict)
    classes: dict[str, DeviceClass] = msgspec.field(default_factory=dict)
    inventory: Inventory = msgspec.field(default_factory=Inventory)
    ledger: Ledger = msgspec.field(default_factory=Ledger)

    @staticmethod
    def of(objects: Objects, features: Features | None = None) -> Cluster:
        """A cluster of these objects; kinds that do not matter are ignored.

        Raises:
            msgspec.ValidationError: an object has a field of the wrong type.
            yaml.YAMLError: the text is no YAML.
        """
        cluster = Cluster(features or Features())
        cluster.add(objects)
        return cluster

    def add(self, objects: Objects) -> None:
        """Enter objects, or their new state.

        Raises:
            msgspec.ValidationError: an object has a field of the wrong type; those before it are entered.
        """
        for one in _objects(objects):
            typed = _typed(one)
            match typed:
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

    def remove(self, objects: Objects) -> None:
        """Forget objects; those that are not there are ignored."""
        for one in _objects(objects):
            typed = _typed(one)
            match typed:
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

    def allocator(self) -> Allocator:
        """An allocator for this moment."""
        return Allocator(
            self.features, self.classes, self.inventory.snapshot(), self.ledger.snapshot(), budget=self.budget
        )

    def node(self, node: core_v1.Node | Mapping[str, Any] | str) -> core_v1.Node:
        """A node by name or by itself; one that is not known has no labels."""
        if isinstance(node, str):
            return self.nodes.get(node) or from_dict(core_v1.Node, {"metadata": {"name": node}})
        return node if isinstance(node, core_v1.Node) else from_dict(core_v1.Node, node)


def allocate(
    node: core_v1.Node | Mapping[str, Any] | str, claims: Objects, cluster: Cluster | Objects
) -> Allocation | Refusal:
    """Allocate ``claims`` together on ``node``, all or none. ``cluster`` is not changed.

    Raises:
        NodeError: the node cannot be used, others might be.
        FatalError: the claims cannot be allocated anywhere until something changes.
    """
    known = _cluster(cluster)
    return known.allocator().allocate(known.node(node), _claims(claims))


def fits(claims: Objects, cluster: Cluster | Objects) -> list[str]:
    """The names of the nodes on which ``claims`` fit together, in the order in which they were entered.

    Raises:
        FatalError: the claims cannot be allocated anywhere until something changes.
    """
    known = _cluster(cluster)
    prepared = known.allocator().prepare(_claims(claims))
    nodes = list(known.nodes.values())
    return [nodes[place].metadata.name for place in prepared.on_each(nodes).fitting()]


def how_many(claims: Objects, cluster: Cluster | Objects, *, limit: int = 1000) -> dict[str, int]:
    """How many more copies of ``claims`` fit, and on which nodes: name → copies, without nodes that take none.

    Copies are placed one after the other, each node being filled before the next. ``limit`` bounds the sum. ``cluster``
    is not changed.

    Raises:
        FatalError: the claims cannot be allocated anywhere until something changes.
    """
    known = _cluster(cluster)
    asked = _claims(claims)
    inventory = known.inventory.snapshot()
    ledger = known.ledger.copy()
    found: dict[str, int] = {}
    total = 0
    for node in known.nodes.values():
        while total < limit:
            allocator = Allocator(known.features, known.classes, inventory, ledger.snapshot(), budget=known.budget)
            try:
                answer = allocator.allocate(node, asked)
            except NodeError:
                break
            if not isinstance(answer, Allocation):
                break
            for claim, result in zip(asked, answer.results, strict=True):
                ledger.assume(_copy_of(claim, total), result)
            total += 1
            found[node.metadata.name] = found.get(node.metadata.name, 0) + 1
    return found


def _copy_of(claim: ResourceClaim, number: int) -> ResourceClaim:
    name = f"{claim.metadata.name}#{number}"
    return from_dict(ResourceClaim, {"metadata": {"name": name, "namespace": claim.metadata.namespace}})


def _cluster(cluster: Cluster | Objects) -> Cluster:
    return cluster if isinstance(cluster, Cluster) else Cluster.of(cluster)


def _claims(claims: Objects) -> Sequence[ResourceClaim]:
    return [
        one if isinstance(one, ResourceClaim) else from_dict(ResourceClaim, cast(Mapping[str, Any], one))
        for one in _objects(claims)
    ]


def _objects(objects: Objects) -> Iterable[Object]:
    if isinstance(objects, str):
        import yaml

        for document in yaml.load_all(objects, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
            if document:
                yield from _objects(document)
    elif isinstance(objects, KubeObject):
        yield objects
    elif isinstance(objects, Mapping):
        if str(objects.get("kind", "")).endswith("List") and "items" in objects:
            kind = str(objects["kind"]).removesuffix("List")
            yield from ({"kind": kind, **item} if kind else item for item in objects["items"])
        else:
            yield objects
    else:
        for one in objects:
            yield from _objects(one)


def _typed(one: Object) -> KubeObject | None:
    if isinstance(one, KubeObject):
        return one
    kind = _KINDS.get(str(one.get("kind", "")))
    return None if kind is None else from_dict(kind, one)
