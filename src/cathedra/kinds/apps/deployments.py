"""Deployments: pods of one template, replaced a few at a time."""

from __future__ import annotations

from typing import Any, Final

from cathedra.api.core import apps_v1
from cathedra.api.field import ErrorList, FieldPath
from cathedra.api.struct import replace
from cathedra.kinds.apps.validation import (
    has_valid_selector,
    is_zero,
    validate_collisions,
    validate_counts,
    validate_int_or_percent,
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
from cathedra.kinds.core.pods.templates import CONTAINERS, IMAGES, SELECTOR, container_cells, selector_text
from cathedra.kinds.core.pods.warnings import named_workload_warnings
from cathedra.kinds.defaults import absent
from cathedra.kinds.definition import Column, RequestContext, ResourceDefinition
from cathedra.kinds.strategies import ObjectRules, StatusStrategy

_SPEC: Final = FieldPath("spec")
DEPLOYMENT_COLUMNS: Final = (
    NAME,
    Column("Ready", description="Ready pods, of those wanted."),
    Column("Up-to-date", type="string", description="Pods of the newest template."),
    Column("Available", type="string", description="Pods that have been ready long enough."),
    AGE,
    CONTAINERS,
    IMAGES,
    SELECTOR,
)


def default_deployment(deployment: apps_v1.Deployment) -> apps_v1.Deployment:
    """Return the object with its defaults: a deployment that rolls a quarter at a time."""
    spec = deployment.spec
    strategy = spec.strategy
    if strategy.type in ("", "RollingUpdate"):
        rolling = strategy.rolling_update or apps_v1.RollingUpdateDeployment()
        rolling = replace(rolling, **absent(rolling, max_unavailable="25%", max_surge="25%"))
        strategy = replace(strategy, type="RollingUpdate", rolling_update=rolling)
    changes = absent(spec, replicas=1, revision_history_limit=10, progress_deadline_seconds=600)
    template = default_pod_template(spec.template)
    return replace(deployment, spec=replace(spec, template=template, strategy=strategy, **changes))


def validate_deployment(deployment: apps_v1.Deployment) -> ErrorList:
    """Return the errors of a deployment."""
    errors = ErrorList()
    spec = deployment.spec
    validate_not_negative(errors, replicas=spec.replicas)
    validate_workload_selector(errors, spec.selector, "empty selector is invalid for deployment")
    if has_valid_selector(errors, spec.selector, "invalid label selector"):
        validate_workload_template(errors, spec.template, spec.selector, "ReplicaSet")
    _deployment_strategy(errors, _SPEC.child("strategy"), spec.strategy)
    validate_not_negative(
        errors,
        minReadySeconds=spec.min_ready_seconds,
        revisionHistoryLimit=spec.revision_history_limit,
        progressDeadlineSeconds=spec.progress_deadline_seconds,
    )
    deadline = spec.progress_deadline_seconds
    # Progress counts from the moment when pods become available. A shorter deadline would fail every roll-out.
    if deadline is not None and deadline <= spec.min_ready_seconds:
        errors.invalid(_SPEC.child("progressDeadlineSeconds"), deadline, "must be greater than minReadySeconds")
    return errors


def validate_deployment_update(new: apps_v1.Deployment, old: apps_v1.Deployment) -> ErrorList:
    """Require an unchanged selector."""
    return with_immutable_selector(validate_deployment(new), new, old)


def _deployment_strategy(errors: ErrorList, path: FieldPath, strategy: apps_v1.DeploymentStrategy) -> None:
    rolling = strategy.rolling_update
    if strategy.type == "Recreate":
        if rolling is not None:
            text = "may not be specified when strategy `type` is 'Recreate'"
            errors.forbidden(path.child("rollingUpdate"), text)
    elif strategy.type != "RollingUpdate":
        errors.not_among(path, strategy, ("Recreate", "RollingUpdate"))
    elif rolling is None:
        errors.required(path.child("rollingUpdate"), "this should be defaulted and never be nil")
    else:
        where = path.child("rollingUpdate")
        validate_int_or_percent(errors, where.child("maxUnavailable"), rolling.max_unavailable)
        validate_int_or_percent(errors, where.child("maxSurge"), rolling.max_surge)
        # With both at zero the controller could neither remove an old pod nor add a new one, and would wait for ever.
        if is_zero(rolling.max_unavailable) and is_zero(rolling.max_surge):
            errors.invalid(where.child("maxUnavailable"), rolling.max_unavailable, "may not be 0 when `maxSurge` is 0")


def deployment_cells(deployment: apps_v1.Deployment, now: float) -> list[Any]:
    """Return the cells of a Deployment."""
    status = deployment.status
    return [
        deployment.metadata.name,
        f"{status.ready_replicas}/{deployment.spec.replicas or 0}",
        status.updated_replicas,
        status.available_replicas,
        age(deployment.metadata.creation_timestamp, now),
        *container_cells(deployment.spec.template),
        selector_text(deployment.spec.selector),
    ]


class DeploymentStatusStrategy(StatusStrategy[apps_v1.Deployment]):
    """A deployment's status, which its controller writes."""

    reset_fields = ("spec", "metadata.labels")

    def prepare_update(
        self, new: apps_v1.Deployment, old: apps_v1.Deployment, context: RequestContext
    ) -> apps_v1.Deployment:
        """Keep the stored spec and labels."""
        kept = super().prepare_update(new, old, context)
        # Deployments alone keep their labels here, because Kubernetes' strategies of other workloads let them change.
        return replace(kept, metadata=replace(kept.metadata, labels=old.metadata.labels))


def validate_deployment_status(new: apps_v1.Deployment, old: apps_v1.Deployment) -> ErrorList:
    """Return the errors of a changed status."""
    errors = ErrorList()
    status = new.status
    validate_counts(
        errors,
        observedGeneration=status.observed_generation,
        replicas=status.replicas,
        updatedReplicas=status.updated_replicas,
        readyReplicas=status.ready_replicas,
        availableReplicas=status.available_replicas,
        unavailableReplicas=status.unavailable_replicas,
        collisionCount=status.collision_count,
    )
    validate_replicas(
        errors,
        status,
        updatedReplicas=status.updated_replicas,
        readyReplicas=status.ready_replicas,
        availableReplicas=status.available_replicas,
    )
    validate_collisions(errors, status.collision_count, old.status.collision_count)
    return errors


def deployment_definition() -> ResourceDefinition[apps_v1.Deployment]:
    """Return the definition of deployments."""
    return BuiltinKind(
        apps_v1.Deployment,
        "deployments",
        namespaced=True,
        drop_disabled=enabled_template,
        default=default_deployment,
        rules=ObjectRules(validate_deployment, validate_deployment_update, named_workload_warnings),
        counts_generation=True,
        status=DeploymentStatusStrategy(default_deployment, validate_deployment_status),
        scalable=True,
        table=(DEPLOYMENT_COLUMNS, deployment_cells),
        short_names=("deploy",),
        categories=("all",),
    ).definition()
