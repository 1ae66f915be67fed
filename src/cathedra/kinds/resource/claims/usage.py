"""Quota usage of claims: objects, and devices by class (docs/spec/api.md §B.4).

Claims that the scheduler creates for a pod's extended resources are not charged: the pod's own requests are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from cathedra.api.core.core_v1 import Pod
from cathedra.api.core.meta_v1 import ObjectMeta, OwnerReference
from cathedra.api.quantity import Quantity
from cathedra.api.resource import DeviceClass, DeviceRequest, ResourceClaim
from cathedra.kinds.core.pods.usage import pod_usage
from cathedra.semantics.owners import controller_of

COUNT_CLAIMS: Final = "count/resourceclaims.resource.k8s.io"
DEVICES_SUFFIX: Final = ".deviceclass.resource.k8s.io/devices"
IMPLICIT_PREFIX: Final = "requests.deviceclass.resource.kubernetes.io/"
SPECIAL_CLAIM: Final = "resource.kubernetes.io/extended-resource-claim"
"""Annotation of claims that the scheduler made for a pod's extended resources."""
_MOST_DEVICES: Final = 32
"""Charge of allocation mode All: the largest number of devices of a claim."""


def devices_by_class(claim: ResourceClaim) -> dict[str, int]:
    """Return the number of devices of each class that a claim may get at most."""
    counted: dict[str, int] = {}
    for request in claim.spec.devices.requests or ():
        for class_, number in _of_request(request).items():
            counted[class_] = counted.get(class_, 0) + number
    return counted


def classes_by_request(claim: ResourceClaim) -> dict[str, str]:
    """Return the class of each request, and of each alternative, which is named ``request/alternative``."""
    classes: dict[str, str] = {}
    for request in claim.spec.devices.requests or ():
        if request.exactly is not None:
            classes[request.name] = request.exactly.device_class_name
        classes |= {f"{request.name}/{one.name}": one.device_class_name for one in request.first_available}
    return classes


def claim_usage(claim: ResourceClaim, classes: Iterable[DeviceClass], *, extended: bool) -> dict[str, Quantity]:
    """Return the charge of a claim. ``extended`` adds the names of extended resources, for classes that exist."""
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
    """Return the extended resource that the class now stands for, or "": of several with one name the newest has it, of
    those the first by name."""
    name = class_.spec.extended_resource_name
    if not name:
        return ""
    # Two classes may have one extended resource name. The scheduler and the quota must choose the same one, or a pod
    # would be charged for devices of another class than it gets.
    rivals = [one for one in classes if one.spec.extended_resource_name == name]
    return name if min(rivals, key=_newest_first).metadata.name == class_.metadata.name else ""


def tracked_claim_resources(names: Iterable[str], classes: Iterable[DeviceClass], *, extended: bool) -> set[str]:
    """Return the resources of a quota that claims can be charged for."""
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
        # Only one of the alternatives is allocated, and the quota is charged before that is known. It charges the most
        # that any of them can take of a class.
        most[choice.device_class_name] = max(most.get(choice.device_class_name, 0), number)
    return most


def _number(mode: str, count: int) -> int:
    return {"ExactCount": count, "All": _MOST_DEVICES}.get(mode, 0)


def _newest_first(class_: DeviceClass) -> tuple[int, str]:
    created = class_.metadata.creation_timestamp
    return (-created.micros if created is not None else 0, class_.metadata.name)


def beyond_pod(usage: Mapping[str, Quantity], pod: Pod | None) -> dict[str, Quantity]:
    """Return the charge of a claim beyond the part that ``pod`` pays. Without a pod that is everything."""
    if pod is None:
        return dict(usage)
    # Never negative: a pod may pay for more than the claim needs, and the rest is no credit for other claims.
    paid, nothing = pod_usage(pod, extended=True), Quantity.of_value(0)
    return {name: max(amount - paid[name], nothing) if name in paid else amount for name, amount in usage.items()}


def paying_pod(
    claim: ResourceClaim, pod_named: Callable[[str], Pod | None], claims: Callable[[], Iterable[ResourceClaim]]
) -> Pod | None:
    """Return the pod that pays for a claim: its owner, if the owner's status names the claim. If the status names none,
    the oldest claim that was created for the pod counts, and of equally old ones the first by name.

    ``pod_named`` finds pods, ``claims`` lists claims of the claim's namespace.
    """
    owner = _owner(claim)
    if owner is None or (owner.kind, owner.api_version) != ("Pod", "v1"):
        return None
    pod = pod_named(owner.name)
    if pod is None or pod.metadata.uid != owner.uid:
        return None
    status = pod.status.extended_resource_claim_status
    if status is not None:
        return pod if status.resource_claim_name == claim.metadata.name else None
    rivals = (other.metadata for other in claims() if (one := _owner(other)) is not None and one.uid == owner.uid)
    return pod if all(_age(claim.metadata) <= _age(rival) for rival in rivals) else None


def _owner(claim: ResourceClaim) -> OwnerReference | None:
    """Return the controller of a special claim; None for other claims."""
    if claim.metadata.annotations.get(SPECIAL_CLAIM) != "true":
        return None
    return controller_of(claim)


def _age(metadata: ObjectMeta) -> tuple[float, str]:
    created = metadata.creation_timestamp
    return (created.micros if created is not None else float("inf"), metadata.name)
