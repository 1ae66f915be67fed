"""Queueing hints: the events that wake a pod which waits for its claims or for devices (docs/spec/scheduling.md §3.2).

Most claim events concern one pod, and an index from claims to pods leaves the others asleep. Only devices that became
free concern all pods.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from cathedra.api.core.core_v1 import Pod
from cathedra.api.resource import ResourceClaim
from cathedra.client.store import Store
from cathedra.scheduler.dynamicresources.claims import Resolver, UnresolvedClaim
from cathedra.scheduler.framework.events import Action, ClusterEvent, EventRegistration, EventResource
from cathedra.semantics.podclaims import BY_CLAIM, by_claim, names_same_claims, pod_group_name


class QueueingHints:
    """Events that can make a pod schedulable which DynamicResources has refused."""

    def __init__(
        self,
        resolver: Resolver,
        pods: Store[Pod],
        *,
        counts_pods: bool,
        deletions: bool = True,
        is_freeing: Callable[[str], bool] | None = None,
    ) -> None:
        """``counts_pods``: devices are counted against their nodes, so pods that go make room.

        ``deletions``: an allocated claim that is deleted wakes pods, as from 1.37 on.

        ``is_freeing``: devices are held for nominated pods, so the end of a nomination makes room; returns True while
        devices of a node are not available yet.
        """
        self._is_freeing = is_freeing
        self._deletions = Action.DELETE if deletions else Action(0)
        self._counts_pods = counts_pods
        self._resolver = resolver
        self._pods = pods
        pods.add_index(BY_CLAIM, by_claim, names_same_claims)

    def registrations(self) -> Sequence[EventRegistration]:
        """Nodes, claims, the pod's own claim names, classes, slices."""
        node = Action.ADD | Action.UPDATE_NODE_LABEL | Action.UPDATE_NODE_ALLOCATABLE
        claim = Action.ADD | Action.UPDATE | self._deletions
        room = EventRegistration(EventResource.ASSIGNED_POD, Action.DELETE | Action.UPDATE_POD_SCALE_DOWN)
        nomination = EventRegistration(EventResource.ASSIGNED_POD, Action.DELETE, self._nomination_ended)
        return (
            *((room,) if self._counts_pods else ()),
            *((nomination,) if self._is_freeing is not None and not self._counts_pods else ()),
            EventRegistration(EventResource.NODE, node),
            EventRegistration(EventResource.RESOURCE_CLAIM, claim, self._claim_helps, self._affected),
            EventRegistration(
                EventResource.TARGET_POD, Action.UPDATE_POD_GENERATED_CLAIM, self._pod_helps, as_pre_enqueue=True
            ),
            EventRegistration(EventResource.POD_GROUP, Action.ADD | Action.UPDATE, self._group_helps),
            EventRegistration(EventResource.DEVICE_CLASS, Action.ADD | Action.UPDATE),
            EventRegistration(EventResource.RESOURCE_SLICE, Action.ADD | Action.UPDATE),
        )

    def _affected(self, change: ClusterEvent) -> tuple[Collection[str], bool]:
        """Return the UIDs of the waiting pods that use the claim, and True if devices became free for others."""
        old: ResourceClaim | None = change.old
        new: ResourceClaim | None = change.new
        claim = new or old
        if claim is None:
            return (), True
        key = f"{claim.metadata.namespace}/{claim.metadata.name}"
        users = self._pods.by_index(BY_CLAIM, key)
        waiting = [pod.metadata.uid for pod in users if not pod.spec.node_name and pod.spec.resource_claims]
        return waiting, _freed(old, new)

    def _claim_helps(self, pod: Pod, change: ClusterEvent) -> bool:
        old: ResourceClaim | None = change.old
        new: ResourceClaim | None = change.new
        if new is None:
            return old is None or old.status.allocation is not None
        # Without its claims the pod fails in PreEnqueue again; waking it would only cost a cycle.
        if self._resolver.lacks_claims(pod):
            return False
        try:
            claims = self._resolver.claims(pod)
        except UnresolvedClaim:
            return False
        if _freed(old, new):
            return True
        if new.metadata.uid not in [claim.metadata.uid for claim in claims]:
            return False
        # Metadata of a claim, as its finalizers, decides nothing for the pod.
        return old is None or old.status != new.status

    def _nomination_ended(self, pod: Pod, change: ClusterEvent) -> bool:
        """Return True if a nomination has ended and its devices are not still being freed. The end of a nomination is
        reported as the deletion of a pod that has no node."""
        old: Pod | None = change.old
        if old is None or old.spec.node_name:
            return False
        # What was held is not free before its claims are deallocated, and that has an event of its own (KEP-5690).
        return self._is_freeing is None or not self._is_freeing(old.status.nominated_node_name)

    def _pod_helps(self, pod: Pod, change: ClusterEvent) -> bool:
        if pod.metadata.uid != change.new.metadata.uid:
            return False
        try:
            self._resolver.claims(change.new)
        except UnresolvedClaim:
            return False
        return True

    def _group_helps(self, pod: Pod, change: ClusterEvent) -> bool:
        """Return True if the pod's PodGroup is new or has new claim statuses, and all claims of the pod are there
        now."""
        old, new = change.old, change.new
        if (pod.metadata.namespace, pod_group_name(pod)) != (new.metadata.namespace, new.metadata.name):
            return False
        # The scheduler writes a condition after each attempt of a gang that does not fit. While its text changes, as
        # with the number of pods that fit, each attempt would cause the next one without a pause.
        if old is not None and old.status.resource_claim_statuses == new.status.resource_claim_statuses:
            return False
        try:
            self._resolver.claims(pod)
        except UnresolvedClaim:
            return False
        return True


def _freed(old: ResourceClaim | None, new: ResourceClaim | None) -> bool:
    if old is None or old.status.allocation is None:
        return False
    return new is None or new.status.allocation is None
