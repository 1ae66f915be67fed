"""Pod groups belong to a workload, and are protected from vanishing under their pods (docs/spec/controllers.md §11).

The plugin PodGroupProtection puts a finalizer on a group. The controller of the same name takes it away once no pod of
the deleted group, or no group below it, is left. PodGroupWorkloadExists refuses a group whose workload or template is
missing.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from cathedra.api.core.scheduling_v1alpha3 import Workload
from cathedra.api.goquote import go_quote
from cathedra.api.scheme import GroupResource
from cathedra.api.status import forbidden
from cathedra.api.struct import replace
from cathedra.apiserver.admission.attributes import AdmissionAttributes
from cathedra.apiserver.admission.plugin import AdmissionPlugin
from cathedra.apiserver.registry.registry import Registry
from cathedra.kinds.definition import AnyDefinition
from cathedra.releases import FeatureGates, behaviours

_POD_GROUPS: Final = GroupResource("scheduling.k8s.io", "podgroups")
_COMPOSITES: Final = GroupResource("scheduling.k8s.io", "compositepodgroups")
_WORKLOADS: Final = GroupResource("scheduling.k8s.io", "workloads")
_STORAGE: Final = {
    GroupResource("", "persistentvolumes"): "kubernetes.io/pv-protection",
    GroupResource("", "persistentvolumeclaims"): "kubernetes.io/pvc-protection",
}
_FINALIZERS: Final = {
    _POD_GROUPS: "scheduling.k8s.io/podgroup-protection",
    _COMPOSITES: "scheduling.k8s.io/compositepodgroup-protection",
}


class PodGroupProtection(AdmissionPlugin):
    """Puts a finalizer on new pod groups, and from 1.38 on on groups of them."""

    kinds = frozenset({_POD_GROUPS, _COMPOSITES})

    def __init__(self, gates: FeatureGates) -> None:
        composites = gates.has(behaviours.COMPOSITE_GROUPS_PROTECTED)
        self._protected = {_POD_GROUPS, _COMPOSITES} if composites else {_POD_GROUPS}

    def admit(self, request: AdmissionAttributes) -> Any:
        """Return the group, with the finalizer if it is new and of a protected kind."""
        group = request.object
        resource = request.definition.group_resource
        if request.operation != "CREATE" or request.subresource or resource not in self._protected:
            return group
        return _with_finalizer(group, _FINALIZERS[resource])


class StorageObjectInUseProtection(AdmissionPlugin):
    """Puts a finalizer on new persistent volumes and on new claims for them."""

    kinds = frozenset(_STORAGE)

    def admit(self, request: AdmissionAttributes) -> Any:
        """Return the volume or claim, with the finalizer if it is new."""
        if request.operation != "CREATE" or request.subresource:
            return request.object
        return _with_finalizer(request.object, _STORAGE[request.definition.group_resource])


def _with_finalizer(obj: Any, finalizer: str) -> Any:
    finalizers = obj.metadata.finalizers
    if finalizer in finalizers:
        return obj
    return replace(obj, metadata=replace(obj.metadata, finalizers=(*finalizers, finalizer)))


class PodGroupWorkloadExists(AdmissionPlugin):
    """Refuses a new pod group that refers to a workload or to a template of it that does not exist."""

    kinds = frozenset({_POD_GROUPS})

    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    def handles(self, definition: AnyDefinition, subresource: str, operation: str) -> bool:
        """Handle new groups: the reference never changes."""
        return operation == "CREATE" and not subresource

    def validate(self, request: AdmissionAttributes) -> None:
        """Look up the workload and the template.

        Raises:
            StatusError: 403, one of them does not exist.
        """
        reference = request.object.spec.workload_ref
        if reference is None:
            return
        name = go_quote(reference.workload_name)
        workload: Workload | None = self._registry.find(_WORKLOADS, f"{request.namespace}/{reference.workload_name}")
        if workload is None:
            raise forbidden(_POD_GROUPS, request.name, f"PodGroup rejected: Workload {name} not found")
        if reference.template_name not in set(_template_names(workload)):
            template = go_quote(reference.template_name)
            text = f"PodGroup rejected: PodGroupTemplate {template} not found in Workload {name}"
            raise forbidden(_POD_GROUPS, request.name, text)


def _template_names(workload: Workload) -> Iterator[str]:
    yield from (template.name for template in workload.spec.pod_group_templates)
    above = list(workload.spec.composite_pod_group_templates)
    while above:
        composite = above.pop()
        above += composite.composite_pod_group_templates
        yield from (template.name for template in composite.pod_group_templates)
