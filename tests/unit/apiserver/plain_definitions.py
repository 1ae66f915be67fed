"""Definitions without rules, for tests of the server itself: every kind that the client knows, with a status door."""

from __future__ import annotations

from typing import Any

from cathedra.api.struct import replace
from cathedra.client import resources
from cathedra.client.transport import ResourceRef
from cathedra.kinds.definition import RequestContext, ResourceDefinition, Strategy, VersionDefinition


class MainDoor(Strategy[Any]):
    """The main resource keeps the status."""

    def prepare_update(self, new: Any, old: Any, context: RequestContext) -> Any:
        return replace(new, status=old.status) if hasattr(new, "status") else new


class StatusDoor(Strategy[Any]):
    """The status door changes nothing else."""

    def prepare_update(self, new: Any, old: Any, context: RequestContext) -> Any:
        return replace(old, status=new.status, metadata=new.metadata)


def plain_definition(ref: ResourceRef[Any]) -> ResourceDefinition[Any]:
    """A definition of one version."""
    subresources: dict[str, Strategy[Any]] = {}
    if "status" in ref.type.__struct_fields__:
        subresources["status"] = StatusDoor()
    selectors = {"spec.nodeName": lambda pod: pod.spec.node_name} if ref.resource == "pods" else {}
    return ResourceDefinition(
        group=ref.group,
        kind=ref.kind,
        plural=ref.resource,
        singular=ref.kind.lower(),
        namespaced=ref.namespaced,
        type=ref.type,
        versions=(VersionDefinition(ref.version, ref.type),),
        strategy=MainDoor(),
        subresources=subresources,
        field_selectors=selectors,
    )


def plain_definitions() -> tuple[ResourceDefinition[Any], ...]:
    """One per resource that the client has a constant for."""
    refs = [value for value in vars(resources).values() if isinstance(value, ResourceRef)]
    return tuple(plain_definition(ref) for ref in refs)
