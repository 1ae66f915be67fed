"""Conditions of objects: find, check and set them.

Conditions of different kinds are different types with common fields, and the functions accept all of them. Kubernetes
sets conditions in three ways, which differ in the position of the new condition and in its transition time. Each has a
function here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Protocol, TypeVar, cast

from cathedra.api.struct import Time, replace


class Stated(Protocol):
    """A type, and whether it holds: "True", "False" or "Unknown"."""

    @property
    def type(self) -> str:
        """The type of the condition."""

    @property
    def status(self) -> str:
        """True if it holds."""


class _Explained(Stated, Protocol):
    @property
    def reason(self) -> str: ...

    @property
    def message(self) -> str: ...

    @property
    def last_transition_time(self) -> Time | None: ...


S = TypeVar("S", bound=Stated)
C = TypeVar("C", bound=_Explained)


def find_condition(conditions: Iterable[S], kind: str) -> S | None:
    """Return the condition of that type, if there is one."""
    for condition in conditions:
        if condition.type == kind:
            return condition
    return None


def is_true(conditions: Iterable[Stated], kind: str) -> bool:
    """Return True if the condition of that type is there and True."""
    found = find_condition(conditions, kind)
    return found is not None and found.status == "True"


def with_condition(conditions: Sequence[C], new: C) -> tuple[C, ...]:
    """``conditions`` with ``new`` in the place of the one of its type, or at the end.

    The transition time moves only when the status does. Source: apimachinery ``pkg/api/meta/conditions.go``
    (SetStatusCondition), ``pkg/api/v1/pod/util.go`` (UpdatePodCondition).
    """
    old = find_condition(conditions, new.type)
    if old is None:
        return (*conditions, new)
    dated = keep_transition_time(new, old)
    return tuple(dated if condition is old else condition for condition in conditions)


def with_condition_moved_last(conditions: Sequence[C], new: C) -> tuple[C, ...]:
    """``conditions`` without the one of that type, and ``new`` at the end; the same if status and reason are the same.

    The transition time moves only when the status does. Source: ``pkg/controller/deployment/util/deployment_util.go``
    (SetDeploymentCondition), ``pkg/controller/replicaset/replica_set_utils.go`` (SetCondition).
    """
    old = find_condition(conditions, new.type)
    if old is not None and (old.status, old.reason) == (new.status, new.reason):
        return tuple(conditions)
    dated = keep_transition_time(new, old)
    return (*(condition for condition in conditions if condition.type != new.type), dated)


def with_condition_restarted(conditions: Sequence[C], new: C) -> tuple[C, ...]:
    """Replace a condition by ``new`` with its own times. Return the same conditions if nothing else differs.

    A condition that is False is not added where none was. Source: ``pkg/controller/job/job_controller.go``
    (ensureJobConditionStatus).
    """
    old = find_condition(conditions, new.type)
    if old is None:
        return (*conditions, new) if new.status != "False" else tuple(conditions)
    if (old.status, old.reason, old.message) == (new.status, new.reason, new.message):
        return tuple(conditions)
    return tuple(new if condition is old else condition for condition in conditions)


def keep_transition_time(new: C, old: C | None) -> C:
    """``new``, dated as ``old`` if that has the same status."""
    if old is None or old.status != new.status:
        return new
    dated: C = replace(cast(Any, new), last_transition_time=old.last_transition_time)
    return dated
