"""Deletion of pods: with time to end in, if they are on a node and still run (docs/spec/apimachinery.md §7)."""

from __future__ import annotations

from typing import Final

from cathedra.api.core.core_v1 import Pod
from cathedra.kinds.deletion import DeletionRules
from cathedra.semantics.pods import is_terminal

__all__ = ["PodDeletion"]

DEFAULT_GRACE: Final = 30
"""Seconds for a pod whose spec says nothing."""


class PodDeletion(DeletionRules[Pod]):
    """A pod ends within its grace period; its node then deletes it with none."""

    announced = True

    def grace_period(self, obj: Pod, wanted: int | None) -> int:
        """What the request wants, else what the spec says; nothing for a pod without a node or one that has ended."""
        grace = wanted
        if grace is None:
            grace = obj.spec.termination_grace_period_seconds
        if grace is None:
            grace = DEFAULT_GRACE
        if grace < 0:
            grace = 1
        if not obj.spec.node_name or is_terminal(obj):
            return 0
        if obj.metadata.deletion_timestamp is not None:
            return min(grace, obj.metadata.deletion_grace_period_seconds or 0)
        return grace
