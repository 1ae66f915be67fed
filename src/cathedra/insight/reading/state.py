"""The state of a cluster at one moment: the input of every tool, and never changed by one; and the kinds that are
read."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from dataclasses import replace as dataclass_replace
from functools import cached_property
from typing import Any, Final, TypeAlias, TypeVar

import msgspec

from cathedra.allocation import Budget, Cluster, Features, behaviour_of
from cathedra.allocation.supply.merging import merged_rules
from cathedra.api.core import (
    apps_v1,
    batch_v1,
    core_v1,
    policy_v1,
    rbac_v1,
    scheduling_v1,
    scheduling_v1alpha3,
    scheduling_v1beta1,
    storage_v1,
)
from cathedra.api.core.core_v1 import Node, Pod
from cathedra.api.core.meta_v1 import KubeObject, ObjectMeta
from cathedra.api.resource import DeviceClass, DeviceTaintRule, ResourceClaim, ResourceClaimTemplate, ResourceSlice
from cathedra.api.struct import from_dict, replace
from cathedra.api.undecodable import Undecodable
from cathedra.client.resources import resource_ref
from cathedra.client.transport import ResourceRef
from cathedra.clock import SystemClock
from cathedra.printable import counted
from cathedra.releases import FeatureGates

__all__ = [
    "ASSUMED",
    "READ_KINDS",
    "ClusterState",
    "Key",
    "Note",
    "ReadKind",
    "key_of",
    "note_on",
    "problems_of_slices",
    "read_kind",
    "reader_role",
    "with_one_device_note",
]


class ReadKind(msgspec.Struct, frozen=True):
    """A kind that is read, and what is not known where it cannot be."""

    ref: ResourceRef[KubeObject]
    consequence: str = ""
    """Information that is missing without it; "" for kinds that few clusters have, and that are not missed."""
    gate: str = ""
    """The gate without which no server has it, if it is not part of Dynamic Resource Allocation."""

    @property
    def plural(self) -> str:
        """The resource's name, as in ``kubectl get``."""
        return self.ref.resource


def _kind(
    kind: type[KubeObject], plural: str, consequence: str = "", *, namespaced: bool = True, gate: str = ""
) -> ReadKind:
    return ReadKind(resource_ref(kind, plural, namespaced=namespaced), consequence, gate)


READ_KINDS: Final = (
    _kind(
        core_v1.Node,
        "nodes",
        "every node that a slice names is taken for one without labels, taints and limits",
        namespaced=False,
    ),
    _kind(
        core_v1.Pod,
        "pods",
        "which pods use claims, and how much CPU and memory is in use, is not known",
    ),
    _kind(ResourceSlice, "resourceslices", "no device is known", namespaced=False),
    _kind(DeviceClass, "deviceclasses", "which device classes exist is not known", namespaced=False),
    _kind(ResourceClaim, "resourceclaims", "all devices are taken to be free"),
    _kind(ResourceClaimTemplate, "resourceclaimtemplates"),
    _kind(DeviceTaintRule, "devicetaintrules", namespaced=False),
    _kind(core_v1.Namespace, "namespaces", namespaced=False),
    _kind(core_v1.ResourceQuota, "resourcequotas"),
    _kind(core_v1.Event, "events"),
    _kind(apps_v1.Deployment, "deployments"),
    _kind(apps_v1.ReplicaSet, "replicasets"),
    _kind(apps_v1.StatefulSet, "statefulsets"),
    _kind(apps_v1.DaemonSet, "daemonsets"),
    _kind(batch_v1.Job, "jobs"),
    _kind(batch_v1.CronJob, "cronjobs"),
    _kind(core_v1.ReplicationController, "replicationcontrollers"),
    _kind(policy_v1.PodDisruptionBudget, "poddisruptionbudgets"),
    _kind(scheduling_v1.PriorityClass, "priorityclasses", namespaced=False),
    _kind(scheduling_v1alpha3.Workload, "workloads", gate="GenericWorkload"),
    _kind(scheduling_v1beta1.PodGroup, "podgroups", gate="GenericWorkload"),
    _kind(scheduling_v1alpha3.CompositePodGroup, "compositepodgroups", gate="CompositePodGroup"),
    _kind(core_v1.PersistentVolumeClaim, "persistentvolumeclaims"),
    _kind(core_v1.PersistentVolume, "persistentvolumes", namespaced=False),
    _kind(storage_v1.StorageClass, "storageclasses", namespaced=False),
    _kind(storage_v1.CSINode, "csinodes", namespaced=False),
)
"""In the order of the notes."""


def read_kind(kind: type[KubeObject]) -> ReadKind:
    """Return the entry of a kind.

    Raises:
        KeyError: it is not read.
    """
    for one in READ_KINDS:
        if one.ref.type is kind:
            return one
    raise KeyError(kind.__name__)


def reader_role(name: str = "cathedra-insight") -> rbac_v1.ClusterRole:
    """Return a role with the rights that all tools need: list and watch on what they read, and the feature gates."""
    groups: dict[str, list[str]] = {}
    for kind in READ_KINDS:
        groups.setdefault(kind.ref.group, []).append(kind.plural)
    rules = tuple(
        rbac_v1.PolicyRule(api_groups=(group,), resources=tuple(sorted(plurals)), verbs=("list", "watch"))
        for group, plurals in sorted(groups.items())
    )
    # The API server reports its feature gates there, and nowhere else.
    metrics = rbac_v1.PolicyRule(non_resource_urls=("/metrics",), verbs=("get",))
    return rbac_v1.ClusterRole(metadata=ObjectMeta(name=name), rules=(*rules, metrics))


T = TypeVar("T", bound=KubeObject)
Key: TypeAlias = tuple[str, str]
"""Namespace («» for objects without one) and name."""
ByKind: TypeAlias = Mapping[type[KubeObject], Mapping[Key, KubeObject]]


ASSUMED: Final = "assumed"
"""The problem of notes on the release and the gates, on which every answer depends."""


class Note(msgspec.Struct, frozen=True, rename="camel"):
    """Something that could not be read completely, and the information that is therefore missing."""

    resource: str
    """The resource, as ``deviceclasses``, or one object as ``resourceslices/NAME``."""
    problem: str
    """«absent», «forbidden», «not served», «unknown fields», «unknown kind», «partial», «undecodable», «unreadable»,
    «assumed»."""
    text: str

    def __str__(self) -> str:
        return self.text


_DEVICES: Final = "resource.k8s.io"
_DEVICE_KINDS: Final = frozenset(("resourceslices", "deviceclasses", "resourceclaims"))


def with_one_device_note(notes: Iterable[Note], source: str) -> tuple[Note, ...]:
    """Return the notes with one for the whole API group of devices, if each of its kinds is missing.

    A cluster without Dynamic Resource Allocation would otherwise seem to lack a device class.
    """
    notes = tuple(notes)
    missing = {note.resource: note for note in notes if note.problem in ("absent", "not served")}
    if not missing.keys() >= _DEVICE_KINDS:
        return notes
    problem = missing["deviceclasses"].problem
    text = f"{source} serves no Dynamic Resource Allocation ({_DEVICES}): it has no devices, classes and claims"
    if problem == "absent":
        why = "the cluster serves no Dynamic Resource Allocation, or the dump left it out"
        text = f"{source} has nothing of {_DEVICES}: {why}"
    kept = (note for note in notes if note.resource not in _DEVICE_KINDS)
    return (Note(_DEVICES, problem, text), *kept)


@dataclass(frozen=True)
class ClusterState:
    """The objects of a cluster at one moment, in the newest version of each kind.

    ``release`` is the version of Kubernetes whose defaults and behaviour apply.
    """

    source: str
    """Server or files from which it was read."""
    objects: ByKind
    gates: FeatureGates = field(default_factory=FeatureGates.for_release)
    notes: tuple[Note, ...] = ()
    unknown: frozenset[type[KubeObject]] = frozenset()
    """Kinds whose objects were not read."""
    now: float | None = None
    """Time of reading, in seconds since the Unix epoch; None for dumps, which do not have it."""
    undecodable: tuple[Undecodable, ...] = ()
    """Objects that exist and cannot be decoded."""
    served: Mapping[str, bool] = field(default_factory=dict)
    """``group/version`` → whether the server has it, as far as that is known."""
    followed: Cluster | None = field(default=None, repr=False)
    """The same for the allocator, where informers keep it up to date; None: it is made of the objects."""

    def __repr__(self) -> str:
        counts = {kind.__name__: len(items) for kind, items in self.objects.items() if items}
        return f"ClusterState({self.source!r}, {counts!r}, notes={len(self.notes)})"

    @staticmethod
    def of(objects: Iterable[KubeObject], source: str = "objects", **more: Any) -> ClusterState:
        """Return the state with these objects, which are of the newest version; a later one replaces an earlier one."""
        return ClusterState(source, _with_merged_rules(_sorted_in(objects)), **more)

    @staticmethod
    def keyed(objects: ByKind, source: str, **more: Any) -> ClusterState:
        """Return the state with objects of an API server, by kind and by the keys of `key_of`."""
        if any(objects.get(DeviceTaintRule, {})):
            objects = _with_merged_rules(objects)
        return ClusterState(source, objects, **more)

    def is_known(self, kind: type[KubeObject]) -> bool:
        """Return True if the objects of that kind were read, so that one that is not there does not exist."""
        return kind not in self.unknown

    @property
    def without_devices(self) -> str:
        """Return the note that nothing of ``resource.k8s.io`` is known; "" if something is."""
        return next((note.text for note in self.notes if note.resource == _DEVICES), "")

    def notes_on(self, *kinds: type[KubeObject]) -> tuple[Note, ...]:
        """Return the notes on these kinds, for tools that read nothing else."""
        names = {name for kind in READ_KINDS if kind.ref.type in kinds for name in (kind.plural, kind.ref.kind)}
        names |= {_DEVICES} if any(read_kind(kind).ref.group == _DEVICES for kind in kinds) else set()
        return tuple(
            note for note in self.notes if note.problem == ASSUMED or re.split(r"[/ ]", note.resource)[0] in names
        )

    def all(self, kind: type[T]) -> tuple[T, ...]:
        """Return all objects of a kind, in the order in which they were read."""
        found: Mapping[Key, Any] = self.objects.get(kind, {})
        return tuple(found.values())

    def get(self, kind: type[T], name: str, namespace: str = "") -> T | None:
        """Return the object of that name."""
        found: Mapping[Key, Any] = self.objects.get(kind, {})
        return found.get((namespace, name))

    def changes_since(self, before: ClusterState, kind: type[T]) -> Iterator[tuple[Key, T | None, T | None]]:
        """Yield key, former and present object of each that differs, by identity; None where there is none."""
        old: Mapping[Key, Any] = before.objects.get(kind, {})
        new: Mapping[Key, Any] = self.objects.get(kind, {})
        if old is new:
            return
        for key, one in new.items():
            if (former := old.get(key)) is not one:
                yield key, former, one
        for key, former in old.items():
            if key not in new:
                yield key, former, None

    def allocating_from(self, cluster: Cluster) -> ClusterState:
        """Return the same objects, with devices allocated from ``cluster``."""
        return dataclass_replace(self, followed=cluster)

    def including(self, objects: Iterable[KubeObject]) -> ClusterState:
        """Return the same with more objects, or with others of the same name."""
        added = _sorted_in(objects)
        merged = {kind: {**self.objects.get(kind, {}), **items} for kind, items in added.items()}
        everything: ByKind = {**self.objects, **merged}
        return dataclass_replace(self, objects=everything, unknown=self.unknown - set(merged), followed=None)

    def without(self, objects: Iterable[KubeObject]) -> ClusterState:
        """Return the same without some objects."""
        gone = {(type(one), key_of(one)) for one in objects}
        left = {
            kind: {key: one for key, one in items.items() if (kind, key) not in gone}
            for kind, items in self.objects.items()
        }
        return dataclass_replace(self, objects=left, followed=None)

    @cached_property
    def nodes(self) -> tuple[Node, ...]:
        """All nodes; where nodes could not be read, those that slices name, without labels."""
        if self.is_known(Node):
            return self.all(Node)
        names = {
            name
            for piece in self.all(ResourceSlice)
            for name in (piece.spec.node_name, *(device.node_name for device in piece.spec.devices or ()))
            if name
        }
        return tuple(from_dict(Node, {"metadata": {"name": name}}) for name in sorted(names))

    @property
    def pods(self) -> tuple[Pod, ...]:
        """Return the pods of all namespaces."""
        return self.all(Pod)

    @cached_property
    def slice_problems(self) -> tuple[tuple[str, str, str], ...]:
        """Driver, pool, and a problem of its slices, for each problem of a pool."""
        # Computed once: it reads all devices, and an explanation of many pods names the same pools for each of them.
        pools: dict[tuple[str, str], list[ResourceSlice]] = {}
        for piece in self.all(ResourceSlice):
            pools.setdefault((piece.spec.driver, piece.spec.pool.name), []).append(piece)
        return tuple((*pool, text) for pool, pieces in sorted(pools.items()) for text in problems_of_slices(pieces))

    @cached_property
    def features(self) -> Features:
        """The allocator's features, by gates and release."""
        return Features.from_gates(self.gates, behaviour_of(self.gates.release))

    @cached_property
    def cluster(self) -> Cluster:
        """The same for the allocator; not to be changed."""
        if self.followed is not None:
            return self.followed
        kinds = (DeviceClass, ResourceSlice, DeviceTaintRule, ResourceClaim, ResourceClaimTemplate)
        cluster = Cluster.of([self.nodes, *(self.all(kind) for kind in kinds)], self.features)
        for what in self.undecodable:
            cluster.add_undecodable(what)
        # As long as the scheduler searches for a pod.
        cluster.budget = Budget(monotonic=SystemClock.monotonic)
        return cluster


def problems_of_slices(pieces: Sequence[ResourceSlice]) -> Iterator[str]:
    """Yield the problems of a pool, which has these slices."""
    newest = max(piece.spec.pool.generation for piece in pieces)
    current = [piece for piece in pieces if piece.spec.pool.generation == newest]
    wanted = current[0].spec.pool.resource_slice_count
    if len(current) != wanted:
        yield (
            f"is incomplete: generation {newest} has {len(current)} of {counted(wanted, 'slice')}, so none of "
            "its devices can be used; the driver may be updating it, or have stopped in the middle"
        )
    if len(current) < len(pieces):
        old = len(pieces) - len(current)
        yield f"has {counted(old, 'slice')} of an old generation, which count for nothing"
    names = [device.name for piece in current for device in piece.spec.devices or ()]
    # Sets are compared first, because counting each name is quadratic and nearly no pool has a name twice.
    twice = sorted({one for one in names if names.count(one) > 1}) if len(set(names)) != len(names) else []
    if twice:
        yield f"is invalid: device {twice[0]} appears twice"


_CONSEQUENCES: Final[Mapping[str, str]] = {
    "ResourceClaim": "the devices that it holds count as taken; where they cannot be read, whole pools are withheld",
    "ResourceSlice": "its pool counts as incomplete",
    "DeviceTaintRule": "the pools whose devices it may taint are withheld",
}


def note_on(what: Undecodable) -> Note:
    """Return the note on an object that cannot be decoded, and what follows from that."""
    plural = next((kind.plural for kind in READ_KINDS if kind.ref.kind == what.kind), what.kind)
    consequence = _CONSEQUENCES.get(what.kind, "it is left out")
    return Note(f"{plural}/{what.where}", "undecodable", f"{what}; {consequence}")


def key_of(one: KubeObject) -> Key:
    """Return the key under which a state keeps an object; namespaced objects without a namespace are in ``default``."""
    metadata = one.metadata
    if type(one) not in _NAMESPACED:
        return "", metadata.name
    return metadata.namespace or "default", metadata.name


_NAMESPACED = frozenset(kind.ref.type for kind in READ_KINDS if kind.ref.namespaced)


def _sorted_in(objects: Iterable[KubeObject]) -> dict[type[KubeObject], dict[Key, KubeObject]]:
    found: dict[type[KubeObject], dict[Key, KubeObject]] = {}
    for one in objects:
        completed = _completed(one)
        found.setdefault(type(completed), {})[key_of(completed)] = completed
    return found


def _with_merged_rules(objects: ByKind) -> ByKind:
    """Return the objects with the taints of rules of 1.33 and 1.34, which could also choose by class, merged into the
    slices."""
    known: Mapping[type[Any], Mapping[Key, Any]] = objects
    slices, rules = merged_rules(
        known.get(ResourceSlice, {}).values(),
        tuple(known.get(DeviceTaintRule, {}).values()),
        known.get(DeviceClass, {}).values(),
    )
    if len(rules) == len(known.get(DeviceTaintRule, {})):
        return objects
    merged: dict[type[KubeObject], dict[Key, KubeObject]]
    merged = {ResourceSlice: {key_of(one): one for one in slices}, DeviceTaintRule: {key_of(one): one for one in rules}}
    return {**objects, **merged}


def _completed(one: KubeObject) -> KubeObject:
    """Return the object with a namespace and a UID, as every object that was created has them; manifests may lack
    both."""
    metadata = one.metadata
    namespace, name = key_of(one)
    if metadata.namespace == namespace and metadata.uid:
        return one
    uid = metadata.uid or f"{type(one).__name__}/{namespace}/{name}"
    return replace(one, metadata=replace(metadata, namespace=namespace, uid=uid))
