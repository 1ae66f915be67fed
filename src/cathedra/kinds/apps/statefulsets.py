"""StatefulSets: pods with names, started and replaced in order."""

from __future__ import annotations

from typing import Any, Final

from cathedra.api.core import apps_v1
from cathedra.api.field import ErrorList, FieldPath
from cathedra.api.struct import replace
from cathedra.kinds.apps.validation import validate_not_negative, validate_workload_selector, validate_workload_template
from cathedra.kinds.builtin import builtin
from cathedra.kinds.columns import AGE, NAME, age
from cathedra.kinds.core.pods.defaults import default_pod_template
from cathedra.kinds.core.pods.templates import CONTAINERS, IMAGES, container_cells, with_template_labels
from cathedra.kinds.defaults import absent
from cathedra.kinds.definition import Column, ResourceDefinition
from cathedra.kinds.strategies import ObjectRules

__all__ = [
    "default_statefulset",
    "stateful_set_definition",
    "statefulset_cells",
    "validate_statefulset",
    "validate_statefulset_update",
]

_SPEC: Final = FieldPath("spec")
STATEFULSET_COLUMNS: Final = (
    NAME,
    Column("Ready", description="Ready pods, of those wanted."),
    AGE,
    CONTAINERS,
    IMAGES,
)


def default_statefulset(stateful: apps_v1.StatefulSet) -> apps_v1.StatefulSet:
    """A stateful set of one that starts and rolls in order."""
    spec = stateful.spec
    strategy = spec.update_strategy
    if strategy.type in ("", "RollingUpdate"):
        rolling = strategy.rolling_update or apps_v1.RollingUpdateStatefulSetStrategy()
        rolling = replace(rolling, **absent(rolling, partition=0))
        strategy = replace(strategy, type="RollingUpdate", rolling_update=rolling)
    retention = spec.persistent_volume_claim_retention_policy
    retention = retention or apps_v1.StatefulSetPersistentVolumeClaimRetentionPolicy()
    retention = replace(retention, **absent(retention, when_deleted="Retain", when_scaled="Retain"))
    changes = absent(spec, replicas=1, pod_management_policy="OrderedReady", revision_history_limit=10)
    filled = replace(
        spec,
        template=default_pod_template(spec.template),
        update_strategy=strategy,
        persistent_volume_claim_retention_policy=retention,
        **changes,
    )
    return with_template_labels(replace(stateful, spec=filled), spec.template)


def validate_statefulset(stateful: apps_v1.StatefulSet) -> ErrorList:
    """What is wrong with a stateful set."""
    errors = ErrorList()
    spec = stateful.spec
    policy = _SPEC.child("podManagementPolicy")
    if not spec.pod_management_policy:
        errors.required(policy)
    elif spec.pod_management_policy not in ("OrderedReady", "Parallel"):
        errors.invalid(policy, spec.pod_management_policy, "must be 'OrderedReady' or 'Parallel'")
    strategy = _SPEC.child("updateStrategy")
    if not spec.update_strategy.type:
        errors.required(strategy)
    elif spec.update_strategy.type not in ("RollingUpdate", "OnDelete"):
        errors.invalid(strategy, spec.update_strategy, "must be 'RollingUpdate' or 'OnDelete'")
    elif spec.update_strategy.type == "OnDelete" and spec.update_strategy.rolling_update is not None:
        errors.invalid(
            strategy.child("rollingUpdate"),
            spec.update_strategy.rolling_update,
            "only allowed for updateStrategy 'RollingUpdate'",
        )
    validate_not_negative(errors, replicas=spec.replicas, minReadySeconds=spec.min_ready_seconds)
    validate_workload_selector(errors, spec.selector, "empty selector is invalid for statefulset")
    validate_workload_template(errors, spec.template, spec.selector, "StatefulSet")
    return errors


def validate_statefulset_update(new: apps_v1.StatefulSet, old: apps_v1.StatefulSet) -> ErrorList:
    """Most of the spec stays."""
    errors = validate_statefulset(new)
    kept = replace(
        new.spec,
        **{
            name: getattr(old.spec, name)
            for name in (
                "replicas",
                "ordinals",
                "template",
                "update_strategy",
                "revision_history_limit",
                "persistent_volume_claim_retention_policy",
                "min_ready_seconds",
            )
        },
    )
    if kept != old.spec:
        errors.forbidden(
            _SPEC,
            "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', "
            "'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden",
        )
    return errors


def statefulset_cells(stateful: apps_v1.StatefulSet, now: float) -> list[Any]:
    """Cells of a StatefulSet."""
    return [
        stateful.metadata.name,
        f"{stateful.status.ready_replicas}/{stateful.spec.replicas or 0}",
        age(stateful.metadata.creation_timestamp, now),
        *container_cells(stateful.spec.template),
    ]


def stateful_set_definition() -> ResourceDefinition[apps_v1.StatefulSet]:
    """The definition of statefulsets."""
    return builtin(
        apps_v1.StatefulSet,
        "statefulsets",
        namespaced=True,
        default=default_statefulset,
        rules=ObjectRules(validate_statefulset, validate_statefulset_update),
        counts_generation=True,
        scalable=True,
        table=(STATEFULSET_COLUMNS, statefulset_cells),
        short_names=("sts",),
        categories=("all",),
    )
