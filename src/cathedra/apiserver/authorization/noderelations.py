"""Objects that a node may read: those that the pods bound to it refer to (docs/spec/apimachinery.md §15.4).

The index follows the writes of pods: a change costs the references of that pod, a request costs one look-up.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any, Final

from cathedra.api.core.core_v1 import Container, EphemeralContainer, Pod, Volume
from cathedra.api.scheme import GroupResource
from cathedra.apiserver.registry.registry import Registry
from cathedra.apiserver.registry.watching import StoredChange
from cathedra.semantics.podclaims import claim_names
from cathedra.semantics.pods import is_mirror

_PODS: Final = GroupResource("", "pods")
_VOLUMES: Final = GroupResource("", "persistentvolumes")
_SLICES: Final = GroupResource("resource.k8s.io", "resourceslices")
_ATTACHMENTS: Final = GroupResource("storage.k8s.io", "volumeattachments")

Reference = tuple[str, str]
"""The plural of a namespaced resource, and a name in the pod's namespace."""


def node_of_slice(piece: Any) -> str:
    """Return the node whose devices a resource slice describes; "" for none. In 1.30 slices had no spec."""
    return str(piece.spec.node_name if hasattr(piece, "spec") else piece.node_name)


class NodeRelations:
    """Index of the objects that the pods of each node refer to."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        # Counted, since several pods of a node may refer to one object: the right ends with the last of them.
        self._count: Counter[tuple[str, str, str, str]] = Counter()
        for entry in registry.table(_PODS).entries():
            self._count.update(_edges(entry.object))
        registry.observe(_PODS, self._changed)

    def referenced(self, node: str, resource: str, namespace: str, name: str) -> bool:
        """Return True if a pod on the node refers to that object, or, for ``pods``, is it."""
        return (node, resource, namespace, name) in self._count

    def volume(self, node: str, name: str) -> bool:
        """Return True if a pod on the node uses the claim that a persistent volume is bound to."""
        volume = self._registry.find(_VOLUMES, name)
        bound = volume.spec.claim_ref if volume is not None and volume.spec is not None else None
        return bound is not None and self.referenced(node, "persistentvolumeclaims", bound.namespace, bound.name)

    def resource_slice(self, node: str, name: str) -> bool:
        """Return True if a resource slice describes devices of that node alone."""
        found = self._registry.find(_SLICES, name)
        return found is not None and node_of_slice(found) == node

    def attachment(self, node: str, name: str) -> bool:
        """Return True if a volume attachment is one to the node."""
        found = self._registry.find(_ATTACHMENTS, name)
        return found is not None and found.spec.node_name == node

    def _changed(self, change: StoredChange) -> None:
        before = change.previous.object if change.previous is not None else None
        last = change.entry.object
        if last.spec is None or not last.spec.node_name:
            return  # a pod keeps its node, so this one never had any
        after = None if change.deleted else last
        if before is not None and after is not None and _same(before, after):
            return
        for pod, step in ((before, -1), (after, 1)):
            for edge in _edges(pod) if pod is not None else ():
                self._count[edge] += step
                if not self._count[edge]:
                    del self._count[edge]


def references(pod: Pod) -> Iterator[Reference]:
    """Yield the objects of its namespace that a pod refers to, some more than once."""
    spec: Any = pod.spec
    yield "serviceaccounts", spec.service_account_name or "default"
    for secret in spec.image_pull_secrets:
        yield "secrets", secret.name
    for container in (*spec.containers, *spec.init_containers, *spec.ephemeral_containers):
        yield from _of_container(container)
    for volume in spec.volumes:
        yield from _of_volume(pod, volume)
    yield from _claims(pod)


def _claims(pod: Pod) -> Iterator[Reference]:
    return (("resourceclaims", name) for name in claim_names(pod))


def _of_container(container: Container | EphemeralContainer) -> Iterator[Reference]:
    for source in container.env_from:
        if source.secret_ref is not None:
            yield "secrets", source.secret_ref.name
        if source.config_map_ref is not None:
            yield "configmaps", source.config_map_ref.name
    for variable in container.env:
        value = variable.value_from
        if value is not None and value.secret_key_ref is not None:
            yield "secrets", value.secret_key_ref.name
        if value is not None and value.config_map_key_ref is not None:
            yield "configmaps", value.config_map_key_ref.name


def _of_volume(pod: Pod, volume: Volume) -> Iterator[Reference]:
    if volume.secret is not None:
        yield "secrets", volume.secret.secret_name
    if volume.config_map is not None:
        yield "configmaps", volume.config_map.name
    if volume.persistent_volume_claim is not None:
        yield "persistentvolumeclaims", volume.persistent_volume_claim.claim_name
    if volume.ephemeral is not None:
        yield "persistentvolumeclaims", f"{pod.metadata.name}-{volume.name}"
    if volume.csi is not None and volume.csi.node_publish_secret_ref is not None:
        yield "secrets", volume.csi.node_publish_secret_ref.name
    for part in volume.projected.sources or () if volume.projected is not None else ():
        if part.secret is not None:
            yield "secrets", part.secret.name
        if part.config_map is not None:
            yield "configmaps", part.config_map.name


def _edges(pod: Pod) -> Iterator[tuple[str, str, str, str]]:
    node = pod.spec.node_name if pod.spec is not None else ""
    if not node:
        return
    namespace = pod.metadata.namespace
    yield node, "pods", namespace, pod.metadata.name
    if is_mirror(pod):
        return  # a node makes its mirror pods itself: references in them would give it any Secret
    for resource, name in set(references(pod)):
        yield node, resource, namespace, name


def _same(before: Pod, after: Pod) -> bool:
    """Return True if a change cannot have touched the references of the pod; most are changes of its conditions."""
    return (
        (before.spec is after.spec or before.spec == after.spec)
        and before.status.resource_claim_statuses == after.status.resource_claim_statuses
        and before.status.extended_resource_claim_status == after.status.extended_resource_claim_status
        and is_mirror(before) == is_mirror(after)
    )
