"""Definitions without rules for objects, for tests of the server itself: each kind that the client knows, with status.

How objects are named and deleted, and what is connected to them, is as in the real definitions.
"""

from __future__ import annotations

from typing import Any

from cathedra.api.formats import dns_subdomain
from cathedra.api.scheme import GroupResource
from cathedra.api.struct import replace
from cathedra.client import resources
from cathedra.client.transport import ResourceRef
from cathedra.kinds.definition import ALL_VERBS, RequestContext, ResourceDefinition, Strategy, VersionDefinition
from cathedra.kinds.deletion import DeletionRules
from cathedra.kinds.served import all_definitions
from cathedra.releases import FeatureGates

_SERVED = {real.group_resource: real for real in all_definitions(FeatureGates.for_release())}


class MainDoor(Strategy[Any]):
    """The main resource keeps the status."""

    def prepare_update(self, new: Any, old: Any, context: RequestContext) -> Any:
        return replace(new, status=old.status) if hasattr(new, "status") else new


class StatusDoor(Strategy[Any]):
    """The strategy of the status changes nothing else."""

    def prepare_update(self, new: Any, old: Any, context: RequestContext) -> Any:
        return replace(old, status=new.status, metadata=new.metadata)


def plain_definition(ref: ResourceRef[Any]) -> ResourceDefinition[Any]:
    """A definition of one version."""
    subresources: dict[str, Strategy[Any]] = {}
    if "status" in ref.type.__struct_fields__:
        subresources["status"] = StatusDoor()
    served = _SERVED.get(GroupResource(ref.group, ref.resource))
    if served is not None and "finalize" in served.subresources:
        subresources["finalize"] = served.subresources["finalize"]
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
        verbs=served.verbs if served is not None else ALL_VERBS,
        name_rule=served.name_rule if served is not None else dns_subdomain,
        deletion=served.deletion if served is not None else DeletionRules(),
        scalable=served is not None and served.scalable,
        connected=served.connected if served is not None else (),
    )


def plain_definitions() -> tuple[ResourceDefinition[Any], ...]:
    """One per resource that the client has a constant for."""
    refs = [value for value in vars(resources).values() if isinstance(value, ResourceRef)]
    return tuple(plain_definition(ref) for ref in refs)
