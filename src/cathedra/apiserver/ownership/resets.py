"""The fields that a door cannot change, and so nobody can own through it (spec: apimachinery.md, section 6.5)."""

from __future__ import annotations

from functools import cache
from typing import Final

from cathedra.api.scheme import GroupResource
from cathedra.apiserver.ownership.fieldset import FieldSet

__all__ = ["reset_fields"]

_STATUS_DOORS: Final[dict[GroupResource, tuple[str, ...]]] = {
    GroupResource("resource.k8s.io", "resourceclaims"): ("spec", "metadata"),
    GroupResource("resource.k8s.io", "devicetaintrules"): ("spec", "metadata"),
    GroupResource("resource.k8s.io", "resourcepoolstatusrequests"): ("spec", "metadata"),
    GroupResource("scheduling.k8s.io", "podgroups"): ("spec", "metadata"),
    GroupResource("", "pods"): ("spec", "metadata.deletionTimestamp", "metadata.ownerReferences"),
    GroupResource("apps", "deployments"): ("spec", "metadata.labels"),
}


@cache
def reset_fields(resource: GroupResource, subresource: str, *, has_status: bool) -> FieldSet:
    """What is reset by writes through a door: the status by the main one, everything else by the status."""
    fields = FieldSet()
    if not subresource:
        paths: tuple[str, ...] = ("status",) if has_status else ()
    elif subresource == "status":
        paths = _STATUS_DOORS.get(resource, ("spec",))
    else:
        paths = ()
    for path in paths:
        fields.insert(f"f:{name}" for name in path.split("."))
    return fields
