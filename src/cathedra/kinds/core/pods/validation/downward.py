"""Rules of what containers are told about their pod and themselves: fields and resources that exist.

A name that does not exist would only be noticed by the node, when it starts the container.
"""

from __future__ import annotations

from typing import Final

from cathedra.api import formats
from cathedra.api.core import core_v1
from cathedra.api.field import ErrorList, FieldPath
from cathedra.api.quantity import Quantity

__all__ = [
    "ENVIRONMENT_FIELDS",
    "VOLUME_FIELDS",
    "validate_container_resource_reference",
    "validate_field_reference",
    "validate_resource_reference",
]

_KNOWN: Final = frozenset(
    (
        "metadata.annotations",
        "metadata.labels",
        "metadata.name",
        "metadata.namespace",
        "metadata.uid",
        "spec.host",
        "spec.nodeName",
        "spec.restartPolicy",
        "spec.schedulerName",
        "spec.serviceAccountName",
        "status.hostIP",
        "status.hostIPs",
        "status.phase",
        "status.podIP",
        "status.podIPs",
    )
)
"""Fields of a pod that have a name at all; which of them can be had depends on where they go."""
ENVIRONMENT_FIELDS: Final = (
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
)
VOLUME_FIELDS: Final = (
    "metadata.annotations",
    "metadata.labels",
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
)
_RESOURCES: Final = tuple(
    f"{kind}.{name}" for kind in ("limits", "requests") for name in ("cpu", "ephemeral-storage", "memory")
)
_HUGE_PAGES: Final = ("limits.hugepages-", "requests.hugepages-")
_CPU_UNITS: Final = ("1m", "1")
_UNITS: Final = ("1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei")
_SHOWN: Final = {"ephemeral-storage": "local ephemeral storage"}
_HOST: Final = "spec.host"
_VERSIONS: Final = frozenset({"", "v1"})
"""In which fields of pods have names; without defaults none may be said."""


def validate_field_reference(
    errors: ErrorList, path: FieldPath, reference: core_v1.ObjectFieldSelector, allowed: tuple[str, ...]
) -> None:
    """A field of the pod that may go there, or one annotation or label."""
    where, name = path.child("fieldPath"), reference.field_path
    if not name:
        errors.required(where)
        return
    if reference.api_version not in _VERSIONS:
        errors.invalid(where, name, f"error converting fieldPath: unsupported pod version: {reference.api_version}")
        return
    # Not by a pattern: that would look for the end once for each beginning in a long text.
    field, opening, key = name.partition("['")
    if field and opening and key.endswith("']"):
        _subscript(errors, path, name, field, key[:-2])
        return
    if name not in _KNOWN:
        errors.invalid(where, name, f"error converting fieldPath: field label not supported: {name}")
        return
    shown = "spec.nodeName" if name == _HOST else name
    if shown not in allowed:
        errors.string_not_among(where, shown, sorted(allowed))


def _subscript(errors: ErrorList, path: FieldPath, name: str, field: str, key: str) -> None:
    if field == "metadata.annotations":
        key = key.lower()
    elif field != "metadata.labels":
        errors.invalid(
            path.child("fieldPath"), name, f"error converting fieldPath: field label does not support subscript: {name}"
        )
        return
    for problem in formats.label_key(key):
        errors.invalid(path, key, problem)


def validate_resource_reference(errors: ErrorList, path: FieldPath, reference: core_v1.ResourceFieldSelector) -> None:
    """A limit or a request that containers have, in units that there are."""
    _resource(errors, path.child("resource"), reference.resource)
    _divisor(errors, path.child("divisor"), reference.resource, reference.divisor)


def validate_container_resource_reference(
    errors: ErrorList, path: FieldPath, reference: core_v1.ResourceFieldSelector
) -> None:
    """The same outside of a container, which has to be named there."""
    if reference.container_name:
        validate_resource_reference(errors, path, reference)
        return
    errors.required(path.child("containerName"))
    _divisor(errors, path.child("divisor"), reference.resource, reference.divisor)


def _resource(errors: ErrorList, path: FieldPath, name: str) -> None:
    if not name:
        errors.required(path)
    elif name not in _RESOURCES and not name.startswith(_HUGE_PAGES):
        errors.string_not_among(path, name, sorted(_RESOURCES))


def _divisor(errors: ErrorList, path: FieldPath, name: str, divisor: Quantity) -> None:
    if divisor == Quantity("0"):
        return
    _, _, resource = name.partition(".")
    kind = "hugepages" if name.startswith(_HUGE_PAGES) else resource if name in _RESOURCES else ""
    units = _CPU_UNITS if kind == "cpu" else _UNITS
    if kind and divisor.text not in units:
        one = " and ".join(units) if kind == "cpu" else ", ".join(units)
        shown = _SHOWN.get(kind, kind)
        errors.invalid(path, name, f"only divisor's values {one} are supported with the {shown} resource")
