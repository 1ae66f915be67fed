"""Events of drivers that queue a pod that waits for its claims (docs/spec/scheduling.md §18.2)."""

from __future__ import annotations

from collections.abc import Sequence

from cathedra.api.core import resource_v1alpha2 as v1alpha2
from cathedra.api.core.core_v1 import Pod
from cathedra.classic.anyclaim import AnyClaim
from cathedra.classic.scheduling.claims import FindClaim, Unresolved, pod_claims
from cathedra.scheduler.framework.events import Action, ClusterEvent, EventRegistration, EventResource
from cathedra.semantics.owners import is_controlled_by


class ClassicHints:
    """The plugin's registrations of events."""

    def __init__(self, find: FindClaim[AnyClaim], release: str) -> None:
        self._find = find
        self._release = release

    def registrations(self) -> Sequence[EventRegistration]:
        """Claims, scheduling contexts, classes and their parameters, nodes, the pod's own claim names."""
        node = Action.ADD | Action.UPDATE_NODE_LABEL | Action.UPDATE_NODE_ALLOCATABLE
        both = Action.ADD | Action.UPDATE
        return (
            EventRegistration(EventResource.NODE, node),
            EventRegistration(EventResource.RESOURCE_CLAIM, both, self._claim_helps),
            context_registration(self._find, self._release),
            EventRegistration(EventResource.TARGET_POD, Action.UPDATE_POD_GENERATED_CLAIM, self._pod_helps),
            EventRegistration(EventResource.RESOURCE_CLASS, both),
            EventRegistration(EventResource.RESOURCE_CLAIM_PARAMETERS, both),
            EventRegistration(EventResource.RESOURCE_CLASS_PARAMETERS, both),
            EventRegistration(EventResource.RESOURCE_SLICE, both),
        )

    def _pod_helps(self, pod: Pod, change: ClusterEvent) -> bool:
        return bool(pod.metadata.uid == change.new.metadata.uid) and self._resolves(change.new)

    def _resolves(self, pod: Pod) -> bool:
        try:
            pod_claims(pod, self._find, self._release)
        except Unresolved:
            return False
        return True

    def _claim_helps(self, pod: Pod, change: ClusterEvent) -> bool:
        old: v1alpha2.ResourceClaim | None = change.old
        new: v1alpha2.ResourceClaim = change.new
        try:
            claims = pod_claims(pod, self._find, self._release)
        except Unresolved:
            return False
        if old is not None and old.status.allocation is not None and new.status.allocation is None:
            # What it held is free: any driver may have room now.
            return True
        if all(claim.claim.metadata.uid != new.metadata.uid for claim in claims):
            return False
        return old is None or old.status != new.status


def context_registration(find: FindClaim[AnyClaim], release: str) -> EventRegistration:
    """Answers of drivers: a pod is tried again once all have answered, or when its node will not do."""

    def helps(pod: Pod, change: ClusterEvent) -> bool:
        return _context_helps(find, release, pod, change)

    return EventRegistration(EventResource.POD_SCHEDULING_CONTEXT, Action.ADD | Action.UPDATE, helps)


def _context_helps(find: FindClaim[AnyClaim], release: str, pod: Pod, change: ClusterEvent) -> bool:
    old: v1alpha2.PodSchedulingContext | None = change.old
    new: v1alpha2.PodSchedulingContext = change.new
    if not is_controlled_by(new, pod):
        return False
    try:
        claims = pod_claims(pod, find, release)
    except Unresolved:
        return False
    answered = {claim.name for claim in new.status.resource_claims}
    if any(claim.pending and claim.entry not in answered for claim in claims):
        return False
    if old is None or len(new.status.resource_claims) > len(old.status.resource_claims):
        return True
    selected = new.spec.selected_node
    if selected and any(selected in claim.unsuitable_nodes for claim in new.status.resource_claims):
        return True
    return old.spec == new.spec
