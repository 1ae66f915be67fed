"""Doors to objects that are the server's own: a namespace's finalizers (spec: apimachinery.md, section 12)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace as with_fields
from typing import Any, Final

from cathedra.api.core.core_v1 import Namespace
from cathedra.api.definition import RequestContext, ResourceDefinition, Strategy
from cathedra.api.scheme import GroupResource
from cathedra.api.struct import replace

__all__ = ["DOOR_VERBS", "FinalizeDoor", "with_doors"]


class FinalizeDoor(Strategy[Namespace]):
    """Changes ``spec.finalizers`` and nothing else; without any left a namespace that is being deleted goes."""

    def prepare_update(self, new: Namespace, old: Namespace, context: RequestContext) -> Namespace:
        """The stored namespace with the new finalizers."""
        return replace(old, spec=replace(old.spec, finalizers=new.spec.finalizers))


_DOORS: Final[Mapping[GroupResource, Mapping[str, Strategy[Any]]]] = {
    GroupResource("", "namespaces"): {"finalize": FinalizeDoor()},
}
DOOR_VERBS: Final[Mapping[str, tuple[str, ...]]] = {"finalize": ("update",)}
"""The verbs of sub-resources that know fewer than get, update and patch."""


def with_doors(definition: ResourceDefinition[Any]) -> ResourceDefinition[Any]:
    """The definition with the server's own doors besides its kind's."""
    doors = _DOORS.get(definition.group_resource)
    if doors is None:
        return definition
    return with_fields(definition, subresources={**definition.subresources, **doors})
