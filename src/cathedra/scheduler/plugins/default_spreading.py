"""Which pods a pod without constraints of its own is spread from: those of its services and of what controls it.

Source: ``pkg/scheduler/framework/plugins/helper/spread.go`` (DefaultSelector).
"""

from __future__ import annotations

from typing import Any

from cathedra.api.core.core_v1 import Pod
from cathedra.api.core.meta_v1 import LabelSelector
from cathedra.api.selectors import Selector, SelectorError, from_label_selector
from cathedra.client.informer import Informer, SharedInformers
from cathedra.client.resources import REPLICASETS, REPLICATIONCONTROLLERS, SERVICES, STATEFULSETS
from cathedra.client.store import BY_NAMESPACE, by_namespace
from cathedra.semantics.owners import controller_of

__all__ = ["RelatedPods"]


class RelatedPods:
    """Finds the selector of a pod's relatives."""

    def __init__(self, informers: SharedInformers) -> None:
        self._services = informers.of(SERVICES).store
        self._services.add_index(BY_NAMESPACE, by_namespace)
        self._replication_controllers = informers.of(REPLICATIONCONTROLLERS).store
        self._selecting: dict[tuple[str, str], Informer[Any]] = {
            ("apps/v1", "ReplicaSet"): informers.of(REPLICASETS),
            ("apps/v1", "StatefulSet"): informers.of(STATEFULSETS),
        }

    def selector(self, pod: Pod) -> Selector | None:
        """What the services that select the pod and its controller select together; None if there is neither."""
        labels = self._of_services(pod)
        owner = controller_of(pod)
        added: Selector | None = None
        if owner is not None:
            key = (owner.api_version, owner.kind)
            if key == ("v1", "ReplicationController"):
                controller = self._replication_controllers.get(pod.metadata.namespace, owner.name)
                labels |= controller.spec.selector if controller is not None else {}
            elif key in self._selecting:
                found = self._selecting[key].store.get(pod.metadata.namespace, owner.name)
                added = _parsed(found.spec.selector if found is not None else None)
        if not labels and added is None:
            return None
        merged = from_label_selector(LabelSelector(match_labels=labels))
        if added is not None:
            merged = Selector((*merged.requirements, *added.requirements))
        return None if merged.empty else merged

    def _of_services(self, pod: Pod) -> dict[str, str]:
        labels: dict[str, str] = {}
        for service in self._services.by_index(BY_NAMESPACE, pod.metadata.namespace):
            selector = service.spec.selector
            if selector and selector.items() <= pod.metadata.labels.items():
                labels |= selector
        return labels


def _parsed(selector: LabelSelector | None) -> Selector | None:
    if selector is None:
        return None
    try:
        return from_label_selector(selector)
    except SelectorError:
        return None
