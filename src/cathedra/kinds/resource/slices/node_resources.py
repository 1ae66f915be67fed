"""Rules of what devices take from their node's own resources (docs/spec/api.md §3.6)."""

from __future__ import annotations

from cathedra.api import resource
from cathedra.api.field import ErrorList, FieldPath
from cathedra.api.quantity import Quantity

__all__ = ["is_node_resource", "validate_mappings", "validate_node_resources"]


def is_node_resource(name: str) -> bool:
    """Whether a name is one of a node's own resources: without a domain, or in Kubernetes' own."""
    return "/" not in name or "kubernetes.io/" in name


def validate_mappings(errors: ErrorList, path: FieldPath, device: resource.Device) -> None:
    """The form of release 1.36."""
    for name, mapping in sorted(device.node_allocatable_resource_mappings.items()):
        where = path.key(name)
        if not is_node_resource(name):
            errors.invalid(where, name, "must be a node allocatable resource name")
        if mapping.capacity_key is not None:
            _capacity_key(errors, where.child("capacityKey"), mapping.capacity_key, device)
        multiplier = mapping.allocation_multiplier
        if multiplier is not None and multiplier.sign() <= 0:
            errors.invalid(where.child("allocationMultiplier"), multiplier, "must be positive")


def _capacity_key(errors: ErrorList, path: FieldPath, key: str, device: resource.Device) -> None:
    if not key:
        errors.invalid(path, key, "capacityKey must not be an empty string")
    elif key not in device.capacity:
        errors.not_found(path, key)


def validate_node_resources(errors: ErrorList, path: FieldPath, device: resource.Device) -> None:
    """The form of release 1.37."""
    for name, taken in sorted(device.node_allocatable_resources.items()):
        where = path.key(name)
        if not is_node_resource(name):
            errors.invalid(where, name, "must be a node allocatable resource name")
        if taken.mapping is None and taken.overhead is None:
            errors.required(where, "at least one of mapping or overhead must be set")
        if taken.mapping is not None:
            _mapping(errors, where.child("mapping"), taken.mapping, device)
        if taken.overhead is not None:
            _overhead(errors, where.child("overhead"), taken.overhead)


def _mapping(
    errors: ErrorList, path: FieldPath, mapping: resource.NodeAllocatableMapping, device: resource.Device
) -> None:
    """Tags say that one of the multipliers is given."""
    if mapping.capacity_key is not None:
        _capacity_key(errors, path.child("capacityKey"), mapping.capacity_key, device)
        if mapping.capacity_multiplier is None:
            text = "capacityMultiplier is required when capacityKey is set"
            errors.required(path.child("capacityMultiplier"), text)
        else:
            _positive(errors, path.child("capacityMultiplier"), mapping.capacity_multiplier)
    _positive(errors, path.child("deviceMultiplier"), mapping.device_multiplier)
    if mapping.capacity_multiplier is not None and mapping.capacity_key is None:
        errors.required(path.child("capacityKey"), "capacityKey is required when capacityMultiplier is set")


def _positive(errors: ErrorList, path: FieldPath, amount: Quantity | None) -> None:
    if amount is not None and amount.sign() <= 0:
        errors.invalid(path, amount, "must be positive")


def _overhead(errors: ErrorList, path: FieldPath, overhead: resource.NodeAllocatableOverhead) -> None:
    if overhead.per_pod is None and overhead.per_container is None:
        errors.invalid(path, "", "at least one of perPod or perContainer must be set")
    for name, amount in (("perPod", overhead.per_pod), ("perContainer", overhead.per_container)):
        if amount is not None and amount.sign() < 0:
            errors.invalid(path.child(name), amount, "must be non-negative")
