"""ReplicaSets: a number of equal pods."""

from __future__ import annotations

from typing import Any, Final

from cathedra.api.core import apps_v1
from cathedra.api.field import ErrorList
from cathedra.api.struct import replace
from cathedra.kinds.apps.validation import (
    has_valid_selector,
    validate_counts,
    validate_not_negative,
    validate_replicas,
    validate_workload_selector,
    validate_workload_template,
    with_immutable_selector,
)
from cathedra.kinds.builtin import BuiltinKind
from cathedra.kinds.columns import AGE, NAME, age
from cathedra.kinds.core.pods.defaults import default_pod_template
from cathedra.kinds.core.pods.disabled_fields import enabled_template
from cathedra.kinds.core.pods.templates import (
    CONTAINERS,
    IMAGES,
    SELECTOR,
    container_cells,
    selector_text,
)
from cathedra.kinds.core.pods.warnings import named_workload_warnings
from cathedra.kinds.defaults import absent
from cathedra.kinds.definition import Column, ResourceDefinition
from cathedra.kinds.strategies import ObjectRules

REPLICASET_COLUMNS: Final = (
    NAME,
    Column("Desired", type="integer", description="Pods wanted."),
    Column("Current", type="integer", description="Pods that exist."),
    Column("Ready", type="integer", description="Pods that are ready."),
    AGE,
    CONTAINERS,
    IMAGES,
    SELECTOR,
)


def default_replicaset(replicas: apps_v1.ReplicaSet) -> apps_v1.ReplicaSet:
    """Return the object with its defaults: a replica set of one."""
    spec = replicas.spec
    filled = replace(spec, template=default_pod_template(spec.template), **absent(spec, replicas=1))
    return replace(replicas, spec=filled)


def validate_replicaset(replicas: apps_v1.ReplicaSet) -> ErrorList:
    """Return the errors of a replica set."""
    errors = ErrorList()
    spec = replicas.spec
    validate_not_negative(errors, replicas=spec.replicas, minReadySeconds=spec.min_ready_seconds)
    validate_workload_selector(errors, spec.selector, "empty selector is invalid for deployment")
    if has_valid_selector(errors, spec.selector, "invalid label selector"):
        validate_workload_template(errors, spec.template, spec.selector, "ReplicaSet")
    return errors


def validate_replicaset_status(new: apps_v1.ReplicaSet, old: apps_v1.ReplicaSet) -> ErrorList:
    """Return the errors of a changed status."""
    errors = ErrorList()
    status = new.status
    validate_counts(
        errors,
        replicas=status.replicas,
        fullyLabeledReplicas=status.fully_labeled_replicas,
        readyReplicas=status.ready_replicas,
        availableReplicas=status.available_replicas,
        observedGeneration=status.observed_generation,
    )
    validate_replicas(
        errors,
        status,
        fullyLabeledReplicas=status.fully_labeled_replicas,
        readyReplicas=status.ready_replicas,
        availableReplicas=status.available_replicas,
    )
    return errors


def validate_replicaset_update(new: apps_v1.ReplicaSet, old: apps_v1.ReplicaSet) -> ErrorList:
    """Require an unchanged selector."""
    return with_immutable_selector(validate_replicaset(new), new, old)


def replicaset_cells(replicas: apps_v1.ReplicaSet, now: float) -> list[Any]:
    """Return the cells of a ReplicaSet."""
    return [
        replicas.metadata.name,
        replicas.spec.replicas or 0,
        replicas.status.replicas,
        replicas.status.ready_replicas,
        age(replicas.metadata.creation_timestamp, now),
        *container_cells(replicas.spec.template),
        selector_text(replicas.spec.selector),
    ]


def replica_set_definition() -> ResourceDefinition[apps_v1.ReplicaSet]:
    """Return the definition of replicasets."""
    return BuiltinKind(
        apps_v1.ReplicaSet,
        "replicasets",
        namespaced=True,
        drop_disabled=enabled_template,
        default=default_replicaset,
        rules=ObjectRules(validate_replicaset, validate_replicaset_update, named_workload_warnings),
        status_rules=validate_replicaset_status,
        counts_generation=True,
        scalable=True,
        table=(REPLICASET_COLUMNS, replicaset_cells),
        short_names=("rs",),
        categories=("all",),
        field_selectors={"status.replicas": lambda replicas: str(replicas.status.replicas)},
    ).definition()
