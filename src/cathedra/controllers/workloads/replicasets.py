"""Replica sets of a deployment: their sizes during a rollout, and the deployment's status. Pure functions.

Source: ``pkg/controller/deployment/util/deployment_util.go``, ``sync.go`` (calculateStatus), ``progress.go``
(syncRolloutStatus).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from cathedra.api.core.apps_v1 import Deployment, DeploymentCondition, DeploymentStatus, ReplicaSet
from cathedra.api.struct import Time, replace
from cathedra.controllers.workloads.templates import limits, same_template
from cathedra.semantics.conditions import find_condition, with_condition_moved_last

REVISION: Final = "deployment.kubernetes.io/revision"
DESIRED: Final = "deployment.kubernetes.io/desired-replicas"
MAXIMUM: Final = "deployment.kubernetes.io/max-replicas"
HISTORY: Final = "deployment.kubernetes.io/revision-history"
_LONGEST_HISTORY: Final = 2000
"""Letters of the list of earlier revisions."""
_LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
_ROLLBACK: Final = "deprecated.deployment.rollback.to"
_NOT_COPIED: Final = frozenset({_LAST_APPLIED, REVISION, HISTORY, DESIRED, MAXIMUM, _ROLLBACK})


def replicas_of(deployment: Deployment) -> int:
    """Return the pods that the deployment is to have."""
    return 1 if deployment.spec.replicas is None else deployment.spec.replicas


def size_of(replica_set: ReplicaSet) -> int:
    """Return the pods that the replica set is to have."""
    return 1 if replica_set.spec.replicas is None else replica_set.spec.replicas


def revision_of(replica_set: ReplicaSet) -> int:
    """Return the number of its version, 0 if it has none."""
    text = replica_set.metadata.annotations.get(REVISION, "0")
    return int(text) if text.isdigit() else 0


def surge_of(deployment: Deployment) -> int:
    """Return the maximum number of pods beyond the replicas."""
    return _limits(deployment)[0]


def unavailable_of(deployment: Deployment) -> int:
    """Return the maximum number of unavailable replicas."""
    return _limits(deployment)[1] if replicas_of(deployment) else 0


def _limits(deployment: Deployment) -> tuple[int, int]:
    if deployment.spec.strategy.type == "Recreate":
        return 0, 0
    rolling = deployment.spec.strategy.rolling_update
    surge, unavailable = (rolling.max_surge, rolling.max_unavailable) if rolling else (None, None)
    return limits(replicas_of(deployment), surge, unavailable)


def size_annotations(deployment: Deployment) -> dict[str, str]:
    """Return the annotations with the deployment's size, for its replica sets."""
    replicas = replicas_of(deployment)
    return {DESIRED: str(replicas), MAXIMUM: str(replicas + surge_of(deployment))}


def by_age(sets: Sequence[ReplicaSet]) -> list[ReplicaSet]:
    """Sort the sets, oldest first."""
    return sorted(sets, key=lambda s: (s.metadata.creation_timestamp or Time(0), s.metadata.name))


def newest_of(deployment: Deployment, sets: Sequence[ReplicaSet]) -> ReplicaSet | None:
    """Return the set of the present template; the oldest if there are several."""
    matching = [s for s in sets if same_template(s.spec.template, deployment.spec.template)]
    # Several may match after a lost race. All readers must choose the same one, or two rollouts would work against each
    # other.
    return next(iter(by_age(matching)), None)


def copied_annotations(deployment: Deployment) -> dict[str, str]:
    """Return the annotations that its newest replica set has from the deployment."""
    return {key: value for key, value in deployment.metadata.annotations.items() if key not in _NOT_COPIED}


def newest_annotations(deployment: Deployment, newest: ReplicaSet, old: Sequence[ReplicaSet]) -> dict[str, str]:
    """Return the annotations of the present version's set: those of the deployment, and the highest revision of all
    sets.

    A set that is rolled back to remembers the revisions that it had before.
    """
    annotations = {**newest.metadata.annotations, **copied_annotations(deployment)}
    before, revision = annotations.get(REVISION), max(map(revision_of, old), default=0) + 1
    # An annotation that a user has changed is left alone, as in Kubernetes: it has no number to compare.
    if before is not None and not before.isdigit():
        return annotations
    if revision_of(newest) >= revision:
        return annotations
    annotations[REVISION] = str(revision)
    if before is not None:
        annotations[HISTORY] = _longer_history(annotations.get(HISTORY, ""), before)
    return annotations


def _longer_history(history: str, revision: str) -> str:
    revisions = [*filter(None, history.split(",")), revision]
    # Annotations are limited in size; the oldest revisions are of the least use.
    while len(revisions) > 1 and len(",".join(revisions)) > _LONGEST_HISTORY:
        del revisions[0]
    return ",".join(revisions)


def has_newest_form(deployment: Deployment, newest: ReplicaSet, old: Sequence[ReplicaSet]) -> bool:
    """Return True if the current version's set is up to date with its deployment."""
    has_annotations = newest_annotations(deployment, newest, old) == newest.metadata.annotations
    return has_annotations and newest.spec.min_ready_seconds == deployment.spec.min_ready_seconds


def is_being_scaled(deployment: Deployment, sets: Sequence[ReplicaSet]) -> bool:
    """Return True if the deployment's size has changed since its replica sets were sized."""
    told = (s.metadata.annotations.get(DESIRED) for s in sets if size_of(s))
    return any(size is not None and size != str(replicas_of(deployment)) for size in told)


def only_or_latest(newest: ReplicaSet | None, old: Sequence[ReplicaSet]) -> ReplicaSet | None:
    """Return the one set that has pods; if none has, the newest there is; None if several have."""
    every = [*old, newest] if newest is not None else [*old]
    active = [s for s in every if size_of(s)]
    if len(active) > 1 or not every:
        return None
    return active[0] if active else newest or by_age(old)[-1]


def proportional_sizes(deployment: Deployment, sets: Sequence[ReplicaSet]) -> list[tuple[ReplicaSet, int]]:
    """Return the size of each set when a deployment is scaled during a rollout; the largest set first."""
    replicas = replicas_of(deployment)
    allowed = replicas + surge_of(deployment) if replicas else 0
    missing = allowed - sum(map(size_of, sets))
    # Of two equally large ones the younger grows first, and the older shrinks first.
    ranked = by_age(sets)[:: -1 if missing > 0 else 1]
    ranked.sort(key=lambda s: -size_of(s))
    sizes: list[int] = []
    added = 0
    for replica_set in ranked:
        rest = missing - added
        share = _fraction(deployment, replica_set) if missing and rest else 0
        share = min(share, rest) if missing > 0 else max(share, rest)
        sizes.append(size_of(replica_set) + share)
        added += share
    if sizes:
        # Rounding leaves a rest, and the largest set takes it. Otherwise the deployment would stay short of pods for
        # ever.
        sizes[0] = max(0, sizes[0] + missing - added)
    return list(zip(ranked, sizes, strict=True))


def _fraction(deployment: Deployment, replica_set: ReplicaSet) -> int:
    """By how much the set would grow if all grew alike."""
    replicas, size = replicas_of(deployment), size_of(replica_set)
    if replicas == 0:
        return -size
    text = replica_set.metadata.annotations.get(MAXIMUM, "")
    before = int(text) if text.isdigit() and int(text) else deployment.status.replicas
    if before == 0:
        return 0
    # Halves are rounded up as by Go; Python's ``round`` takes the even neighbour and would give other sizes.
    return int(size * (replicas + surge_of(deployment)) / before + 0.5) - size


_NO_DEADLINE: Final = 2**31 - 1
_TIMED_OUT: Final = "ProgressDeadlineExceeded"
_AVAILABLE: Final = "NewReplicaSetAvailable"


def has_deadline(deployment: Deployment) -> bool:
    """Return True if the deployment reports progress."""
    return deployment.spec.progress_deadline_seconds not in (None, _NO_DEADLINE)


def numbers(
    deployment: Deployment, sets: Sequence[ReplicaSet], newest: ReplicaSet | None, now: float
) -> DeploymentStatus:
    """Return the status with the numbers of all replica sets and the condition Available, without progress."""
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
    """Return the status with the progress condition of a paused or resumed deployment; unchanged if it has that."""
    status = deployment.status
    known = find_condition(status.conditions, "Progressing")
    reason = known.reason if known is not None else ""
    # A rollout that has timed out stays so when it is paused, or the failure would be hidden.
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
    """Return `numbers`, with how far the rollout has come; ``created``: the newest replica set was made just now."""
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
    """Return the status after a failed creation of the newest replica set."""
    if not has_deadline(deployment):
        return deployment.status
    return _with(deployment.status, _condition("Progressing", "False", "ReplicaSetCreateError", message, now))


def seconds_left(deployment: Deployment, status: DeploymentStatus, now: float) -> float | None:
    """Return the seconds until progress is checked again; None if it is not."""
    known = find_condition(status.conditions, "Progressing")
    deadline = deployment.spec.progress_deadline_seconds
    if deadline is None or not has_deadline(deployment) or known is None or known.reason in (_TIMED_OUT, _AVAILABLE):
        return None
    since = known.last_update_time.timestamp if known.last_update_time else now
    # One second later, because the stored time has whole seconds and the deadline would not be over yet.
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
    """Return the status with a new progress condition: times and text count even if nothing else differs."""
    old = find_condition(status.conditions, condition.type)
    if old is not None and old.status == condition.status:
        condition = replace(condition, last_transition_time=old.last_transition_time)
    others = tuple(known for known in status.conditions if known.type != condition.type)
    return replace(status, conditions=(*others, condition))
