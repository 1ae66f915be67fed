"""Plugins on persistent volumes: VolumeRestrictions, NodeVolumeLimits, VolumeBinding and VolumeZone.

They read claims, volumes, storage classes and CSINodes, and refuse pods and nodes in kube-scheduler's words
(docs/spec/scheduling.md §17). VolumeBinding only filters: no volume is bound or provisioned for a pod, and storage
capacity is not compared (docs/deviations.md).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from cathedra.api.core.core_v1 import PersistentVolume, PersistentVolumeClaim, Pod, Volume
from cathedra.api.core.storage_v1 import CSINode, StorageClass
from cathedra.api.quantity import Quantity
from cathedra.api.selectors import SelectorError, from_label_selector, node_selector_matches
from cathedra.client.informer import SharedInformers
from cathedra.client.resources import CSINODES, PERSISTENTVOLUMECLAIMS, PERSISTENTVOLUMES, STORAGECLASSES
from cathedra.client.store import Store
from cathedra.client.transport import ResourceRef
from cathedra.scheduler.framework.events import Action, ClusterEvent, EventRegistration, EventResource
from cathedra.scheduler.framework.plugin import CycleState, FilterPlugin, Notify, PreFilterPlugin
from cathedra.scheduler.framework.status import Code, Status, unresolvable, unschedulable
from cathedra.scheduler.state.node_info import NodeInfo
from cathedra.scheduler.state.pod_info import PodInfo
from cathedra.scheduler.state.snapshot import Snapshot
from cathedra.semantics.owners import controller_uid

_SKIP: Final = Status(Code.SKIP)
_CLASS_ANNOTATION: Final = "volume.beta.kubernetes.io/storage-class"
_BOUND: Final = "pv.kubernetes.io/bind-completed"
_SELECTED_NODE: Final = "volume.kubernetes.io/selected-node"
_NO_PROVISIONER: Final = "kubernetes.io/no-provisioner"
_DELAYED: Final = "WaitForFirstConsumer"
_ZONES: Final = {
    "failure-domain.beta.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region": "topology.kubernetes.io/region",
    "topology.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region": "topology.kubernetes.io/region",
}
"""Labels of volumes and nodes, and the newer label that a node may have instead."""


@dataclass(frozen=True, slots=True)
class VolumeObjects:
    """The objects that decide on volumes, as informers have them."""

    claims: Store[PersistentVolumeClaim]
    volumes: Store[PersistentVolume]
    classes: Store[StorageClass]
    csi_nodes: Store[CSINode]

    @staticmethod
    def of(informers: SharedInformers) -> VolumeObjects:
        """Return the objects of these informers."""
        return VolumeObjects(
            informers.of(PERSISTENTVOLUMECLAIMS).store,
            informers.of(PERSISTENTVOLUMES).store,
            informers.of(STORAGECLASSES).store,
            informers.of(CSINODES).store,
        )

    @staticmethod
    def listen(informers: SharedInformers, wake: Notify) -> None:
        """Call ``wake`` for changes that may make a pod with volumes schedulable."""
        followed: tuple[tuple[ResourceRef[Any], EventResource], ...] = (
            (PERSISTENTVOLUMECLAIMS, EventResource.PERSISTENT_VOLUME_CLAIM),
            (PERSISTENTVOLUMES, EventResource.PERSISTENT_VOLUME),
            (STORAGECLASSES, EventResource.STORAGE_CLASS),
            (CSINODES, EventResource.CSI_NODE),
        )
        for ref, resource in followed:
            informers.of(ref).add_handler(
                partial(wake, resource, Action.ADD, None), partial(wake, resource, Action.UPDATE)
            )

    def class_of(self, claim: PersistentVolumeClaim) -> StorageClass | None:
        """Return the storage class of a claim."""
        name = class_name(claim)
        return self.classes.get("", name) if name else None

    def is_delayed(self, claim: PersistentVolumeClaim) -> bool:
        """Return True if the claim is bound when a pod that uses it has a node (IsDelayBindingMode)."""
        found = self.class_of(claim)
        # A claim that names its volume is bound at once, whatever its class is.
        return found is not None and found.volume_binding_mode == _DELAYED and not claim.spec.volume_name


def class_name(claim: PersistentVolumeClaim) -> str:
    """Return the name of a claim's storage class, or "" (GetPersistentVolumeClaimClass)."""
    return (claim.metadata.annotations or {}).get(_CLASS_ANNOTATION) or claim.spec.storage_class_name or ""


def claim_names(pod: Pod) -> Iterator[tuple[str, bool]]:
    """Yield the name of the claim of each volume that has one, and whether the claim is made for the pod."""
    for volume in pod.spec.volumes:
        if volume.persistent_volume_claim is not None:
            yield volume.persistent_volume_claim.claim_name, False
        elif volume.ephemeral is not None:
            yield f"{pod.metadata.name}-{volume.name}", True


def _not_found(kind: str, name: str) -> str:
    return f'{kind} "{name}" not found'


_NODES: Final = EventRegistration(EventResource.NODE, Action.ADD | Action.UPDATE_NODE_LABEL)


def _concerns(pod: Pod, change: ClusterEvent) -> bool:
    """Return True if a changed claim is one of the pod's."""
    metadata = change.new.metadata
    return metadata.namespace == pod.metadata.namespace and any(name == metadata.name for name, _ in claim_names(pod))


_CLAIMS: Final = EventRegistration(
    EventResource.PERSISTENT_VOLUME_CLAIM, Action.ADD | Action.UPDATE, lambda pod, change: _concerns(pod, change)
)


class _VolumePlugin(PreFilterPlugin, FilterPlugin):
    """Base of the plugins: pods without the volumes that they concern are skipped."""

    def __init__(self, objects: VolumeObjects) -> None:
        self._objects = objects

    def skips(self, pod: PodInfo) -> bool:
        """Nothing to do for pods without persistent volumes."""
        return not pod.uses_volume_claims

    def _claim(self, pod: Pod, name: str) -> PersistentVolumeClaim | None:
        return self._objects.claims.get(pod.metadata.namespace, name)


class VolumeRestrictions(_VolumePlugin):
    """Refuses nodes on which a disk of the pod is mounted, and pods whose claim may be used by one pod only."""

    name = "VolumeRestrictions"
    _conflict = unschedulable("node(s) had no available disk")
    _in_use = unschedulable(
        "node has pod using PersistentVolumeClaim with the same name and ReadWriteOncePod access mode"
    )

    def events(self) -> Sequence[EventRegistration]:
        """Return the events that may help: a pod goes, a node comes, or a claim of the pod changes."""
        deleted = EventRegistration(EventResource.ASSIGNED_POD, Action.DELETE)
        return deleted, EventRegistration(EventResource.NODE, Action.ADD), _CLAIMS

    def skips(self, pod: PodInfo) -> bool:
        """Nothing to do for pods without disks and persistent volumes."""
        if pod.uses_volume_claims:
            return False
        for volume in pod.pod.spec.volumes:  # noqa: SIM110  # for every pod: a generator costs more than the loop
            if _is_disk(volume):
                return False
        return True

    def pre_filter(self, state: CycleState, pod: PodInfo, snapshot: Snapshot) -> Status | None:
        """Search the cluster for pods that use claims which one pod only may use."""
        alone: set[str] = set()
        for name, is_ephemeral in claim_names(pod.pod):
            if is_ephemeral:
                continue
            claim = self._claim(pod.pod, name)
            if claim is None:
                return unresolvable(_not_found("persistentvolumeclaim", name))
            # Nothing else prevents two pods: the access mode is enforced by the scheduler, and by the kubelet when it
            # is too late.
            if "ReadWriteOncePod" in claim.spec.access_modes:
                alone.add(name)
        taken = bool(alone) and any(
            other.namespace == pod.namespace and any(name in alone for name, _ in claim_names(other.pod))
            for node in snapshot.nodes
            for other in node.pods.values()
        )
        # The search over all pods of the cluster is done once per cycle. With neither finding, the filter is not called
        # for any node.
        if not taken and not any(map(_is_disk, pod.pod.spec.volumes)):
            return _SKIP
        state.data[self.name] = taken
        return None

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        """Compare the disks of the pod with those of the pods on the node."""
        disks = [volume for volume in pod.pod.spec.volumes if _is_disk(volume)]
        for other in node.pods.values() if disks else ():
            if any(_conflict(mine, its) for mine in disks for its in other.pod.spec.volumes):
                return self._conflict
        return self._in_use if state.data[self.name] else None


def _is_disk(volume: Volume) -> bool:
    return (
        volume.gce_persistent_disk is not None
        or volume.aws_elastic_block_store is not None
        or volume.rbd is not None
        or volume.iscsi is not None
    )


def _conflict(mine: Volume, its: Volume) -> bool:
    """Return True if two volumes are one disk that may not be mounted twice (isVolumeConflict)."""
    gce, its_gce = mine.gce_persistent_disk, its.gce_persistent_disk
    if gce is not None and its_gce is not None and gce.pd_name == its_gce.pd_name:
        return not (gce.read_only and its_gce.read_only)
    aws, its_aws = mine.aws_elastic_block_store, its.aws_elastic_block_store
    if aws is not None and its_aws is not None and aws.volume_id == its_aws.volume_id:
        return True
    iscsi, its_iscsi = mine.iscsi, its.iscsi
    if iscsi is not None and its_iscsi is not None and iscsi.iqn == its_iscsi.iqn:
        return not (iscsi.read_only and its_iscsi.read_only)
    rbd, its_rbd = mine.rbd, its.rbd
    if rbd is None or its_rbd is None or not {*rbd.monitors} & {*its_rbd.monitors}:
        return False
    same = (rbd.pool, rbd.image) == (its_rbd.pool, its_rbd.image)
    return same and not (rbd.read_only and its_rbd.read_only)


class NodeVolumeLimits(_VolumePlugin):
    """Refuses nodes to which no more volumes of a CSI driver can be attached."""

    name = "NodeVolumeLimits"
    _full = unschedulable("node(s) exceed max volume count")

    def events(self) -> Sequence[EventRegistration]:
        """Return the events that may help: a limit is reported, a pod goes, or a claim of the pod changes."""
        return (
            EventRegistration(EventResource.CSI_NODE, Action.ADD | Action.UPDATE),
            EventRegistration(EventResource.ASSIGNED_POD, Action.DELETE),
            _CLAIMS,
        )

    def pre_filter(self, state: CycleState, pod: PodInfo, snapshot: Snapshot) -> Status | None:
        """Return Skip for pods without persistent volumes; for the others the filter does all."""
        return _SKIP if self.skips(pod) else None

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        """Count the volumes of each driver that are attached, and those that the pod adds."""
        # A node without a CSINode, or a driver without a count, has no known limit. Kubernetes lets such pods pass.
        csi_node = self._objects.csi_nodes.get("", node.name)
        limits = {
            driver.name: driver.allocatable.count
            for driver in ((csi_node.spec.drivers if csi_node is not None else None) or ())
            if driver.allocatable is not None and driver.allocatable.count is not None
        }
        if not limits:
            return None
        wanted = set(self._attached(pod.pod))
        there = {handle for other in node.pods.values() for handle in self._attached(other.pod)}
        for driver, limit in limits.items():
            # As sets: two pods that use one volume attach it once.
            new = sum(handle[0] == driver for handle in wanted - there)
            if new and sum(handle[0] == driver for handle in there) + new > limit:
                return self._full
        return None

    def _attached(self, pod: Pod) -> Iterator[tuple[str, str]]:
        """Yield driver and handle of the pod's CSI volumes; those to be made have their claim's name."""
        for name, _ in claim_names(pod):
            claim = self._claim(pod, name)
            if claim is None:
                continue
            volume = self._objects.volumes.get("", claim.spec.volume_name) if claim.spec.volume_name else None
            if volume is not None:
                if volume.spec.csi is not None:
                    yield volume.spec.csi.driver, volume.spec.csi.volume_handle
                continue
            found = self._objects.class_of(claim)
            if found is not None:
                yield found.provisioner, f"{claim.metadata.namespace}/{claim.metadata.name}"


@dataclass(frozen=True, slots=True)
class _Claims:
    bound: tuple[PersistentVolumeClaim, ...]
    delayed: tuple[PersistentVolumeClaim, ...]


class VolumeBinding(_VolumePlugin):
    """Refuses pods whose claims cannot be used yet, and nodes that their volumes cannot be used on."""

    name = "VolumeBinding"
    _affinity = "node(s) didn't match PersistentVolume's node affinity"
    _unbindable = "node(s) didn't find available persistent volumes to bind"
    _lost = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"

    def events(self) -> Sequence[EventRegistration]:
        """Return the events that may help: a claim, a volume, a class or a node comes or changes."""
        changed = Action.ADD | Action.UPDATE
        return (
            _CLAIMS,
            EventRegistration(EventResource.PERSISTENT_VOLUME, changed),
            EventRegistration(EventResource.STORAGE_CLASS, changed),
            _NODES,
        )

    def pre_filter(self, state: CycleState, pod: PodInfo, snapshot: Snapshot) -> Status | None:
        """Refuse the pod unless all its claims exist, and those that are bound at once are bound."""
        bound: list[PersistentVolumeClaim] = []
        delayed: list[PersistentVolumeClaim] = []
        unbound = False
        for name, is_ephemeral in claim_names(pod.pod):
            claim = self._claim(pod.pod, name)
            fault = _fault(claim, name, pod.pod, is_ephemeral=is_ephemeral)
            if fault or claim is None:
                return unresolvable(fault)
            # The name alone is not enough: it is set first, and the annotation when both sides of the binding are
            # written.
            if claim.spec.volume_name and _BOUND in (claim.metadata.annotations or {}):
                bound.append(claim)
            elif self._objects.is_delayed(claim):
                delayed.append(claim)
            else:
                unbound = True
        if unbound:
            return unresolvable("pod has unbound immediate PersistentVolumeClaims")
        if not bound and not delayed:
            return _SKIP
        state.data[self.name] = _Claims(tuple(bound), tuple(delayed))
        return None

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        """Bound volumes can be used on the node, and others can be found or made for it."""
        claims: _Claims = state.data[self.name]
        volumes = [self._objects.volumes.get("", claim.spec.volume_name) for claim in claims.bound]
        reasons = []
        # All reasons are collected, because kube-scheduler joins them in the pod's event.
        if not all(_reaches(volume, node) for volume in volumes if volume is not None):
            reasons.append(self._affinity)
        if claims.delayed and not self._can_bind(claims.delayed, node):
            reasons.append(self._unbindable)
        if None in volumes:
            reasons.append(self._lost)
        return unresolvable(*reasons) if reasons else None

    def _can_bind(self, claims: Iterable[PersistentVolumeClaim], node: NodeInfo) -> bool:
        chosen: set[str] = set()
        # Small claims first: a small volume is left to the claim that it suffices for.
        for claim in sorted(claims, key=lambda claim: _storage(claim.spec.resources.requests).nanos):
            selected = (claim.metadata.annotations or {}).get(_SELECTED_NODE)
            # Another node was chosen in an earlier cycle and the volume may exist there by now. Choosing again would
            # leave it unused.
            if selected is not None and selected != node.name:
                return False
            # A selected claim waits for its provisioner; an existing volume must not be bound to it meanwhile.
            found = None if selected is not None else self._matching_volume(claim, node, chosen)
            if found is not None:
                chosen.add(found.metadata.name)
            elif not self._can_provision(claim, node):
                return False
        return True

    def _matching_volume(
        self, claim: PersistentVolumeClaim, node: NodeInfo, chosen: set[str]
    ) -> PersistentVolume | None:
        """Return the smallest free volume for a claim on a node (FindMatchingVolume)."""
        matching = [
            volume
            for volume in self._objects.volumes
            if volume.metadata.name not in chosen and _suits(volume, claim) and _reaches(volume, node)
        ]
        return min(matching, key=lambda volume: _storage(volume.spec.capacity).nanos, default=None)

    def _can_provision(self, claim: PersistentVolumeClaim, node: NodeInfo) -> bool:
        found = self._objects.class_of(claim)
        if found is None or found.provisioner in ("", _NO_PROVISIONER):
            return False
        labels = node.node.metadata.labels or {}
        return not found.allowed_topologies or any(
            all(labels.get(one.key) in one.values for one in term.match_label_expressions)
            for term in found.allowed_topologies
        )


def _fault(claim: PersistentVolumeClaim | None, name: str, pod: Pod, *, is_ephemeral: bool) -> str:
    """Return the reason why a claim cannot be used at all, or "" (podHasPVCs)."""
    if claim is None and is_ephemeral:
        return f'waiting for ephemeral volume controller to create the persistentvolumeclaim "{name}"'
    if claim is None:
        return _not_found("persistentvolumeclaim", name)
    if claim.status.phase == "Lost":
        return f'persistentvolumeclaim "{name}" bound to non-existent persistentvolume "{claim.spec.volume_name}"'
    if claim.metadata.deletion_timestamp is not None:
        return f'persistentvolumeclaim "{name}" is being deleted'
    if is_ephemeral and pod.metadata.uid not in controller_uid(claim):
        mine = f"{pod.metadata.namespace}/{pod.metadata.name}"
        return f"PVC {claim.metadata.namespace}/{name} was not created for pod {mine} (pod is not owner)"
    return ""


def _storage(amounts: dict[str, Quantity]) -> Quantity:
    return amounts.get("storage", Quantity.of_value(0))


def _reaches(volume: PersistentVolume, node: NodeInfo) -> bool:
    affinity = volume.spec.node_affinity
    if affinity is None or affinity.required is None:
        return True
    return node_selector_matches(affinity.required, node.node)


def _suits(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    spec, wanted = volume.spec, claim.spec
    owner = spec.claim_ref
    if volume.metadata.deletion_timestamp is not None or (volume.status.phase != "Available" and owner is None):
        return False
    if owner is not None:
        mine = (owner.namespace, owner.name) == (claim.metadata.namespace, claim.metadata.name)
        # An empty UID reserves the volume for a claim of that name. Another UID is that of a claim that was deleted.
        return mine and owner.uid in ("", claim.metadata.uid)
    if (spec.storage_class_name or "") != class_name(claim):
        return False
    if (spec.volume_mode or "Filesystem") != (wanted.volume_mode or "Filesystem"):
        return False
    if not {*wanted.access_modes} <= {*spec.access_modes}:
        return False
    if _storage(spec.capacity) < _storage(wanted.resources.requests):
        return False
    try:
        selector = wanted.selector
        return selector is None or from_label_selector(selector).matches(volume.metadata.labels or {})
    except SelectorError:
        return False


class VolumeZone(_VolumePlugin):
    """Refuses nodes outside the zone or region that a volume is labelled with."""

    name = "VolumeZone"
    _refusal = unresolvable("node(s) had no available volume zone")

    def events(self) -> Sequence[EventRegistration]:
        """Return the events that may help: a class comes, or a node, a claim or a volume comes or changes."""
        return (
            EventRegistration(EventResource.STORAGE_CLASS, Action.ADD),
            _NODES,
            _CLAIMS,
            EventRegistration(EventResource.PERSISTENT_VOLUME, Action.ADD | Action.UPDATE),
        )

    def pre_filter(self, state: CycleState, pod: PodInfo, snapshot: Snapshot) -> Status | None:
        """Collect the labels of the pod's volumes."""
        zones: list[tuple[str, frozenset[str]]] = []
        for name, is_ephemeral in claim_names(pod.pod):
            if is_ephemeral:
                continue
            claim = self._claim(pod.pod, name)
            if claim is None:
                return unresolvable(_not_found("persistentvolumeclaim", name))
            if not claim.spec.volume_name:
                fault = self._unbound_fault(claim)
                if fault:
                    return unresolvable(fault)
                continue
            volume = self._objects.volumes.get("", claim.spec.volume_name)
            if volume is None:
                return unresolvable(_not_found("persistentvolume", claim.spec.volume_name))
            labels = volume.metadata.labels or {}
            # Regional volumes are in several zones, which cloud providers join with two underscores.
            zones += [(key, frozenset(labels[key].split("__"))) for key in _ZONES if key in labels]
        if not zones:
            return _SKIP
        state.data[self.name] = zones
        return None

    def _unbound_fault(self, claim: PersistentVolumeClaim) -> str:
        name = class_name(claim)
        if not name:
            return "PersistentVolumeClaim had no pv name and storageClass name"
        found = self._objects.classes.get("", name)
        if found is None:
            return _not_found("storageclass.storage.k8s.io", name)
        if not found.volume_binding_mode:
            return f'VolumeBindingMode not set for StorageClass "{name}"'
        return "" if found.volume_binding_mode == _DELAYED else "PersistentVolume had no name"

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        """Compare the labels; a node without any of them is in the only zone there is."""
        labels = node.node.metadata.labels or {}
        if not any(key in labels for key in _ZONES):
            return None
        zones: list[tuple[str, frozenset[str]]] = state.data[self.name]
        # Old volumes carry the beta labels, and new nodes may have the stable ones only.
        fits = all(labels.get(key, labels.get(_ZONES[key])) in values for key, values in zones)
        return None if fits else self._refusal
