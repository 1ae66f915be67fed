"""What the status of a deployment says of its replica sets: numbers, availability, progress. Pure.

Source: ``pkg/controller/deployment/sync.go`` (calculateStatus), ``progress.go`` (syncRolloutStatus).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from cathedra.api.core.apps_v1 import Deployment, DeploymentCondition, DeploymentStatus, ReplicaSet
from cathedra.api.struct import Time, replace
from cathedra.controllers.workloads.replicasets import replicas_of, size_of, unavailable_of
from cathedra.semantics.conditions import find_condition, with_condition_moved_last

__all__ = ["creation_failed", "has_deadline", "numbers", "paused_status", "rollout_status", "seconds_left"]

_NO_DEADLINE: Final = 2**31 - 1
_TIMED_OUT: Final = "ProgressDeadlineExceeded"
_AVAILABLE: Final = "NewReplicaSetAvailable"


def has_deadline(deployment: Deployment) -> bool:
    """Whether progress is told of the deployment at all."""
    return deployment.spec.progress_deadline_seconds not in (None, _NO_DEADLINE)


def numbers(
    deployment: Deployment, sets: Sequence[ReplicaSet], newest: ReplicaSet | None, now: float
) -> DeploymentStatus:
    """The status with the numbers of all replica sets and condition Available; nothing is said of progress."""
    available = sum(s.status.available_replicas for s in sets)
    status = replace(
        deployment.status,
        observed_generation=deployment.metadata.generation,
        replicas=sum(s.status.replicas for s in sets),
        updated_replicas=newest.status.replicas if newest else 0,
        ready_replicas=sum(s.status.ready_replicas for s in sets),
        available_replicas=available,
        unavailable_replicas=max(0, sum(map(size_of, sets)) - available),
        terminating_replicas=sum(s.status.terminating_replicas or 0 for s in sets),
    )
    if available >= replicas_of(deployment) - unavailable_of(deployment):
        told = ("True", "MinimumReplicasAvailable", "Deployment has minimum availability.")
    else:
        told = ("False", "MinimumReplicasUnavailable", "Deployment does not have minimum availability.")
    return _with(status, _condition("Available", *told, now))


def paused_status(deployment: Deployment, now: float) -> DeploymentStatus:
    """The status that says that the deployment was paused, or goes on; the present one if it does already."""
    status = deployment.status
    known = find_condition(status.conditions, "Progressing")
    reason = known.reason if known is not None else ""
    if not has_deadline(deployment) or reason == _TIMED_OUT:
        return status
    if deployment.spec.paused and reason != "DeploymentPaused":
        return _with(status, _condition("Progressing", "Unknown", "DeploymentPaused", "Deployment is paused", now))
    if not deployment.spec.paused and reason == "DeploymentPaused":
        return _with(status, _condition("Progressing", "Unknown", "DeploymentResumed", "Deployment is resumed", now))
    return status


def rollout_status(
    deployment: Deployment, sets: Sequence[ReplicaSet], newest: ReplicaSet | None, *, created: bool, now: float
) -> DeploymentStatus:
    """`numbers`, with how far the rollout has come; ``created``: the newest replica set was made just now."""
    status = numbers(deployment, sets, newest, now)
    known = find_condition(status.conditions, "Progressing")
    if not has_deadline(deployment):
        others = tuple(condition for condition in status.conditions if condition.type != "Progressing")
        status = replace(status, conditions=others)
    else:
        if newest is not None and (created or known is None):
            told = ("NewReplicaSetCreated", "Created") if created else ("FoundNewReplicaSet", "Found")
            reason, verb = told
            message = f'{verb} new replica set "{newest.metadata.name}"'
            status = _with(status, _condition("Progressing", "True", reason, message, now))
        elif not (known is not None and known.reason == _AVAILABLE and status.replicas == status.updated_replicas):
            # A rollout that is over stays so: scaling, or a pod that fails later, is no new progress.
            status = _with_progress(deployment, status, newest, now)
    told_first = [*([newest] if newest is not None else []), *sets]
    failure = next((c for s in told_first for c in s.status.conditions if c.type == "ReplicaFailure"), None)
    if failure is None:
        others = tuple(condition for condition in status.conditions if condition.type != "ReplicaFailure")
        return replace(status, conditions=others)
    return _with(status, _condition("ReplicaFailure", failure.status, failure.reason, failure.message, now))


def creation_failed(deployment: Deployment, message: str, now: float) -> DeploymentStatus:
    """The status that says that the newest replica set could not be created."""
    if not has_deadline(deployment):
        return deployment.status
    return _with(deployment.status, _condition("Progressing", "False", "ReplicaSetCreateError", message, now))


def seconds_left(deployment: Deployment, status: DeploymentStatus, now: float) -> float | None:
    """When to look again whether the rollout has come further (seconds), None if that is not asked."""
    known = find_condition(status.conditions, "Progressing")
    deadline = deployment.spec.progress_deadline_seconds
    if deadline is None or not has_deadline(deployment) or known is None or known.reason in (_TIMED_OUT, _AVAILABLE):
        return None
    since = known.last_update_time.timestamp if known.last_update_time else now
    return max(since + deadline - now, 0.0) + 1.0


def _with_progress(
    deployment: Deployment, status: DeploymentStatus, newest: ReplicaSet | None, now: float
) -> DeploymentStatus:
    old, wanted = deployment.status, replicas_of(deployment)
    shown = f'ReplicaSet "{newest.metadata.name}"' if newest else f'Deployment "{deployment.metadata.name}"'
    if status.updated_replicas == status.replicas == status.available_replicas == wanted:
        message = f"{shown} has successfully progressed."
        return _with(status, _condition("Progressing", "True", _AVAILABLE, message, now))
    if (
        status.updated_replicas > old.updated_replicas
        or status.replicas - status.updated_replicas < old.replicas - old.updated_replicas
        or status.ready_replicas > old.ready_replicas
        or status.available_replicas > old.available_replicas
    ):
        return _with_step(
            status, _condition("Progressing", "True", "ReplicaSetUpdated", f"{shown} is progressing.", now)
        )
    left = seconds_left(deployment, status, now)
    if left is not None and left <= 1.0:
        message = f"{shown} has timed out progressing."
        return _with(status, _condition("Progressing", "False", _TIMED_OUT, message, now))
    return status


def _condition(kind: str, status: str, reason: str, message: str, now: float) -> DeploymentCondition:
    return DeploymentCondition(
        type=kind,
        status=status,
        reason=reason,
        message=message,
        last_update_time=Time(now),
        last_transition_time=Time(now),
    )


def _with(status: DeploymentStatus, condition: DeploymentCondition) -> DeploymentStatus:
    return replace(status, conditions=with_condition_moved_last(status.conditions, condition))


def _with_step(status: DeploymentStatus, condition: DeploymentCondition) -> DeploymentStatus:
    """Progress is told anew each time: the times and the text count, even if nothing else is different."""
    old = find_condition(status.conditions, condition.type)
    if old is not None and old.status == condition.status:
        condition = replace(condition, last_transition_time=old.last_transition_time)
    others = tuple(known for known in status.conditions if known.type != condition.type)
    return replace(status, conditions=(*others, condition))
