"""ResourceQuotas, and the charge of an object that is neither pod nor claim: one of its kind, services and volumes a
little more."""

from __future__ import annotations

from typing import Any, Final

from cathedra.api.core import core_v1
from cathedra.api.core.meta_v1 import KubeObject
from cathedra.api.quantity import Quantity
from cathedra.api.scheme import GroupResource
from cathedra.kinds.builtin import BuiltinKind
from cathedra.kinds.columns import AGE, NAME, age
from cathedra.kinds.definition import Column, ResourceDefinition

__all__ = ["count_name", "object_usage", "quota_cells", "quota_definition"]

QUOTA_COLUMNS: Final = (
    NAME,
    Column("Request", description="Requests and counts: used/allowed."),
    Column("Limit", description="Limits: used/allowed."),
    AGE,
)
_OWN_NAMES: Final = frozenset(
    {"configmaps", "persistentvolumeclaims", "replicationcontrollers", "resourcequotas", "secrets", "services"}
)
"""Core resources that may also be limited by their plain name."""


def quota_definition() -> ResourceDefinition[core_v1.ResourceQuota]:
    """The definition of resourcequotas."""
    return BuiltinKind(
        core_v1.ResourceQuota,
        "resourcequotas",
        returns_deleted_object=True,
        namespaced=True,
        table=(QUOTA_COLUMNS, quota_cells),
        short_names=("quota",),
    ).definition()


def quota_cells(quota: core_v1.ResourceQuota, now: float) -> list[Any]:
    """Cells of a ResourceQuota."""
    used = quota.status.used
    entries = {name: f"{name}: {used.get(name, 0)}/{hard}" for name, hard in sorted(quota.status.hard.items())}
    requests = ", ".join(text for name, text in entries.items() if not name.startswith("limits"))
    limits = ", ".join(text for name, text in entries.items() if name.startswith("limits"))
    return [quota.metadata.name, requests, limits, age(quota.metadata.creation_timestamp, now)]


def count_name(resource: GroupResource) -> str:
    """``count/jobs.batch``: the name by which a quota limits the number of any resource's objects."""
    return f"count/{resource.resource}.{resource.group}" if resource.group else f"count/{resource.resource}"


def object_usage(resource: GroupResource, obj: KubeObject) -> dict[str, Quantity]:
    """Return the charge of an object."""
    usage = {count_name(resource): Quantity.of_value(1)}
    if resource.group or resource.resource not in _OWN_NAMES:
        return usage
    usage[resource.resource] = Quantity.of_value(1)
    if resource.resource == "services":
        usage.update(_service(obj))
    elif resource.resource == "persistentvolumeclaims":
        usage.update(_volume_claim(obj))
    return usage


def _service(service: Any) -> dict[str, Quantity]:
    spec = service.spec
    ports = len(spec.ports)
    if spec.type == "NodePort":
        return {"services.nodeports": Quantity.of_value(ports)}
    if spec.type == "LoadBalancer":
        with_ports = ports if spec.allocate_load_balancer_node_ports is not False else 0
        return {"services.loadbalancers": Quantity.of_value(1), "services.nodeports": Quantity.of_value(with_ports)}
    return {}


def _volume_claim(claim: Any) -> dict[str, Quantity]:
    spec = claim.spec
    usage = {}
    storage = spec.resources.requests.get("storage")
    prefix = f"{spec.storage_class_name}.storageclass.storage.k8s.io/" if spec.storage_class_name else ""
    if storage is not None:
        usage["requests.storage"] = storage
    if prefix:
        usage[f"{prefix}persistentvolumeclaims"] = Quantity.of_value(1)
        if storage is not None:
            usage[f"{prefix}requests.storage"] = storage
    return usage
