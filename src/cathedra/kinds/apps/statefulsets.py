"""StatefulSets: pods with names, started and replaced in order."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from cathedra.api.core import apps_v1
from cathedra.api.field import Constant, ErrorList, FieldPath
from cathedra.api.formats import check, dns_label
from cathedra.api.struct import replace
from cathedra.kinds.apps.validation import (
    NEGATIVE,
    has_valid_selector,
    is_above_hundred_percent,
    is_zero,
    validate_collisions,
    validate_counts,
    validate_int_or_percent,
    validate_not_negative,
    validate_workload_selector,
    validate_workload_template,
)
from cathedra.kinds.builtin import BuiltinKind
from cathedra.kinds.columns import AGE, NAME, age
from cathedra.kinds.core.pods.defaults import default_pod_template
from cathedra.kinds.core.pods.disabled_fields import enabled_template
from cathedra.kinds.core.pods.templates import CONTAINERS, IMAGES, container_cells
from cathedra.kinds.core.pods.warnings import workload_warnings
from cathedra.kinds.defaults import absent
from cathedra.kinds.definition import Column, RequestContext, ResourceDefinition
from cathedra.kinds.strategies import GenerationStrategy, ObjectRules

_SPEC: Final = FieldPath("spec")
_STATUS: Final = FieldPath("status")
_RETENTIONS: Final = ("Retain", "Delete")
STATEFULSET_COLUMNS: Final = (
    NAME,
    Column("Ready", description="Ready pods, of those wanted."),
    AGE,
    CONTAINERS,
    IMAGES,
)


def default_statefulset(stateful: apps_v1.StatefulSet) -> apps_v1.StatefulSet:
    """Return the object with its defaults: a stateful set of one that starts and rolls in order."""
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
    return replace(stateful, spec=filled)


def validate_statefulset(stateful: apps_v1.StatefulSet) -> ErrorList:
    """Return the errors of a stateful set."""
    errors = ErrorList()
    spec = stateful.spec
    policy = _SPEC.child("podManagementPolicy")
    if not spec.pod_management_policy:
        errors.required(policy)
    elif spec.pod_management_policy not in ("OrderedReady", "Parallel"):
        errors.invalid(policy, Constant(spec.pod_management_policy), "must be 'OrderedReady' or 'Parallel'")
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
    elif spec.update_strategy.rolling_update is not None:
        _validate_rolling_update(errors, strategy.child("rollingUpdate"), spec.update_strategy.rolling_update)
    _validate_retention(errors, spec.persistent_volume_claim_retention_policy)
    if spec.ordinals is not None and spec.ordinals.start < 0:
        errors.invalid(_SPEC.child("ordinals", "start"), spec.ordinals.start, NEGATIVE)
    validate_not_negative(errors, replicas=spec.replicas, minReadySeconds=spec.min_ready_seconds)
    if spec.service_name:
        check(errors, _SPEC.child("serviceName"), spec.service_name, dns_label)
    validate_workload_selector(errors, spec.selector, "empty selector is invalid for statefulset")
    # Labels cannot be matched against a selector that does not parse. The selector's error is reported once, above.
    if has_valid_selector(errors, spec.selector, ""):
        validate_workload_template(errors, spec.template, spec.selector, "StatefulSet")
    return errors


def validate_statefulset_status(new: apps_v1.StatefulSet, old: apps_v1.StatefulSet) -> ErrorList:
    """Return the errors of a changed status."""
    errors = ErrorList()
    status = new.status
    validate_counts(
        errors,
        replicas=status.replicas,
        readyReplicas=status.ready_replicas,
        currentReplicas=status.current_replicas,
        updatedReplicas=status.updated_replicas,
        availableReplicas=status.available_replicas,
        observedGeneration=status.observed_generation,
        collisionCount=status.collision_count,
    )
    for name, count in (
        ("readyReplicas", status.ready_replicas),
        ("currentReplicas", status.current_replicas),
        ("updatedReplicas", status.updated_replicas),
        ("availableReplicas", status.available_replicas),
    ):
        if count > status.replicas:
            errors.invalid(_STATUS.child(name), count, "cannot be greater than status.replicas")
    if status.available_replicas > status.ready_replicas:
        text = "cannot be greater than status.readyReplicas"
        errors.invalid(_STATUS.child("availableReplicas"), status.available_replicas, text)
    validate_collisions(errors, status.collision_count, old.status.collision_count)
    return errors


def _validate_rolling_update(
    errors: ErrorList, path: FieldPath, rolling: apps_v1.RollingUpdateStatefulSetStrategy
) -> None:
    if rolling.partition is not None and rolling.partition < 0:
        errors.invalid(path.child("partition"), rolling.partition, NEGATIVE)
    where, most = path.child("maxUnavailable"), rolling.max_unavailable
    validate_int_or_percent(errors, where, most)
    if most is not None and is_zero(most):
        errors.invalid(where, most, "cannot be 0")
    if isinstance(most, str) and is_above_hundred_percent(most):
        errors.invalid(where, most, "must not be greater than 100%")


def _validate_retention(
    errors: ErrorList, policy: apps_v1.StatefulSetPersistentVolumeClaimRetentionPolicy | None
) -> None:
    if policy is None:
        return
    path = _SPEC.child("persistentVolumeClaimRetentionPolicy")
    for name, value in (("whenDeleted", policy.when_deleted), ("whenScaled", policy.when_scaled)):
        if value not in _RETENTIONS:
            errors.not_among(path.child(name), value, _RETENTIONS)


class StatefulSetStrategy(GenerationStrategy[apps_v1.StatefulSet]):
    """Stateful sets may lose several pods at once in an update, where that is switched on."""

    def default(self, obj: apps_v1.StatefulSet, context: RequestContext) -> apps_v1.StatefulSet:
        """Set defaults; also that of one pod at a time."""
        filled = super().default(obj, context)
        rolling = filled.spec.update_strategy.rolling_update
        # The default is set only while the gate is open. Otherwise every stored object would count as a user of the
        # field, and the gate could never be closed again.
        if not context.gates["MaxUnavailableStatefulSet"] or rolling is None or rolling.max_unavailable is not None:
            return filled
        return _with_max_unavailable(filled, 1)

    def prepare_create(self, obj: apps_v1.StatefulSet, context: RequestContext) -> apps_v1.StatefulSet:
        """Also drop disabled fields."""
        obj = super().prepare_create(obj, context)
        return obj if context.gates["MaxUnavailableStatefulSet"] else _with_max_unavailable(obj, None)

    def prepare_update(
        self, new: apps_v1.StatefulSet, old: apps_v1.StatefulSet, context: RequestContext
    ) -> apps_v1.StatefulSet:
        """Also drop disabled fields that the stored object does not have."""
        # A value that is stored survives a closed gate. Dropping it on an unrelated update would slow a running roll-
        # out down.
        kept = context.gates["MaxUnavailableStatefulSet"] or _max_unavailable(old) is not None
        return super().prepare_update(new if kept else _with_max_unavailable(new, None), old, context)


def _max_unavailable(stateful: apps_v1.StatefulSet) -> int | str | None:
    rolling = stateful.spec.update_strategy.rolling_update
    return rolling.max_unavailable if rolling is not None else None


def _with_max_unavailable(stateful: apps_v1.StatefulSet, value: int | None) -> apps_v1.StatefulSet:
    strategy = stateful.spec.update_strategy
    if strategy.rolling_update is None or strategy.rolling_update.max_unavailable == value:
        return stateful
    strategy = replace(strategy, rolling_update=replace(strategy.rolling_update, max_unavailable=value))
    return replace(stateful, spec=replace(stateful.spec, update_strategy=strategy))


def validate_statefulset_update(new: apps_v1.StatefulSet, old: apps_v1.StatefulSet) -> ErrorList:
    """Require that most of the spec stays."""
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
    # The permitted fields are put back to their stored values and all others compared. A field that is added to the
    # type later is thereby immutable until it is named here, as in Kubernetes.
    if kept != old.spec:
        errors.forbidden(
            _SPEC,
            "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', "
            "'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden",
        )
    return errors


def statefulset_cells(stateful: apps_v1.StatefulSet, now: float) -> list[Any]:
    """Return the cells of a StatefulSet."""
    return [
        stateful.metadata.name,
        f"{stateful.status.ready_replicas}/{stateful.spec.replicas or 0}",
        age(stateful.metadata.creation_timestamp, now),
        *container_cells(stateful.spec.template),
    ]


def stateful_set_definition() -> ResourceDefinition[apps_v1.StatefulSet]:
    """Return the definition of statefulsets."""
    return BuiltinKind(
        apps_v1.StatefulSet,
        "statefulsets",
        namespaced=True,
        drop_disabled=enabled_template,
        strategy=StatefulSetStrategy(
            default_statefulset, ObjectRules(validate_statefulset, validate_statefulset_update, _warnings)
        ),
        default=default_statefulset,
        status_rules=validate_statefulset_status,
        scalable=True,
        table=(STATEFULSET_COLUMNS, statefulset_cells),
        short_names=("sts",),
        categories=("all",),
    ).definition()


def _warnings(new: apps_v1.StatefulSet, old: apps_v1.StatefulSet | None) -> Iterator[str]:
    yield from workload_warnings(new, old)
    if new.spec.revision_history_limit is not None and new.spec.revision_history_limit < 0:
        yield (
            "spec.revisionHistoryLimit: a negative value retains all historical revisions; a value >= 0 is recommended"
        )
