"""The resource claim controller of 1.26 to 1.30.

It creates claims from pods' templates, removes reservations of pods that are gone, and deallocates a claim that waited
for its first consumer when its last one is gone. Since 1.28 it also selects the node of a pod that was put on a node
by hand, so that the drivers of its claims allocate there, and reserves the claims (docs/spec/controllers.md §2;
docs/spec/node.md §16). The name of a claim is made of pod and entry in 1.26 and 1.27; later the API server adds a
unique suffix (docs/spec/api.md §6.3).
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Final, Literal, NamedTuple

from cathedra.api.core import resource_v1alpha2 as v1alpha2
from cathedra.api.core.core_v1 import Pod, PodResourceClaim
from cathedra.api.core.meta_v1 import ObjectMeta
from cathedra.api.scheme import GroupResource
from cathedra.api.status import StatusError, not_found
from cathedra.api.struct import replace
from cathedra.api.undecodable import Undecodable
from cathedra.classic.resources import CLAIMS, CONTEXTS, TEMPLATES
from cathedra.client.client import Client, ResourceClient
from cathedra.client.objects import with_metadata
from cathedra.client.resources import PODS
from cathedra.client.store import Store
from cathedra.client.workqueue import RetryLater, WorkQueue, run_workers
from cathedra.controllers.controller import ControllerContext
from cathedra.controllers.resourceclaim.maker import POD_CLAIM_NAME, generate_name
from cathedra.controllers.resourceclaim.release import FINALIZER, DeletedPods
from cathedra.releases import FeatureGates, classic
from cathedra.semantics.owners import controller_of, controller_reference, is_controlled_by
from cathedra.semantics.podclaims import (
    BY_CLAIM,
    PodClaimError,
    by_claim,
    claim_names,
    claim_source,
    entry_claim,
    has_claims,
    is_done_with_claims,
    names_same_claims,
    template_names,
)

FIELD_MANAGER: Final = "ResourceClaimController"
WORKERS: Final = 10
_BY_OWNER_AND_ENTRY: Final = "classic-resourceclaim-owner-entry"


class ClassicClaimKey(NamedTuple):
    """The object to reconcile."""

    kind: Literal["pod", "claim"]
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind}:{self.namespace}/{self.name}"


class CreationFailed(Exception):
    """The claim of an entry cannot be made."""


class ClassicResourceClaimController:
    """Between pods and classic claims."""

    name = "resourceclaim-controller"

    def __init__(self, context: ControllerContext) -> None:
        self._client = context.client
        self._applier = context.client.as_manager(FIELD_MANAGER)
        self._gates = context.gates
        self._recorder = context.recorder("resource_claim")
        self._queue: WorkQueue[ClassicClaimKey] = context.queue()
        self._deleted = DeletedPods()
        self._pods = context.informers.of(PODS)
        self._claims = context.informers.of(CLAIMS)
        self._templates = context.informers.of(TEMPLATES)
        self._contexts = context.informers.of(CONTEXTS)
        self._pods.store.add_index(BY_CLAIM, by_claim, names_same_claims)
        self._claims.store.add_index(_BY_OWNER_AND_ENTRY, _owner_and_entry)
        self._pods.add_handler(
            self._pod_changed,
            lambda _, pod: self._pod_changed(pod),
            self._pod_deleted,
            # A pod that cannot be decoded has not gone: it keeps its claims.
            on_undecodable=lambda _: None,
            on_resolved=self._pod_resolved,
        )
        self._claims.add_handler(self._claim_changed, lambda _, claim: self._claim_changed(claim), self._wake_users)
        self._templates.add_handler(self._template_changed, lambda _, template: self._template_changed(template))

    async def run(self) -> None:
        """Reconcile claims until cancelled."""
        for informer in (self._pods, self._claims, self._templates, self._contexts):
            await informer.wait_synced()
        async with asyncio.TaskGroup() as group:
            group.create_task(self._recorder.run())
            # Started after the informers are synced: with a partial store a consumer would look gone, and its claim
            # would be deallocated under a running pod.
            group.create_task(run_workers(self._queue, self._reconcile, workers=WORKERS))

    # What is enqueued.

    def _pod_changed(self, pod: Pod) -> None:
        if not has_claims(pod):
            return
        if is_done_with_claims(pod):
            self._enqueue_claims(pod)
        elif pod.metadata.deletion_timestamp is None:
            self._queue.add(ClassicClaimKey("pod", pod.metadata.namespace, pod.metadata.name))

    def _pod_deleted(self, pod: Pod) -> None:
        if has_claims(pod):
            self._deleted.add(pod.metadata.uid)
            self._enqueue_claims(pod)

    def _pod_resolved(self, what: Undecodable, pod: Pod | None) -> None:
        """Handle a pod that could not be decoded: if it was deleted, enqueue its claims; else it is reported next."""
        if pod is not None:
            return
        self._deleted.add(what.uid)
        for claim in self._claims.store.list():
            if any(consumer.uid == what.uid for consumer in claim.status.reserved_for):
                self._queue.add(ClassicClaimKey("claim", claim.metadata.namespace, claim.metadata.name))

    def _enqueue_claims(self, pod: Pod) -> None:
        for name in claim_names(pod):
            self._queue.add(ClassicClaimKey("claim", pod.metadata.namespace, name))

    def _claim_changed(self, claim: v1alpha2.ResourceClaim) -> None:
        self._queue.add(ClassicClaimKey("claim", claim.metadata.namespace, claim.metadata.name))
        self._wake_users(claim)

    def _wake_users(self, claim: v1alpha2.ResourceClaim) -> None:
        value = f"{claim.metadata.namespace}/{claim.metadata.name}"
        for pod in self._pods.store.by_index(BY_CLAIM, value):
            self._pod_changed(pod)

    def _template_changed(self, template: v1alpha2.ResourceClaimTemplate) -> None:
        # A pod that the template kept without a claim is in back-off; all others have theirs.
        for key in self._queue.failing:
            if key.kind == "pod" and key.namespace == template.metadata.namespace:
                pod = self._pods.store.get(key.namespace, key.name)
                if pod is not None and template.metadata.name in template_names(pod):
                    self._pod_changed(pod)

    # What is done.

    async def _reconcile(self, key: ClassicClaimKey) -> None:
        if key.kind == "claim":
            claim = self._claims.store.get(key.namespace, key.name)
            if claim is not None:
                await self._sync_claim(claim)
            return
        pod = self._pods.store.get(key.namespace, key.name)
        if pod is not None:
            await self._sync_pod(pod)

    async def _sync_pod(self, pod: Pod) -> None:
        if pod.metadata.deletion_timestamp is not None or is_done_with_claims(pod):
            return
        recorded = {status.name: status.resource_claim_name for status in pod.status.resource_claim_statuses}
        names = dict(recorded)
        failure: Exception | None = None
        for entry in pod.spec.resource_claims:
            if claim_source(entry).resource_claim_template_name is None:
                continue
            try:
                names[entry.name] = await self._claim_of(pod, entry)
            except (CreationFailed, StatusError) as error:
                text = f"PodResourceClaim {entry.name}: {error}"
                self._recorder.record(pod, "Warning", "FailedResourceClaimCreation", text)
                failure = error
        if names != recorded:
            await self._record_names(pod, names)
        if failure is not None:
            raise RetryLater(f"pod {pod.metadata.namespace}/{pod.metadata.name}") from failure
        if pod.spec.node_name and self._gates.has(classic.CONTROLLER_DEALLOCATES):
            await self._serve_placed_pod(pod)

    async def _claim_of(self, pod: Pod, entry: PodResourceClaim) -> str:
        """Return the name of the entry's claim, which is created if it does not exist."""
        namespace = pod.metadata.namespace
        fixed = fixed_name(pod, entry.name, self._gates)
        known = self._claims.store.get(namespace, fixed) if fixed else self._recorded_or_made(pod, entry.name)
        if known is None:
            return (await self._create(pod, entry, fixed)).metadata.name
        if not is_controlled_by(known, pod):
            raise CreationFailed(f"resource claim {known.metadata.name} already exists, but not owned by pod")
        return known.metadata.name

    def _recorded_or_made(self, pod: Pod, entry: str) -> v1alpha2.ResourceClaim | None:
        """Return the claim that the pod's status names, also while it is being deleted; else one made for the entry.

        A second claim beside a deleted one would hide the first from the end of the pod, and keep its reservation.
        """
        statuses = pod.status.resource_claim_statuses
        name = next((status.resource_claim_name for status in statuses if status.name == entry), None)
        recorded = self._claims.store.get(pod.metadata.namespace, name) if name else None
        if recorded is not None and is_controlled_by(recorded, pod):
            return recorded
        return self._made_for(pod, entry)

    def _made_for(self, pod: Pod, entry: str) -> v1alpha2.ResourceClaim | None:
        value = f"{pod.metadata.uid}/{entry}"
        claims = self._claims.store.by_index(_BY_OWNER_AND_ENTRY, value)
        return next((claim for claim in claims if claim.metadata.deletion_timestamp is None), None)

    async def _create(self, pod: Pod, entry: PodResourceClaim, fixed: str) -> v1alpha2.ResourceClaim:
        namespace = pod.metadata.namespace
        template_name = claim_source(entry).resource_claim_template_name or ""
        template = self._templates.store.get(namespace, template_name)
        if template is None:
            missing = not_found(GroupResource("resource.k8s.io", "resourceclaimtemplate"), template_name)
            raise CreationFailed(f'resource claim template "{template_name}": {missing}')
        claims = self._client.resource(CLAIMS, namespace)
        if not fixed:
            # The informer may lag behind a claim of our own: then it is found, not made twice.
            value = f"{pod.metadata.uid}/{entry.name}"
            page = await claims.list()
            for what in page.undecodable:
                if what.mentions(pod.metadata.uid):
                    raise CreationFailed(str(what))
            for claim in page.items:
                if value in _owner_and_entry(claim) and claim.metadata.deletion_timestamp is None:
                    return claim
        try:
            return await claims.create(claim_for(pod, entry.name, template, self._gates))
        except StatusError as error:
            if not error.is_already_exists:
                raise CreationFailed(f"create ResourceClaim {fixed}: {error}") from error
        return await claims.get(fixed)

    async def _record_names(self, pod: Pod, names: dict[str, str | None]) -> None:
        statuses = [{"name": entry, "resourceClaimName": name} for entry, name in sorted(names.items())]
        fields = {"metadata": {"uid": pod.metadata.uid}, "status": {"resourceClaimStatuses": statuses}}
        await self._applier.resource(PODS, pod.metadata.namespace).apply(pod.metadata.name, fields, "status")

    # Pods that did not come from the scheduler.

    async def _serve_placed_pod(self, pod: Pod) -> None:
        for entry in pod.spec.resource_claims:
            try:
                named = entry_claim(pod, entry)
            except PodClaimError:
                # The name is recorded by now, and the informer will show it.
                continue
            claim = self._claims.store.get(pod.metadata.namespace, named.name) if named is not None else None
            if claim is None or (named is not None and named.generated and not is_controlled_by(claim, pod)):
                continue
            if claim.status.allocation is not None:
                await self._reserve(claim, pod)
            elif claim.spec.allocation_mode != "Immediate":
                await ask_for_allocation(self._client, self._contexts.store, pod)

    async def _reserve(self, claim: v1alpha2.ResourceClaim, pod: Pod) -> None:
        status = claim.status
        if any(consumer.uid == pod.metadata.uid for consumer in status.reserved_for):
            return
        shareable = status.allocation is not None and status.allocation.shareable
        if (status.reserved_for and not shareable) or status.deallocation_requested:
            return
        consumer = v1alpha2.ResourceClaimConsumerReference(
            resource="pods", name=pod.metadata.name, uid=pod.metadata.uid
        )
        reserved = replace(status, reserved_for=(*status.reserved_for, consumer))
        await self._of(claim).update_status(replace(claim, status=reserved))

    # Claims.

    async def _sync_claim(self, claim: v1alpha2.ResourceClaim) -> None:
        status = claim.status
        needed = [consumer for consumer in status.reserved_for if await self._still_needs(claim, consumer)]
        if len(needed) < len(status.reserved_for):
            changed = replace(status, reserved_for=tuple(needed))
            ended = not needed and status.allocation is not None
            if ended and FINALIZER in claim.metadata.finalizers:
                changed = replace(changed, allocation=None, driver_name="", deallocation_requested=False)
            elif ended and self._takes_back(claim):
                changed = replace(changed, deallocation_requested=True)
            claim = await self._of(claim).update_status(replace(claim, status=changed))
        if FINALIZER in claim.metadata.finalizers and claim.status.allocation is None:
            finalizers = tuple(name for name in claim.metadata.finalizers if name != FINALIZER)
            claim = await self._of(claim).update(with_metadata(claim, finalizers=finalizers))
        if not needed and self._gates.has(classic.CONTROLLER_DEALLOCATES):
            await self._delete_if_owner_is_done(claim)

    def _takes_back(self, claim: v1alpha2.ResourceClaim) -> bool:
        """Return True if the driver must deallocate the claim after its last consumer, because it was allocated for
        one."""
        return self._gates.has(classic.CONTROLLER_DEALLOCATES) and claim.spec.allocation_mode != "Immediate"

    async def _still_needs(
        self, claim: v1alpha2.ResourceClaim, consumer: v1alpha2.ResourceClaimConsumerReference
    ) -> bool:
        if (consumer.api_group, consumer.resource) != ("", "pods"):
            return True
        if consumer.uid in self._deleted:
            return False
        what = self._pods.store.undecodable.get((claim.metadata.namespace, consumer.name))
        if what is not None:
            return what.uid in ("", consumer.uid)  # whether it is done with its claims is not known
        pod = self._pods.store.get(claim.metadata.namespace, consumer.name)
        if pod is None:
            try:
                pod = await self._client.resource(PODS, claim.metadata.namespace).get(consumer.name)
            except StatusError as error:
                if error.is_not_found:
                    return False
                raise
        if pod.metadata.uid != consumer.uid:
            return False
        return not (self._gates.has(classic.CONTROLLER_DEALLOCATES) and is_done_with_claims(pod))

    async def _delete_if_owner_is_done(self, claim: v1alpha2.ResourceClaim) -> None:
        owner = controller_of(claim)
        if owner is None or (owner.kind, owner.api_version) != ("Pod", "v1"):
            return
        pod = self._pods.store.get(claim.metadata.namespace, owner.name)
        if pod is None or pod.metadata.uid != owner.uid or not is_done_with_claims(pod):
            return
        try:
            await self._of(claim).delete(claim.metadata.name)
        except StatusError as error:
            if not error.is_not_found:
                raise

    def _of(self, claim: v1alpha2.ResourceClaim) -> ResourceClient[v1alpha2.ResourceClaim]:
        return self._client.resource(CLAIMS, claim.metadata.namespace)


def _owner_and_entry(claim: v1alpha2.ResourceClaim) -> Iterator[str]:
    entry = claim.metadata.annotations.get(POD_CLAIM_NAME)
    owner = controller_of(claim)
    if entry and owner is not None:
        yield f"{owner.uid}/{entry}"


def fixed_name(pod: Pod, entry: str, gates: FeatureGates) -> str:
    """Return the name of the entry's claim where pod and entry alone decide it, else ""."""
    return "" if gates.has(classic.GENERATED_CLAIM_NAMES) else f"{pod.metadata.name}-{entry}"


def claim_for(
    pod: Pod, entry: str, template: v1alpha2.ResourceClaimTemplate, gates: FeatureGates
) -> v1alpha2.ResourceClaim:
    """Return the claim to create."""
    name = fixed_name(pod, entry, gates)
    annotations = template.spec.metadata.annotations
    return v1alpha2.ResourceClaim(
        metadata=ObjectMeta(
            name=name,
            generate_name="" if name else generate_name(pod.metadata.name, entry),
            namespace=pod.metadata.namespace,
            labels=template.spec.metadata.labels,
            annotations=annotations if name else {**annotations, POD_CLAIM_NAME: entry},
            owner_references=(controller_reference(pod),),
        ),
        spec=template.spec.spec,
    )


async def ask_for_allocation(client: Client, known: Store[v1alpha2.PodSchedulingContext], pod: Pod) -> None:
    """Select the pod's node in its scheduling context, as the scheduler would have; ``known`` are all contexts.

    Raises:
        StatusError, ConnectionError: the server refused or cannot be reached.
    """
    namespace, node = pod.metadata.namespace, pod.spec.node_name
    contexts = client.resource(CONTEXTS, namespace)
    context = known.get(namespace, pod.metadata.name)
    if context is None:
        metadata = ObjectMeta(
            name=pod.metadata.name, namespace=namespace, owner_references=(controller_reference(pod),)
        )
        spec = v1alpha2.PodSchedulingContextSpec(selected_node=node)
        try:
            await contexts.create(v1alpha2.PodSchedulingContext(metadata=metadata, spec=spec))
        except StatusError as error:
            if not error.is_already_exists:
                raise
    elif is_controlled_by(context, pod) and context.spec.selected_node != node:
        await contexts.update(replace(context, spec=replace(context.spec, selected_node=node)))
