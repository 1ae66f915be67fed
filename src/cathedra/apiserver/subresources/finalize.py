"""Sub-resource finalize: a namespace's finalizers (spec: apimachinery.md, section 12)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace as with_fields
from typing import Any, Final

from cathedra.api.core.core_v1 import Namespace
from cathedra.api.scheme import GroupResource
from cathedra.api.struct import replace
from cathedra.kinds.definition import RequestContext, ResourceDefinition, Strategy

__all__ = ["LIMITED_VERBS", "FinalizeStrategy", "with_finalize"]


class FinalizeStrategy(Strategy[Namespace]):
    """Changes ``spec.finalizers`` and nothing else; without any left a namespace that is being deleted goes."""

    def prepare_update(self, new: Namespace, old: Namespace, context: RequestContext) -> Namespace:
        """The stored namespace with the new finalizers."""
        return replace(old, spec=replace(old.spec, finalizers=new.spec.finalizers))


_STRATEGIES: Final[Mapping[GroupResource, Mapping[str, Strategy[Any]]]] = {
    GroupResource("", "namespaces"): {"finalize": FinalizeStrategy()},
}
LIMITED_VERBS: Final[Mapping[str, tuple[str, ...]]] = {"finalize": ("update",)}
"""The verbs of sub-resources that know fewer than get, update and patch."""


def with_finalize(definition: ResourceDefinition[Any]) -> ResourceDefinition[Any]:
    """The definition with the sub-resources of the server besides its kind's."""
    strategies = _STRATEGIES.get(definition.group_resource)
    if strategies is None:
        return definition
    return with_fields(definition, subresources={**definition.subresources, **strategies})
