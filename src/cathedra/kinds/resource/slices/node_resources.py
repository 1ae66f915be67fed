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
        errors.invalid(path, key, "must not be empty")
    elif key not in device.capacity:
        errors.not_found(path, key)


def validate_node_resources(errors: ErrorList, path: FieldPath, device: resource.Device) -> None:
    """The form of release 1.37."""
    for name, taken in sorted(device.node_allocatable_resources.items()):
        where = path.key(name)
        if not is_node_resource(name):
            errors.invalid(where, name, "must be a node allocatable resource name")
        if taken.mapping is None and taken.overhead is None:
            errors.required(where, "at least one of `mapping` or `overhead` is required")
        if taken.mapping is not None:
            _mapping(errors, where.child("mapping"), taken.mapping, device)
        if taken.overhead is not None:
            _overhead(errors, where.child("overhead"), taken.overhead)


def _mapping(
    errors: ErrorList, path: FieldPath, mapping: resource.NodeAllocatableMapping, device: resource.Device
) -> None:
    if (mapping.capacity_key is None) == (mapping.device_multiplier is None):
        errors.invalid(path, mapping, "exactly one of `capacityKey` or `deviceMultiplier` is required")
    if mapping.capacity_key is not None:
        _capacity_key(errors, path.child("capacityKey"), mapping.capacity_key, device)
        if mapping.capacity_multiplier is None:
            errors.required(path.child("capacityMultiplier"), "required when `capacityKey` is set")
    elif mapping.capacity_multiplier is not None:
        errors.required(path.child("capacityKey"), "required when `capacityMultiplier` is set")
    _positive(errors, path.child("capacityMultiplier"), mapping.capacity_multiplier)
    _positive(errors, path.child("deviceMultiplier"), mapping.device_multiplier)


def _positive(errors: ErrorList, path: FieldPath, amount: Quantity | None) -> None:
    if amount is not None and amount.sign() <= 0:
        errors.invalid(path, amount, "must be positive")


def _overhead(errors: ErrorList, path: FieldPath, overhead: resource.NodeAllocatableOverhead) -> None:
    if overhead.per_pod is None and overhead.per_container is None:
        errors.invalid(path, overhead, "at least one of `perPod` or `perContainer` is required")
    for name, amount in (("perPod", overhead.per_pod), ("perContainer", overhead.per_container)):
        if amount is not None and amount.sign() < 0:
            errors.invalid(path.child(name), amount, "must not be negative")
