"""The plugin RuntimeClass: a new pod gets the overhead, the nodes and the tolerations of its runtime class."""

from __future__ import annotations

from typing import Any, Final

from cathedra.api.core.core_v1 import Pod
from cathedra.api.core.node_v1 import RuntimeClass, Scheduling
from cathedra.api.goquote import go_quote
from cathedra.api.scheme import GroupResource
from cathedra.api.status import forbidden
from cathedra.api.struct import replace
from cathedra.apiserver.admission.attributes import AdmissionAttributes
from cathedra.apiserver.admission.plugin import AdmissionPlugin
from cathedra.apiserver.registry.registry import Registry
from cathedra.apiserver.routes import PODS
from cathedra.kinds.definition import AnyDefinition
from cathedra.releases import FeatureGates, behaviours
from cathedra.semantics.tolerations import merged_tolerations

_RUNTIME_CLASSES: Final = GroupResource("node.k8s.io", "runtimeclasses")
_OTHER_OVERHEAD: Final = "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead"
_NO_OVERHEAD: Final = "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead"


class RuntimeClasses(AdmissionPlugin):
    """Fills in overhead, node selector and tolerations of a pod's runtime class, and checks them."""

    name = "RuntimeClass"
    kinds = frozenset({PODS})

    def __init__(self, registry: Registry, gates: FeatureGates) -> None:
        self._registry = registry
        self._empty_is_none = gates.has(behaviours.EMPTY_RUNTIME_CLASS_IS_NONE)

    def handles(self, definition: AnyDefinition, subresource: str, operation: str) -> bool:
        """Handle new pods, which alone name a class."""
        return operation == "CREATE" and not subresource

    def admit(self, request: AdmissionAttributes) -> Any:
        """Return the pod with the fields of its class.

        Raises:
            StatusError: 403, the class is missing, or the pod has another value than the class.
        """
        pod: Pod = request.object
        found = self._class(request)
        if found is None:
            return pod
        if found.overhead is not None:
            fixed = found.overhead.pod_fixed
            if pod.spec.overhead and pod.spec.overhead != fixed:
                raise forbidden(PODS, request.name, _OTHER_OVERHEAD)
            pod = replace(pod, spec=replace(pod.spec, overhead=fixed))
        if found.scheduling is not None:
            pod = _scheduled(request, pod, found.scheduling)
        return pod

    def validate(self, request: AdmissionAttributes) -> None:
        """Refuse an overhead other than that of the class, which a webhook may have set.

        Raises:
            StatusError: 403, it has another.
        """
        found = self._class(request)
        overhead = request.object.spec.overhead
        if found is not None and found.overhead is not None:
            if overhead != found.overhead.pod_fixed:
                raise forbidden(PODS, request.name, _OTHER_OVERHEAD)
        elif overhead:
            raise forbidden(PODS, request.name, _NO_OVERHEAD)

    def _class(self, request: AdmissionAttributes) -> RuntimeClass | None:
        """Return the pod's class; None if it names none."""
        name = request.object.spec.runtime_class_name
        if name is None or (not name and self._empty_is_none):
            return None
        found: RuntimeClass | None = self._registry.find(_RUNTIME_CLASSES, name)
        if found is None:
            raise forbidden(PODS, request.name, f"pod rejected: RuntimeClass {go_quote(name)} not found")
        return found


def _scheduled(request: AdmissionAttributes, pod: Pod, scheduling: Scheduling) -> Pod:
    selector = dict(pod.spec.node_selector)
    for key, value in sorted(scheduling.node_selector.items()):
        if selector.get(key, value) != value:
            why = (
                f"conflict: runtimeClass.scheduling.nodeSelector[{key}] = {value}; "
                f"pod.spec.nodeSelector[{key}] = {selector[key]}"
            )
            raise forbidden(PODS, request.name, why)
        selector[key] = value
    tolerations = merged_tolerations(pod.spec.tolerations, scheduling.tolerations)
    return replace(pod, spec=replace(pod.spec, node_selector=selector, tolerations=tolerations))
