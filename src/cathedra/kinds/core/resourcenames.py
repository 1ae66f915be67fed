"""Names of resources (``cpu``, ``example.com/gpu``) and their amounts, as pods, nodes, quotas and limits have them."""

from __future__ import annotations

from typing import Final

from cathedra.api import formats
from cathedra.api.field import ErrorList, FieldPath
from cathedra.api.quantity import Quantity

CONTAINER_RESOURCES: Final = frozenset(("cpu", "memory", "ephemeral-storage"))
HUGE_PAGES: Final = "hugepages-"
_COUNTED: Final = frozenset(
    {
        "pods",
        "services",
        "replicationcontrollers",
        "resourcequotas",
        "secrets",
        "persistentvolumeclaims",
        "configmaps",
        "services.nodeports",
        "services.loadbalancers",
    }
)
_QUOTA: Final = (
    CONTAINER_RESOURCES
    | _COUNTED
    | {f"{kind}.{name}" for kind in ("requests", "limits") for name in CONTAINER_RESOURCES}
    | {"requests.storage"}
)
_STANDARD: Final = _QUOTA | {"storage"}
_MAX_INT64: Final = 2**63 - 1


def is_native(name: str) -> bool:
    """Return True if a resource is Kubernetes' own: without a domain, or in one of Kubernetes'."""
    return "/" not in name or "kubernetes.io/" in name


def is_overcommittable(name: str) -> bool:
    """Return True if limits may exceed requests."""
    return is_native(name) and not name.startswith(HUGE_PAGES)


def is_standard_quota_resource(name: str) -> bool:
    """Return True if a quota may limit the resource by its plain name."""
    return name in _QUOTA or _is_huge_page(name)


def _is_huge_page(name: str) -> bool:
    return name.removeprefix("requests.").startswith(HUGE_PAGES)


def resource_name_problems(name: str) -> list[str]:
    """Return the errors of the name of any resource."""
    found = formats.qualified_name(name)
    if not found and "/" not in name and name not in _STANDARD and not _is_huge_page(name):
        found.append("must be a standard resource type or fully qualified")
    return found


def container_resource_problems(name: str) -> list[str]:
    """Return the errors of the name of a resource of containers."""
    found = resource_name_problems(name)
    if "/" not in name:
        if name not in CONTAINER_RESOURCES and not name.startswith(HUGE_PAGES):
            found.append("must be a standard resource for containers")
    elif not is_native(name) and not formats.extended_resource_name(name):
        found.append("doesn't follow extended resource name standard")
    return found


def quota_resource_problems(name: str) -> list[str]:
    """Return the errors of the name of a resource that a quota limits."""
    found = resource_name_problems(name)
    if "/" not in name and not is_standard_quota_resource(name):
        found.append("must be a standard resource for quota")
    return found


def check_amount(errors: ErrorList, path: FieldPath, name: str, amount: Quantity) -> None:
    """Report an amount below zero, or a fraction of something that is counted."""
    if amount.sign() < 0:
        errors.invalid(path, str(amount), "must be greater than or equal to 0")
    # Go's thousandths end at the largest integer of 64 bits, which is no whole number of ones.
    counted = name in _COUNTED or formats.extended_resource_name(name)
    if counted and min(amount.milli_value(), _MAX_INT64) % 1000:
        errors.invalid(path, amount, "must be an integer")
