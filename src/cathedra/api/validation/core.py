"""Rules of the small kinds around pods: configuration, leases, priorities."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from cathedra.api.core import coordination_v1, core_v1, scheduling_v1
from cathedra.api.field import ErrorList, FieldPath

__all__ = [
    "validate_config_map",
    "validate_config_map_update",
    "validate_lease",
    "validate_priority_class",
    "validate_priority_class_update",
    "validate_secret",
    "validate_secret_update",
]

MAX_SIZE: Final = 1024 * 1024
MAX_USER_PRIORITY: Final = 1_000_000_000
_KEY: Final = re.compile(r"[-._a-zA-Z0-9]+", re.ASCII)
_KEY_TEXT: Final = (
    "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  "
    "or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')"
)
_FIXED: Final = "field is immutable when `immutable` is set"


def _keys(errors: ErrorList, path: FieldPath, keys: Iterable[str]) -> None:
    for key in sorted(keys):
        where = path.key(key)
        if len(key.encode()) > 253:
            errors.invalid(where, key, "must be no more than 253 characters")
        if not _KEY.fullmatch(key):
            errors.invalid(where, key, _KEY_TEXT)
        elif key == ".":
            errors.invalid(where, key, "must not be '.'")
        elif key == "..":
            errors.invalid(where, key, "must not be '..'")
        elif key.startswith(".."):
            errors.invalid(where, key, "must not start with '..'")


def validate_config_map(config: core_v1.ConfigMap) -> ErrorList:
    """Keys are file names, no key is in both maps, all together fit into a mebibyte."""
    errors = ErrorList()
    for key in sorted(config.data):
        _keys(errors, FieldPath("data"), (key,))
        if key in config.binary_data:
            errors.invalid(FieldPath("data").key(key), key, "duplicate of key present in binaryData")
    _keys(errors, FieldPath("binaryData"), config.binary_data)
    size = sum(len(value.encode()) for value in config.data.values())
    size += sum(len(value) for value in config.binary_data.values())
    if size > MAX_SIZE:
        errors.too_long(FieldPath("[]"), MAX_SIZE)
    return errors


def validate_config_map_update(new: core_v1.ConfigMap, old: core_v1.ConfigMap) -> ErrorList:
    """What was declared immutable stays."""
    errors = ErrorList()
    if old.immutable:
        if not new.immutable:
            errors.forbidden("immutable", _FIXED)
        if new.data != old.data:
            errors.forbidden("data", _FIXED)
        if new.binary_data != old.binary_data:
            errors.forbidden("binaryData", _FIXED)
    errors.extend(validate_config_map(new))
    return errors


def validate_secret(secret: core_v1.Secret) -> ErrorList:
    """Keys are file names, all together fit into a mebibyte."""
    errors = ErrorList()
    _keys(errors, FieldPath("data"), secret.data)
    if sum(len(value) for value in secret.data.values()) > MAX_SIZE:
        errors.too_long("data", MAX_SIZE)
    return errors


def validate_secret_update(new: core_v1.Secret, old: core_v1.Secret) -> ErrorList:
    """The type stays; what was declared immutable stays."""
    errors = ErrorList()
    if new.type != old.type:
        errors.invalid("type", new.type, "field is immutable")
    if old.immutable:
        if not new.immutable:
            errors.forbidden("immutable", _FIXED)
        if new.data != old.data:
            errors.forbidden("data", _FIXED)
    errors.extend(validate_secret(new))
    return errors


def validate_lease(lease: coordination_v1.Lease) -> ErrorList:
    """Durations are positive, transitions are counted from 0."""
    errors = ErrorList()
    spec = lease.spec
    path = FieldPath("spec")
    if spec.lease_duration_seconds is not None and spec.lease_duration_seconds <= 0:
        errors.invalid(path.child("leaseDurationSeconds"), spec.lease_duration_seconds, "must be greater than 0")
    if spec.lease_transitions is not None and spec.lease_transitions < 0:
        text = "must be greater than or equal to 0"
        errors.invalid(path.child("leaseTransitions"), spec.lease_transitions, text)
    return errors


def validate_priority_class(priority: scheduling_v1.PriorityClass) -> ErrorList:
    """Highest values and names that begin with ``system-`` are Kubernetes' own."""
    errors = ErrorList()
    if priority.metadata.name.startswith("system-"):
        if priority.metadata.name not in ("system-cluster-critical", "system-node-critical"):
            text = "priority class names with 'system-' prefix are reserved for system use only. error: "
            text += f"{priority.metadata.name} is not a known system priority class"
            errors.forbidden(FieldPath("metadata").child("name"), text)
    elif priority.value > MAX_USER_PRIORITY:
        text = f"maximum allowed value of a user defined priority is {MAX_USER_PRIORITY}"
        errors.forbidden("value", text)
    policy = priority.preemption_policy
    if policy is not None and policy not in ("Never", "PreemptLowerPriority"):
        errors.not_supported("preemptionPolicy", policy, ("PreemptLowerPriority", "Never"))
    return errors


def validate_priority_class_update(new: scheduling_v1.PriorityClass, old: scheduling_v1.PriorityClass) -> ErrorList:
    """The value stays, for pods have copied it."""
    errors = ErrorList()
    if new.value != old.value:
        errors.forbidden("value", "may not be changed in an update.")
    if new.preemption_policy != old.preemption_policy:
        errors.invalid("preemptionPolicy", new.preemption_policy, "field is immutable")
    return errors
