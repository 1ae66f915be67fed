"""The charge of a claim against quotas: as one object, and device by device (docs/spec/api.md §B.4)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from cathedra.api.quantity import Quantity
from cathedra.api.resource import DeviceClass, DeviceRequest, ResourceClaim

__all__ = [
    "COUNT_CLAIMS",
    "DEVICES_SUFFIX",
    "IMPLICIT_PREFIX",
    "SPECIAL_CLAIM",
    "claim_usage",
    "devices_by_class",
    "extended_name_of",
    "tracked_claim_resources",
]

COUNT_CLAIMS: Final = "count/resourceclaims.resource.k8s.io"
DEVICES_SUFFIX: Final = ".deviceclass.resource.k8s.io/devices"
IMPLICIT_PREFIX: Final = "requests.deviceclass.resource.kubernetes.io/"
SPECIAL_CLAIM: Final = "resource.kubernetes.io/extended-resource-claim"
"""Annotation of claims that the scheduler made for a pod's extended resources."""
_MOST_DEVICES: Final = 32
"""What allocation mode All is charged: the most that a claim can be given."""
Classes = Callable[[], Iterable[DeviceClass]]


def devices_by_class(claim: ResourceClaim) -> dict[str, int]:
    """How many devices of each class a claim asks for, at most."""
    counted: dict[str, int] = {}
    for request in claim.spec.devices.requests or ():
        for class_, number in _of_request(request).items():
            counted[class_] = counted.get(class_, 0) + number
    return counted


def claim_usage(claim: ResourceClaim, classes: Iterable[DeviceClass], *, extended: bool) -> dict[str, Quantity]:
    """What a claim is charged. ``extended``: also in the names of extended resources, for classes that exist."""
    usage = {COUNT_CLAIMS: 1}
    devices = devices_by_class(claim)
    for class_, number in devices.items():
        usage[f"{class_}{DEVICES_SUFFIX}"] = number
    if extended:
        known = {class_.metadata.name: class_ for class_ in classes}
        for name, number in devices.items():
            if name not in known:
                continue
            usage[f"{IMPLICIT_PREFIX}{name}"] = number
            explicit = extended_name_of(known[name], known.values())
            if explicit:
                usage[f"requests.{explicit}"] = usage.get(f"requests.{explicit}", 0) + number
    return {name: Quantity.of_value(number) for name, number in usage.items()}


def extended_name_of(class_: DeviceClass, classes: Iterable[DeviceClass]) -> str:
    """The extended resource that the class now stands for, or "": of several with one name the newest has it, of those
    the first by name."""
    name = class_.spec.extended_resource_name
    if not name:
        return ""
    rivals = [one for one in classes if one.spec.extended_resource_name == name]
    return name if min(rivals, key=_newest_first).metadata.name == class_.metadata.name else ""


def tracked_claim_resources(names: Iterable[str], classes: Iterable[DeviceClass], *, extended: bool) -> set[str]:
    """Which of a quota's resources claims can be charged for."""
    explicit = {f"requests.{one.spec.extended_resource_name}" for one in classes} if extended else set()
    return {
        name
        for name in names
        if name == COUNT_CLAIMS
        or name.endswith(DEVICES_SUFFIX)
        or (extended and (name.startswith(IMPLICIT_PREFIX) or name in explicit))
    }


def _of_request(request: DeviceRequest) -> Mapping[str, int]:
    if request.exactly is not None:
        exact = request.exactly
        return {exact.device_class_name: _number(exact.allocation_mode, exact.count)}
    most: dict[str, int] = {}
    for choice in request.first_available or ():
        number = _number(choice.allocation_mode, choice.count)
        most[choice.device_class_name] = max(most.get(choice.device_class_name, 0), number)
    return most


def _number(mode: str, count: int) -> int:
    return {"ExactCount": count, "All": _MOST_DEVICES}.get(mode, 0)


def _newest_first(class_: DeviceClass) -> tuple[int, str]:
    created = class_.metadata.creation_timestamp
    return (-created.micros if created is not None else 0, class_.metadata.name)
