"""The plugin PodTopologyLabels (KEP-4742): a bound pod gets zone and region of its node as labels, for the downward
API."""

from __future__ import annotations

from typing import Any, Final

from cathedra.api.core.core_v1 import Binding, Node, Pod
from cathedra.api.struct import replace
from cathedra.apiserver.admission.attributes import AdmissionAttributes
from cathedra.apiserver.admission.plugin import AdmissionPlugin
from cathedra.apiserver.registry.registry import Registry
from cathedra.apiserver.routes import NODES, PODS
from cathedra.kinds.definition import AnyDefinition

_LABELS: Final = ("topology.kubernetes.io/zone", "topology.kubernetes.io/region")
_ANY_LABEL: Final = frozenset(_LABELS)


class PodTopologyLabels(AdmissionPlugin):
    """Copies the labels to bindings, and to pods that are made with their node."""

    kinds = frozenset({PODS})

    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    def handles(self, definition: AnyDefinition, subresource: str, operation: str) -> bool:
        """Handle new pods and bindings."""
        return operation == "CREATE" and subresource in {"", "binding"}

    def admit(self, request: AdmissionAttributes) -> Any:
        """Return the binding or pod with the labels of its node; its own labels stay."""
        obj = request.object
        if isinstance(obj, Binding) and obj.target.kind == "Node":
            return self._labelled(obj, obj.target.name)
        if isinstance(obj, Pod) and obj.spec.node_name:
            return self._labelled(obj, obj.spec.node_name)
        return obj

    def _labelled(self, obj: Binding | Pod, node_name: str) -> Any:
        node: Node | None = self._registry.find(NODES, node_name)
        if node is None:
            return obj
        its = node.metadata.labels
        if _ANY_LABEL.isdisjoint(its):
            return obj
        labels = {name: its[name] for name in _LABELS if name in its}
        if not labels.keys() - obj.metadata.labels.keys():
            return obj
        return replace(obj, metadata=replace(obj.metadata, labels={**labels, **obj.metadata.labels}))
