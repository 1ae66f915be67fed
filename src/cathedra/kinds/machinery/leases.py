"""Leases, for leader election and the heartbeats of nodes."""

from __future__ import annotations

from typing import Any, Final

from cathedra.api.core import coordination_v1
from cathedra.api.field import ErrorList, FieldPath
from cathedra.kinds.builtin import BuiltinKind
from cathedra.kinds.columns import AGE, NAME, age
from cathedra.kinds.definition import Column, ResourceDefinition
from cathedra.kinds.strategies import ObjectRules

LEASE_COLUMNS: Final = (NAME, Column("Holder", description="Who holds the lease."), AGE)


def validate_lease(lease: coordination_v1.Lease) -> ErrorList:
    """Require that durations are positive, transitions are counted from 0."""
    errors = ErrorList()
    spec = lease.spec
    path = FieldPath("spec")
    if spec.lease_duration_seconds is not None and spec.lease_duration_seconds <= 0:
        errors.invalid(path.child("leaseDurationSeconds"), spec.lease_duration_seconds, "must be greater than 0")
    if spec.lease_transitions is not None and spec.lease_transitions < 0:
        text = "must be greater than or equal to 0"
        errors.invalid(path.child("leaseTransitions"), spec.lease_transitions, text)
    return errors


def lease_cells(lease: coordination_v1.Lease, now: float) -> list[Any]:
    """Return the cells of a Lease."""
    return [lease.metadata.name, lease.spec.holder_identity or "", age(lease.metadata.creation_timestamp, now)]


def lease_definition() -> ResourceDefinition[coordination_v1.Lease]:
    """Return the definition of leases."""
    return BuiltinKind(
        coordination_v1.Lease,
        "leases",
        namespaced=True,
        rules=ObjectRules(validate_lease, lambda new, old: validate_lease(new)),
        table=(LEASE_COLUMNS, lease_cells),
        created_by_update=True,
    ).definition()
