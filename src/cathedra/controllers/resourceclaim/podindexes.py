"""Indexes of pods by the claims that they name, and by their PodGroup."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from cathedra.api.core.core_v1 import Pod
from cathedra.semantics.podclaims import claim_names, pod_group_name

BY_CLAIM: Final = "pod-claim"
BY_GROUP: Final = "pod-group"


def by_claim(pod: Pod) -> Sequence[str]:
    """``namespace/name`` of every claim that ``pod`` uses."""
    names = claim_names(pod)
    return [f"{pod.metadata.namespace}/{name}" for name in names] if names else ()


def same_group(old: Pod, new: Pod) -> bool:
    """Return True if both states of a pod are identical in what `by_group` reads."""
    return old.spec.scheduling_group is new.spec.scheduling_group


def by_group(pod: Pod) -> Sequence[str]:
    """``namespace/name`` of the pod's PodGroup, if it has one."""
    name = pod_group_name(pod)
    return (f"{pod.metadata.namespace}/{name}",) if name else ()
