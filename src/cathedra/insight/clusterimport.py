"""The nodes and objects of a state, as a simulated cluster needs them to start like the original, and profiles made
from nodes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec

from cathedra.allocation.errors import InvalidInput
from cathedra.api.core import apps_v1, batch_v1, core_v1, policy_v1, scheduling_v1
from cathedra.api.core.core_v1 import Node
from cathedra.api.core.meta_v1 import KubeObject, ObjectMeta
from cathedra.api.formats import dns_label
from cathedra.api.resource import (
    Device,
    DeviceClass,
    DeviceClassSpec,
    DeviceTaintRule,
    ResourceClaim,
    ResourceClaimTemplate,
    ResourceSlice,
)
from cathedra.api.struct import from_dict, replace, to_dict
from cathedra.client.transport import ResourceRef
from cathedra.cluster.config import NodeGroupSpec
from cathedra.insight.reading.state import ClusterState, key_of, read_kind
from cathedra.profiles.loading import escaped
from cathedra.profiles.model import Follows, Group, HardwareProfile, NodeShape, PoolTemplate
from cathedra.semantics.owners import controller_of
from cathedra.semantics.pods import is_terminal

_KINDS: Final[tuple[type[KubeObject], ...]] = (
    *(core_v1.Namespace, scheduling_v1.PriorityClass, core_v1.ResourceQuota),
    *(DeviceClass, DeviceTaintRule, ResourceClaimTemplate, ResourceClaim, policy_v1.PodDisruptionBudget),
    *(apps_v1.Deployment, apps_v1.ReplicaSet, apps_v1.StatefulSet, apps_v1.DaemonSet),
    *(core_v1.ReplicationController, batch_v1.CronJob, batch_v1.Job, core_v1.Pod),
)
"""Kinds that are created, in this order: an object is created after those that it names."""


_OWN: Final = frozenset(("kubernetes.io/hostname", "kubernetes.io/os", "kubernetes.io/arch"))
"""Labels that every node gives itself."""
_CAPACITY: Final[tuple[str, ...]] = ("cpu", "memory", "pods")


def imported_groups(state: ClusterState) -> tuple[NodeGroupSpec, ...]:
    """Return each node of a state as a group of its own name, with the devices that its slices have.

    Raises:
        InvalidInput: the slices of a node cannot be made a profile.
    """
    having = {piece.spec.node_name for piece in state.all(ResourceSlice)}
    groups = []
    for number, node in enumerate(state.nodes):
        name = node.metadata.name
        profile = imported_profile(state, name, f"dump-{number}")[0] if name in having else None
        groups.append(
            NodeGroupSpec(
                name,
                1,
                profile,
                names=(name,),
                labels={key: value for key, value in node.metadata.labels.items() if key not in _OWN},
                # Those of the node controller describe the node at the moment of the dump.
                taints=tuple(taint for taint in node.spec.taints if not taint.key.startswith("node.kubernetes.io/")),
                capacity={key: str(node.status.capacity[key]) for key in _CAPACITY if key in node.status.capacity},
            )
        )
    return tuple(groups)


def imported_objects(state: ClusterState) -> tuple[tuple[ResourceRef[Any], KubeObject], ...]:
    """Return what users have created, as they would create it again; controllers create the rest, and status, anew."""
    found = [one for kind in _KINDS for one in _created(state, kind)]
    # A dump of some kinds has no namespaces, and the server creates nothing in one that does not exist.
    known = {one.metadata.name for one in state.all(core_v1.Namespace)}
    named = dict.fromkeys(namespace for one in found if (namespace := key_of(one)[0]) and namespace not in known)
    missing = [core_v1.Namespace(metadata=ObjectMeta(name=name)) for name in named]
    return tuple((read_kind(type(one)).ref, one) for one in (*missing, *found))


def _created(state: ClusterState, kind: type[KubeObject]) -> Iterator[KubeObject]:
    for one in state.all(kind):
        known: Any = one
        if controller_of(known) is not None or (isinstance(known, core_v1.Pod) and is_terminal(known)):
            continue
        metadata = known.metadata
        kept = ObjectMeta(
            name=metadata.name, namespace=metadata.namespace, labels=metadata.labels, annotations=metadata.annotations
        )
        plain = {name: value for name, value in to_dict(known).items() if name not in ("metadata", "status")}
        if kind is core_v1.Pod:
            plain["spec"].pop("nodeName", None)
        if kind is batch_v1.Job and not plain["spec"].get("manualSelector"):
            # The server generates both for the new job, and refuses those of another one.
            plain["spec"].pop("selector", None)
            plain["spec"]["template"].get("metadata", {}).pop("labels", None)
        yield replace(from_dict(kind, plain), metadata=kept)


_LABELS: Final = ("kubernetes.io/arch", "node.kubernetes.io/instance-type")
"""Labels that are kept, beside those in the domains of the drivers' vendors; others may identify the machine."""


def imported_profile(state: ClusterState, node: str, name: str = "") -> tuple[HardwareProfile, tuple[str, ...]]:
    """Return the profile of a node, by default named after its first driver; and what of the node it leaves out.

    Raises:
        InvalidInput: there is no such node or it has no devices, or the name is no DNS label.
    """
    known = {one.metadata.name: one for one in state.nodes}
    if node not in known:
        some = ", ".join(list(known)[:5])
        raise InvalidInput(f"there is no node {node!r} in {state.source}" + (f"; there are {some}" if some else ""))
    pools = _newest(piece for piece in state.all(ResourceSlice) if piece.spec.node_name == node)
    if not pools:
        raise InvalidInput(f"no ResourceSlice in {state.source} is of node {node!r}")
    drivers = tuple(dict.fromkeys(driver for driver, _ in pools))
    name = name or f"{drivers[0].replace('.', '-')}-node"
    if problems := dns_label(name):
        raise InvalidInput(f"{name!r} cannot be a profile's name: {problems[0]}")
    masking = Masking(node, known)
    classes, left_out = _classes(state.all(DeviceClass), drivers)
    profile = HardwareProfile(
        name=name,
        description=f"imported: {_counted(pools)}",
        follows=tuple(Follows(driver=driver) for driver in drivers),
        node=_shape(known[node], drivers, masking),
        device_classes=classes,
        pools=tuple(_template(key, pieces, masking, number) for number, (key, pieces) in enumerate(pools.items())),
    )
    if state.unknown & {Node, DeviceClass}:
        left_out = (*left_out, "nodes or device classes, which are not in the dump")
    return profile, left_out


Pools = Mapping[tuple[str, str], list[ResourceSlice]]


def _newest(slices: Iterable[ResourceSlice]) -> dict[tuple[str, str], list[ResourceSlice]]:
    """Return, for each pool, the slices of its newest generation, in the order in which they are allocated from."""
    pools: dict[tuple[str, str], list[ResourceSlice]] = {}
    for piece in sorted(slices, key=lambda piece: piece.metadata.name):
        pools.setdefault((piece.spec.driver, piece.spec.pool.name), []).append(piece)
    return {
        key: [one for one in pieces if one.spec.pool.generation == max(each.spec.pool.generation for each in pieces)]
        for key, pieces in pools.items()
    }


def _counted(pools: Pools) -> str:
    counts: dict[str, int] = {}
    for (driver, _), pieces in pools.items():
        counts[driver] = counts.get(driver, 0) + sum(len(piece.spec.devices or ()) for piece in pieces)
    return ", ".join(f"{count} of {driver}" for driver, count in counts.items())


def _template(key: tuple[str, str], pieces: list[ResourceSlice], masking: Masking, number: int) -> PoolTemplate:
    driver, pool = key
    counters = [to_dict(one) for piece in pieces for one in piece.spec.shared_counters]
    devices = [_device(one, masking) for piece in pieces for one in piece.spec.devices or ()]
    # A pool of another name must not have the same one on all nodes of the profile.
    name = masking.text(pool)
    group = Group(
        devices=tuple(devices),
        shared_counters=tuple({**one, "name": masking.text(one["name"])} for one in counters),
    )
    return PoolTemplate(driver=driver, name=name if "{node}" in name else f"{{node}}/{number}", groups=(group,))


def _device(device: Device, masking: Masking) -> dict[str, Any]:
    plain: dict[str, Any] = to_dict(msgspec.structs.replace(device, node_name=None, node_selector=None, all_nodes=None))
    plain["name"] = masking.text(device.name)
    for name, value in plain.get("attributes", {}).items():
        _mask(name, value, masking)
    for one in plain.get("consumesCounters", ()):
        one["counterSet"] = masking.text(one["counterSet"])
    return plain


def _mask(name: str, value: dict[str, Any], masking: Masking) -> None:
    """Mask the text, or the texts, of one attribute."""
    if "string" in value:
        value["string"] = masking.attribute(name, value["string"])
    if "strings" in value:
        value["strings"] = [masking.attribute(name, one) for one in value["strings"]]


def _shape(node: Node, drivers: Iterable[str], masking: Masking) -> NodeShape:
    vendors = tuple(".".join(driver.split(".")[-2:]) for driver in drivers)
    labels = {
        key: masking.text(value)
        for key, value in sorted(node.metadata.labels.items())
        if key in _LABELS or key.partition("/")[0].endswith(vendors)
    }
    capacity = {key: escaped(str(node.status.capacity[key])) for key in _CAPACITY if key in node.status.capacity}
    return NodeShape(labels=labels, capacity=capacity)


def _classes(classes: Iterable[DeviceClass], drivers: Iterable[str]) -> tuple[tuple[DeviceClass, ...], tuple[str, ...]]:
    """Return the classes whose selectors name one of the drivers, without parameters, which may contain anything."""
    kept: list[DeviceClass] = []
    left_out: list[str] = []
    for one in classes:
        texts = [selector.cel.expression for selector in one.spec.selectors if selector.cel is not None]
        if not any(driver in text for driver in drivers for text in texts):
            continue
        spec = DeviceClassSpec(selectors=one.spec.selectors, extended_resource_name=one.spec.extended_resource_name)
        kept.append(DeviceClass(metadata=ObjectMeta(name=one.metadata.name), spec=spec))
        if one.spec.config:
            left_out.append(f"the config of class {one.metadata.name}")
    return tuple(kept), tuple(left_out)


# --- masking


_PARTS: Final = (
    ("uuid", r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b"),
    ("address", r"\b[0-9a-f]{4,8}[:-][0-9a-f]{2}[:-][0-9a-f]{2}[.-][0-7]\b"),
    ("root", r"\bpci[0-9a-f]{4}:[0-9a-f]{2}\b"),
    ("mac", r"\b[0-9a-f]{2}(?::[0-9a-f]{2}){5}\b"),
    ("ip", r"\b\d{1,3}(?:\.\d{1,3}){3}\b"),
)
_SERIAL: Final = re.compile("serial", re.IGNORECASE)
_HOST: Final = re.compile("host-?name", re.IGNORECASE)
_BUSES: Final = 255


class Masking:
    """Masks the texts of one node; one value for all of them, so that equal texts become equal ones."""

    def __init__(self, node: str, others: Iterable[str] = ()) -> None:
        """``node``: the name that becomes the placeholder ``{node}``; ``others``: names of other nodes."""
        self._node = node
        self._seen: dict[str, dict[str, int]] = {}
        names = sorted({node, *others} - {""}, key=lambda name: (-len(name), name))
        known = "|".join(rf"(?<![\w.-]){re.escape(name)}(?![\w-])" for name in names)
        parts = [f"(?P<name>{known})"] if known else []
        self._pattern = re.compile("|".join((*parts, *(f"(?P<{kind}>{form})" for kind, form in _PARTS))), re.IGNORECASE)

    def attribute(self, name: str, value: str) -> str:
        """Return the template of an attribute's value."""
        if _SERIAL.search(name):
            return f"{{serial:{self._number('serial', value)}}}"
        if _HOST.search(name) and value != self._node:
            return f"host-{self._number('host', value)}"
        return self.text(value)

    def text(self, text: str) -> str:
        """Return the template of any other text, as a device's name."""
        made, end = "", 0
        for found in self._pattern.finditer(text):
            made += escaped(text[end : found.start()]) + self._masked(found)
            end = found.end()
        return made + escaped(text[end:])

    def _masked(self, found: re.Match[str]) -> str:
        kind, text = str(found.lastgroup), found[0].lower()
        if kind == "name":
            return "{node}" if text == self._node.lower() else f"node-{self._number('name', text)}"
        if kind == "address":
            # Domain and bus belong to the machine; device and function to one card.
            slot = re.split("[:.-]", text)
            bus = self._number("bus", ":".join(slot[:2]))
            mask = f"0000:{bus % _BUSES:02x}:{slot[2]}.{slot[3]}"
            return mask if ":" in text else re.sub("[:.]", "-", mask)
        number = self._number(kind, text)
        if kind == "uuid":
            return f"{{uuid:{number}}}"
        if kind == "root":
            return f"pci0000:{number % _BUSES:02x}"
        if kind == "mac":
            return f"02:00:00:00:{number // 256:02x}:{number % 256:02x}"
        return f"192.0.2.{number % _BUSES}"

    def _number(self, kind: str, text: str) -> int:
        """Return the number of this text among different texts of its kind, from 1."""
        seen = self._seen.setdefault(kind, {})
        return seen.setdefault(text, len(seen) + 1)
