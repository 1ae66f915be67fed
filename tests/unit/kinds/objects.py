"""Builders for the tests of the API layer: plain values in Kubernetes' own spelling become objects."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

from cathedra.api import resource
from cathedra.api.core import core_v1
from cathedra.api.field import ErrorList, FieldError
from cathedra.api.struct import from_dict
from cathedra.kinds.definition import RequestContext, ResourceDefinition, Strategy
from cathedra.kinds.served import all_definitions
from cathedra.releases import FeatureGates

NOW = 1_700_000_000.0
NEW = (
    "CompositePodGroup",
    "DRADerivedAttributes",
    "DRADeviceCompatibilityGroups",
    "DRAListTypeAttributes",
    "DRANodeAllocatableResources",
    "DRAOptionalNodeOperations",
    "DRAPartitionableDevicesType",
    "DRAResourcePoolStatus",
    "DRAWorkloadResourceClaims",
    "GenericWorkload",
)


def gates(release: str = "1.37", *, everything: bool = False, **overrides: bool) -> FeatureGates:
    """The release's gates; ``everything`` opens all that are closed by default in 1.37."""
    return FeatureGates.for_release(release, (dict.fromkeys(NEW, True) if everything else {}) | overrides)


def context(
    release: str = "1.37", *, everything: bool = False, labels: Mapping[str, str] = {}, **overrides: bool
) -> RequestContext:
    """A request at a fixed time, in a namespace with ``labels``."""
    opened = gates(release, everything=everything, **overrides)
    return RequestContext(gates=opened, now=NOW, namespace_labels=lambda _: labels)


def exactly(name: str = "r", **more: Any) -> dict[str, Any]:
    """A request for devices of one class."""
    return {"name": name, "exactly": {"deviceClassName": "gpu.example.com", **more}}


def claim(
    *requests: Mapping[str, Any], status: Mapping[str, Any] | None = None, **devices: Any
) -> resource.ResourceClaim:
    """A claim named ``c``; one request if none is given."""
    spec = {"devices": {"requests": list(requests or (exactly(),)), **devices}}
    metadata = {"name": "c", "namespace": "default"}
    return from_dict(resource.ResourceClaim, {"metadata": metadata, "spec": spec, "status": status or {}})


def device(name: str = "d", **more: Any) -> dict[str, Any]:
    """A device of a slice."""
    return {"name": name, **more}


def resource_slice(*devices: Mapping[str, Any], **spec: Any) -> resource.ResourceSlice:
    """A slice of node ``n1``."""
    pool = {"name": "p", "generation": 1, "resourceSliceCount": 1}
    whole: dict[str, Any] = {"driver": "gpu.example.com", "pool": pool, "nodeName": "n1", **spec}
    whole = {name: value for name, value in whole.items() if value is not None}
    if devices:
        whole["devices"] = list(devices)
    return from_dict(resource.ResourceSlice, {"metadata": {"name": "s"}, "spec": whole})


def pod(*containers: Mapping[str, Any], status: Mapping[str, Any] | None = None, **spec: Any) -> core_v1.Pod:
    """A pod named ``p`` with a container ``c``, if none is given; not yet defaulted."""
    listed = [{"name": "c", "image": "i", **container} for container in containers or ({},)]
    metadata = {"name": "p", "namespace": "default", **spec.pop("metadata", {})}
    values = {"metadata": metadata, "spec": {"containers": listed, **spec}, "status": status or {}}
    return from_dict(core_v1.Pod, values)


@cache
def _definitions(release: str, *, everything: bool) -> tuple[ResourceDefinition[Any], ...]:
    return all_definitions(gates(release, everything=everything and release == "1.37"))


def definition_of(plural: str, release: str = "1.37", *, everything: bool = True) -> ResourceDefinition[Any]:
    """The definition of a resource."""
    found = _definitions(release, everything=everything)
    return next(definition for definition in found if definition.plural == plural)


def created(strategy: Strategy[Any], obj: Any, request: RequestContext) -> tuple[Any, ErrorList]:
    """The object as it would be stored, and what is wrong with it."""
    made = strategy.prepare_create(strategy.default(obj, request), request)
    return made, ErrorList([*strategy.validate_access(made, request), *strategy.validate_create(made, request)])


def updated(strategy: Strategy[Any], new: Any, old: Any, request: RequestContext) -> tuple[Any, ErrorList]:
    """The changed object as it would be stored, and what is wrong with the change."""
    made = strategy.prepare_update(strategy.default(new, request), old, request)
    return made, ErrorList(strategy.validate_update(made, old, request))


def texts(errors: Iterable[FieldError]) -> list[str]:
    """The errors as clients read them."""
    return [str(error) for error in errors]


def defaulted(plural: str, obj: Any) -> Any:
    """The object with everything filled in."""
    return definition_of(plural).strategy.default(obj, context())


def row(plural: str, obj: Any) -> dict[str, Any]:
    """The object's row in the table, by names of columns."""
    definition = definition_of(plural)
    assert definition.cells is not None
    return dict(zip((column.name for column in definition.columns), definition.cells(obj, NOW), strict=True))


def problems_of(plural: str, kind: Any, values: dict[str, Any]) -> list[str]:
    """Return the errors of a new object."""
    return texts(created(definition_of(plural).strategy, from_dict(kind, values), context(everything=True))[1])


def problems_of_change(plural: str, kind: Any, old: dict[str, Any], new: dict[str, Any]) -> list[str]:
    """Return the errors of a change of a valid object."""
    strategy = definition_of(plural).strategy
    stored, errors = created(strategy, from_dict(kind, old), context(everything=True))
    assert errors == []
    return texts(updated(strategy, from_dict(kind, new), stored, context(everything=True))[1])
