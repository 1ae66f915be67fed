"""The resource claim controller: pods get their claims, consumers their reservations, until they are done.

What is enqueued when, and what syncing a pod means, is here; claims are made by `ClaimMaker` and released by
`ClaimRelease` (docs/spec/controllers.md §2.2 to §2.4).
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any, Final, Literal

import msgspec

from cathedra.api.core.core_v1 import Pod, PodResourceClaim, PodResourceClaimStatus
from cathedra.api.core.scheduling_v1beta1 import PodGroup
from cathedra.api.resource import ResourceClaim, ResourceClaimTemplate
from cathedra.api.struct import replace
from cathedra.api.undecodable import Undecodable
from cathedra.client.resources import PODGROUPS, PODS, RESOURCECLAIMS, RESOURCECLAIMTEMPLATES
from cathedra.client.workqueue import RetryLater, WorkQueue, run_workers
from cathedra.controllers.controller import ControllerContext
from cathedra.controllers.resourceclaim.maker import (
    ClaimMaker,
    GroupFeatureDisabled,
    check_group_gate,
    closed_group_gate,
)
from cathedra.controllers.resourceclaim.release import ClaimRelease, DeletedPods
from cathedra.semantics import podclaims

FIELD_MANAGER: Final = "ResourceClaimController"
WORKERS: Final = 50


class ClaimKey(msgspec.Struct, frozen=True, gc=False):
    """Key of the queue: a pod, pod group or claim.

    A struct, because a named tuple takes four times as long to make.
    """

    kind: Literal["pod", "claim", "podgroup"]
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind}:{self.namespace}/{self.name}"


class ResourceClaimController:
    """Between pods and claims."""

    name = "resourceclaim-controller"
    release_type: type[ClaimRelease] = ClaimRelease
    """Class that releases reservations."""

    def __init__(self, context: ControllerContext) -> None:
        self._client = context.client
        self._applier = context.client.as_manager(FIELD_MANAGER)
        self._gates = context.gates
        self._workloads = not closed_group_gate(context.gates)
        self._recorder = context.recorder("resource_claim")
        self._queue: WorkQueue[ClaimKey] = context.queue()
        self._deleted = DeletedPods()
        informers = context.informers
        self._pods = informers.of(PODS)
        self._claims = informers.of(RESOURCECLAIMS)
        self._templates = informers.of(RESOURCECLAIMTEMPLATES)
        self._groups = informers.of(PODGROUPS) if self._workloads else None
        self._maker = ClaimMaker(self._client, informers, context.clock, context.gates)
        if context.registry is not None:
            # start-up time: where metrics are served alone
            from cathedra.controllers.resourceclaim.metrics import show_creations

            show_creations(context.registry, self._maker.created, context.gates)
        self._release = self.release_type(self._client, informers, self._deleted, groups=self._workloads)
        self._pods.store.add_index(podclaims.BY_CLAIM, podclaims.by_claim, podclaims.names_same_claims)
        self._pods.add_handler(
            on_add=self._pod_changed,
            on_update=lambda _, pod: self._pod_changed(pod),
            on_delete=self._pod_deleted,
            # A pod that cannot be decoded has not gone: it keeps its claims.
            on_undecodable=lambda _: None,
            on_resolved=self._pod_resolved,
        )
        self._claims.add_handler(on_add=self._claim_added, on_update=self._claim_updated, on_delete=self._claim_deleted)
        self._templates.add_handler(
            on_add=self._template_changed, on_update=lambda _, template: self._template_changed(template)
        )
        if self._groups is not None:
            self._pods.store.add_index(podclaims.BY_GROUP, podclaims.by_group, podclaims.same_group)
            self._groups.add_handler(
                on_add=self._group_changed,
                on_update=lambda _, group: self._group_changed(group),
                on_delete=self._group_changed,
            )

    async def run(self) -> None:
        """Reconcile objects until cancelled."""
        # Nothing is reconciled before the first lists: a claim without a pod in an empty store would be released.
        for informer in (self._pods, self._claims, self._templates, self._groups):
            if informer is not None:
                await informer.wait_synced()
        async with asyncio.TaskGroup() as group:
            group.create_task(self._recorder.run())
            group.create_task(run_workers(self._queue, self._reconcile, workers=WORKERS))

    # What is enqueued.

    def _pod_changed(self, pod: Pod) -> None:
        # A finished pod needs no new claims, but its old ones can be released.
        if podclaims.is_done_with_claims(pod):
            self._enqueue_claims(pod)
        elif pod.metadata.deletion_timestamp is None:
            # Syncing the pod does anything only if one of its entries needs work (docs/spec/controllers.md §2.3).
            for entry in pod.spec.resource_claims:
                if self._entry_needs_work(pod, entry):
                    self._queue.add(ClaimKey("pod", pod.metadata.namespace, pod.metadata.name))
                    return

    def _pod_deleted(self, pod: Pod) -> None:
        if podclaims.has_claims(pod):
            # Remembered, because the store of the pods may lag behind a claim's event: the API server need not be read
            # then.
            self._deleted.add(pod.metadata.uid)
            self._enqueue_claims(pod)

    def _pod_resolved(self, what: Undecodable, pod: Pod | None) -> None:
        """Handle a pod that could not be decoded: it can be now and is reported next, or it has gone (None)."""
        if pod is not None:
            return
        self._deleted.add(what.uid)
        for claim in self._claims.store.list():
            if any(consumer.uid == what.uid for consumer in claim.status.reserved_for):
                self._enqueue_claim(claim)

    def _enqueue_claims(self, pod: Pod) -> None:
        for name in podclaims.claim_names(pod):
            self._queue.add(ClaimKey("claim", pod.metadata.namespace, name))

    def _enqueue_claim(self, claim: ResourceClaim) -> None:
        """Queue a changed claim, also if there is nothing to do, as Kubernetes' controller does."""
        self._queue.add(ClaimKey("claim", claim.metadata.namespace, claim.metadata.name))

    def _claim_added(self, claim: ResourceClaim) -> None:
        if self._release.may_have_work(claim):
            self._enqueue_claim(claim)
        self._reconsider_users(claim)

    def _claim_updated(self, old: ResourceClaim, claim: ResourceClaim) -> None:
        reserved, before = claim.status.reserved_for, old.status.reserved_for
        # Everything else that affects such a claim is an event of a pod, which queues the claim.
        as_before = (
            # Identity is enough: objects are frozen, and a write that does not touch the list shares it (hot path:
            # every status update).
            reserved is before
            and claim.metadata.deletion_timestamp is None
            and old.metadata.owner_references is claim.metadata.owner_references
            and self._pods.synced
        )
        if as_before:
            if old.status is claim.status:
                return
        elif self._release.may_have_work(claim):
            self._enqueue_claim(claim)
        # A claim that hundreds of pods share changes with each reservation; only these changes make work for pods.
        released = reserved is not before and len(reserved) < len(before)
        if released or old.metadata.owner_references != claim.metadata.owner_references:
            self._reconsider_users(claim)
        elif old.status.allocation is None and claim.status.allocation is not None:
            # The scheduler reserves a claim for each pod that it places. Only pods that it did not place need work.
            for pod in self._users(claim):
                if pod.spec.node_name:
                    self._pod_changed(pod)

    def _claim_deleted(self, claim: ResourceClaim) -> None:
        self._reconsider_users(claim)

    def _users(self, claim: ResourceClaim) -> Sequence[Pod]:
        return self._pods.store.by_index(podclaims.BY_CLAIM, f"{claim.metadata.namespace}/{claim.metadata.name}")

    def _reconsider_users(self, claim: ResourceClaim) -> None:
        for pod in self._users(claim):
            self._pod_changed(pod)
        # Groups have no index by claim: they are few, and claims of groups change rarely.
        if self._groups is not None:
            for group in self._groups.store.list():
                if group.metadata.namespace == claim.metadata.namespace and group.spec.resource_claims:
                    self._group_changed(group)

    def _template_changed(self, template: ResourceClaimTemplate) -> None:
        # A pod that the template kept without a claim is in back-off; all others have theirs.
        for key in self._queue.failing:
            if key.kind == "pod" and key.namespace == template.metadata.namespace:
                pod = self._pods.store.get(key.namespace, key.name)
                if pod is not None and template.metadata.name in podclaims.template_names(pod):
                    self._pod_changed(pod)
        if self._groups is not None:
            for group in self._groups.store.list():
                names = {entry.resource_claim_template_name for entry in group.spec.resource_claims}
                if group.metadata.namespace == template.metadata.namespace and template.metadata.name in names:
                    self._group_changed(group)

    def _group_changed(self, group: PodGroup) -> None:
        self._queue.add(ClaimKey("podgroup", group.metadata.namespace, group.metadata.name))
        for status in group.status.resource_claim_statuses:
            if status.resource_claim_name:
                self._queue.add(ClaimKey("claim", group.metadata.namespace, status.resource_claim_name))
        value = f"{group.metadata.namespace}/{group.metadata.name}"
        for pod in self._pods.store.by_index(podclaims.BY_GROUP, value):
            self._pod_changed(pod)

    def _entry_needs_work(self, pod: Pod, entry: PodResourceClaim) -> bool:
        if podclaims.awaits_claim(pod, entry):
            return True
        try:
            found = podclaims.entry_claim(pod, entry)
        except podclaims.PodClaimError:
            return True
        if found is None:
            return False
        claim = self._maker.get(pod.metadata.namespace, found.name)
        if claim is None:
            known = self._maker.made_lately(pod.metadata.namespace, found.name)
            return found.generated and self._sharing_group(pod, entry) is None and not known
        if not pod.spec.node_name or claim.status.allocation is None:
            return False
        group = "" if pod.spec.scheduling_group is None else self._group_name(pod)
        if podclaims.is_reserved_for_group_named(claim, pod, group):
            return False
        return not found.generated or podclaims.is_made_for(claim, pod, group)

    def _group_name(self, pod: Pod) -> str:
        return podclaims.pod_group_name(pod) if self._workloads else ""

    def _group_of(self, pod: Pod) -> PodGroup | None:
        name = podclaims.pod_group_name(pod)
        if self._groups is None or not name:
            return None
        return self._groups.store.get(pod.metadata.namespace, name)

    def _sharing_group(self, pod: Pod, entry: PodResourceClaim) -> PodGroup | None:
        """Return the pod's PodGroup if the claim of this entry is the group's, else None."""
        group = self._group_of(pod)
        return group if group is not None and podclaims.shares_claim(entry, group) else None

    # What is done.

    def _reconcile(self, key: ClaimKey) -> Coroutine[Any, Any, None]:
        if key.kind == "claim":
            claim = self._maker.get(key.namespace, key.name)
            return _nothing() if claim is None else self._release.sync(claim)
        if key.kind == "pod":
            pod = self._pods.store.by_key.get((key.namespace, key.name))
            return _nothing() if pod is None else self._sync_pod(pod)
        group = self._groups.store.get(key.namespace, key.name) if self._groups is not None else None
        return _nothing() if group is None else self._sync_group(group)

    async def _sync_pod(self, pod: Pod) -> None:
        if pod.metadata.deletion_timestamp is not None or podclaims.is_done_with_claims(pod):
            return
        names = {status.name: status.resource_claim_name for status in pod.status.resource_claim_statuses}
        has_new = False
        failures: list[Exception] = []
        for entry in pod.spec.resource_claims:
            template = entry.resource_claim_template_name
            if not template:
                continue
            try:
                name = self._claim_for(pod, entry)
                if name is None:
                    name = (await self._maker.make(pod, entry.name, template)).metadata.name
            except Exception as error:
                # Any error becomes an event, and the other entries still get their claims.
                self._record_failure(pod, "PodResourceClaim", entry.name, error)
                failures.append(error)
                continue
            if name and names.get(entry.name) != name:
                names[entry.name] = name
                has_new = True
        if failures:
            # Only an administrator can change that; retries would write the same event for ever.
            if all(isinstance(failure, GroupFeatureDisabled) for failure in failures):
                return
            # The names are recorded when there is one for every entry.
            raise RetryLater(f"pod {pod.metadata.namespace}/{pod.metadata.name}") from failures[0]
        # An unchanged list is not written: the write would be an event, and the event another reconciliation.
        if has_new:
            await self._record_names(pod, names)
        if pod.spec.node_name:
            statuses = tuple(PodResourceClaimStatus(name=e, resource_claim_name=n) for e, n in sorted(names.items()))
            await self._reserve_for_scheduled(
                replace(pod, status=replace(pod.status, resource_claim_statuses=statuses))
            )

    def _claim_for(self, pod: Pod, entry: PodResourceClaim) -> str | None:
        """Return the name to record for an entry with a template; "" for none, None if the claim must be made."""
        if not podclaims.awaits_claim(pod, entry) and (name := self._recorded_name(pod, entry)) is not None:
            return name
        group = None
        if pod.spec.scheduling_group is not None:
            check_group_gate(pod, self._gates)
            group = self._sharing_group(pod, entry)
        found = self._maker.find(pod if group is None else group, entry.name)
        if found is not None:
            return found.metadata.name
        # A claim that pods share is made for their group.
        return None if group is None else ""

    def _recorded_name(self, pod: Pod, entry: PodResourceClaim) -> str | None:
        """Return the recorded name of the entry's claim; "" if the entry needs none, None if its claim must be made."""
        try:
            known = podclaims.entry_claim(pod, entry)
        except podclaims.ClaimNotCreated:
            return None
        if known is None:
            return ""
        claim = self._maker.get(pod.metadata.namespace, known.name)
        if claim is None:
            return known.name if self._maker.made_lately(pod.metadata.namespace, known.name) else None
        return known.name if podclaims.is_made_for(claim, pod, self._group_name(pod)) else None

    def _record_failure(self, involved: Pod | PodGroup, what: str, entry: str, error: Exception) -> None:
        self._recorder.record(involved, "Warning", "FailedResourceClaimCreation", f"{what} {entry}: {error}")

    def _record_names(self, pod: Pod, names: dict[str, str | None]) -> Coroutine[Any, Any, Pod]:
        # Always the whole list: an entry that an apply leaves out is removed.
        statuses = [
            {"name": entry, "resourceClaimName": name} if name else {"name": entry}
            for entry, name in sorted(names.items())
        ]
        fields = {"metadata": {"uid": pod.metadata.uid}, "status": {"resourceClaimStatuses": statuses}}
        return self._applier.resource(PODS, pod.metadata.namespace).apply(pod.metadata.name, fields, "status")

    async def _reserve_for_scheduled(self, pod: Pod) -> None:
        """Reserve the allocated claims of a pod that was placed without the scheduler."""
        group_name = self._group_name(pod)
        for entry in pod.spec.resource_claims:
            found = podclaims.entry_claim(pod, entry)
            claim = self._maker.get(pod.metadata.namespace, found.name) if found is not None else None
            if found is None or claim is None or claim.status.allocation is None:
                continue
            if found.generated:
                podclaims.check_owner(claim, pod, group_name)
            if podclaims.is_reserved_for_group_named(claim, pod, group_name):
                continue
            group = self._sharing_group(pod, entry)
            consumer = podclaims.pod_consumer(pod) if group is None else podclaims.group_consumer(group)
            status = replace(claim.status, reserved_for=(*claim.status.reserved_for, consumer))
            await self._client.resource(RESOURCECLAIMS, pod.metadata.namespace).update_status(
                replace(claim, status=status)
            )

    async def _sync_group(self, group: PodGroup) -> None:
        if group.metadata.deletion_timestamp is not None:
            return
        recorded = {status.name: status.resource_claim_name for status in group.status.resource_claim_statuses}
        names = dict(recorded)
        failure: Exception | None = None
        for entry in group.spec.resource_claims:
            template = entry.resource_claim_template_name
            name = recorded.get(entry.name)
            if not template or (name and self._maker.get(group.metadata.namespace, name)):
                continue
            try:
                claim = self._maker.find(group, entry.name) or await self._maker.make(group, entry.name, template)
            except Exception as error:
                # As for pods: an event, and the other entries continue.
                self._record_failure(group, "PodGroupResourceClaim", entry.name, error)
                failure = error
                continue
            names[entry.name] = claim.metadata.name
        if names != recorded:
            statuses = [{"name": entry, "resourceClaimName": name} for entry, name in sorted(names.items()) if name]
            fields = {"metadata": {"uid": group.metadata.uid}, "status": {"resourceClaimStatuses": statuses}}
            await self._applier.resource(PODGROUPS, group.metadata.namespace).apply(
                group.metadata.name, fields, "status"
            )
        if failure is not None:
            raise RetryLater(f"podgroup {group.metadata.namespace}/{group.metadata.name}") from failure


async def _nothing() -> None:
    """Do nothing: the object does not exist any more."""
