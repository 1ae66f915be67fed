"""What a deployment reads off its replica sets, and how it sizes them. Pure.

Source: ``pkg/controller/deployment/util/deployment_util.go``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from cathedra.api.core.apps_v1 import Deployment, ReplicaSet
from cathedra.api.struct import Time
from cathedra.controllers.workloads.rollout import limits
from cathedra.controllers.workloads.templates import same_template

__all__ = [
    "DESIRED",
    "MAXIMUM",
    "REVISION",
    "by_age",
    "copied_annotations",
    "has_newest_form",
    "is_being_scaled",
    "newest_annotations",
    "newest_of",
    "only_or_latest",
    "proportional_sizes",
    "replicas_of",
    "revision_of",
    "size_annotations",
    "size_of",
    "surge_of",
    "unavailable_of",
]

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
    """The pods that the deployment is to have."""
    return 1 if deployment.spec.replicas is None else deployment.spec.replicas


def size_of(replica_set: ReplicaSet) -> int:
    """The pods that the replica set is to have."""
    return 1 if replica_set.spec.replicas is None else replica_set.spec.replicas


def revision_of(replica_set: ReplicaSet) -> int:
    """The number of its version, 0 if it has none."""
    text = replica_set.metadata.annotations.get(REVISION, "0")
    return int(text) if text.isdigit() else 0


def surge_of(deployment: Deployment) -> int:
    """How many pods there may be beyond the replicas."""
    return _limits(deployment)[0]


def unavailable_of(deployment: Deployment) -> int:
    """How many of the replicas may be missing."""
    return _limits(deployment)[1] if replicas_of(deployment) else 0


def _limits(deployment: Deployment) -> tuple[int, int]:
    if deployment.spec.strategy.type == "Recreate":
        return 0, 0
    rolling = deployment.spec.strategy.rolling_update
    surge, unavailable = (rolling.max_surge, rolling.max_unavailable) if rolling else (None, None)
    return limits(replicas_of(deployment), surge, unavailable)


def size_annotations(deployment: Deployment) -> dict[str, str]:
    """What every replica set says of its deployment's size."""
    replicas = replicas_of(deployment)
    return {DESIRED: str(replicas), MAXIMUM: str(replicas + surge_of(deployment))}


def by_age(sets: Sequence[ReplicaSet]) -> list[ReplicaSet]:
    """The oldest first."""
    return sorted(sets, key=lambda s: (s.metadata.creation_timestamp or Time(0), s.metadata.name))


def newest_of(deployment: Deployment, sets: Sequence[ReplicaSet]) -> ReplicaSet | None:
    """The set of the present template; the oldest if there are several."""
    matching = [s for s in sets if same_template(s.spec.template, deployment.spec.template)]
    return next(iter(by_age(matching)), None)


def copied_annotations(deployment: Deployment) -> dict[str, str]:
    """The annotations that its newest replica set has from the deployment."""
    return {key: value for key, value in deployment.metadata.annotations.items() if key not in _NOT_COPIED}


def newest_annotations(deployment: Deployment, newest: ReplicaSet, old: Sequence[ReplicaSet]) -> dict[str, str]:
    """The annotations of the present version's set: those of the deployment, and the highest revision of all sets.

    A set that is rolled back to remembers the revisions that it had before.
    """
    annotations = {**newest.metadata.annotations, **copied_annotations(deployment)}
    before, revision = annotations.get(REVISION), max(map(revision_of, old), default=0) + 1
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
    while len(revisions) > 1 and len(",".join(revisions)) > _LONGEST_HISTORY:
        del revisions[0]
    return ",".join(revisions)


def has_newest_form(deployment: Deployment, newest: ReplicaSet, old: Sequence[ReplicaSet]) -> bool:
    """Whether the present version's set says all that it takes over from its deployment."""
    has_annotations = newest_annotations(deployment, newest, old) == newest.metadata.annotations
    return has_annotations and newest.spec.min_ready_seconds == deployment.spec.min_ready_seconds


def is_being_scaled(deployment: Deployment, sets: Sequence[ReplicaSet]) -> bool:
    """Whether the deployment's size has changed since its replica sets were sized."""
    told = (s.metadata.annotations.get(DESIRED) for s in sets if size_of(s))
    return any(size is not None and size != str(replicas_of(deployment)) for size in told)


def only_or_latest(newest: ReplicaSet | None, old: Sequence[ReplicaSet]) -> ReplicaSet | None:
    """The one set that has pods; if none has, the newest there is; None if several have."""
    every = [*old, newest] if newest is not None else [*old]
    active = [s for s in every if size_of(s)]
    if len(active) > 1 or not every:
        return None
    return active[0] if active else newest or by_age(old)[-1]


def proportional_sizes(deployment: Deployment, sets: Sequence[ReplicaSet]) -> list[tuple[ReplicaSet, int]]:
    """How many pods each set gets when a deployment is scaled in the middle of a rollout; the largest set first."""
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
    return int(size * (replicas + surge_of(deployment)) / before + 0.5) - size
