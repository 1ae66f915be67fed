"""Pod groups that are protected from vanishing under their pods (plugin PodGroupProtection;
docs/spec/controllers.md §11).

The controller of the same name takes the finalizer away once no pod of a deleted group is left.
"""

from __future__ import annotations

from typing import Any, Final

from cathedra.api.scheme import GroupResource
from cathedra.api.struct import replace
from cathedra.apiserver.admission.attributes import AdmissionAttributes
from cathedra.apiserver.admission.plugin import AdmissionPlugin

__all__ = ["PodGroupProtection"]

_POD_GROUPS: Final = GroupResource("scheduling.k8s.io", "podgroups")
_FINALIZER: Final = "scheduling.k8s.io/podgroup-protection"


class PodGroupProtection(AdmissionPlugin):
    """Puts a finalizer on new pod groups."""

    kinds = frozenset({_POD_GROUPS})

    async def admit(self, request: AdmissionAttributes) -> Any:
        """The group with the finalizer."""
        group = request.object
        if request.operation != "CREATE" or request.subresource or request.definition.group_resource != _POD_GROUPS:
            return group
        finalizers = group.metadata.finalizers
        if _FINALIZER in finalizers:
            return group
        return replace(group, metadata=replace(group.metadata, finalizers=(*finalizers, _FINALIZER)))
