"""Library for the controllers of classic drivers: subclass `ClassicDriver`, and run a `ClassicController` with it.

    from cathedra.classic.controller import Allocation, ClassicController, ClassicDriver

    class Cards(ClassicDriver):
        async def allocate(self, claims, selected_node): ...

    await ClassicController(client, "cards.example.com", Cards(), clock=SystemClock()).run()

Claims and scheduling contexts are watched; finalizers, reservations and retries are handled (docs/spec/driver-sdk.md
§16). `NegotiatingController` is for all releases, `ClassicController` for 1.26 to 1.30.

A claim to be allocated first gets the driver's finalizer; then the driver is called, and then its result is written. An
allocation is therefore never lost, whichever process dies in between: the claim cannot be deleted, and the driver is
called again (docs/spec/driver-sdk.md §16.3; docs/spec/scheduling.md §18.3).

In 1.26 to 1.30 a claim's class names the driver, and the parameters are fetched before the driver is called. A claim
that does not wait for a pod is allocated when it is created.
"""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final, Generic, Literal, NamedTuple, TypeVar

from cathedra.api.core import resource_v1alpha2 as v1alpha2
from cathedra.api.core.core_v1 import Pod
from cathedra.api.core.meta_v1 import KubeObject
from cathedra.api.status import StatusError
from cathedra.api.struct import replace
from cathedra.classic.anyclaim import C, consumer_of
from cathedra.classic.resources import CLAIMS, CLASSES, CONTEXTS, classic_client
from cathedra.client.client import Client, ResourceClient
from cathedra.client.events import EventRecorder
from cathedra.client.informer import Informer, SharedInformers
from cathedra.client.objects import with_metadata
from cathedra.client.resources import PODS
from cathedra.client.transport import ResourceRef
from cathedra.client.workqueue import RetryLater, WorkQueue, run_workers
from cathedra.clock import Clock
from cathedra.semantics.owners import is_controlled_by
from cathedra.semantics.podclaims import NotOwner, PodClaimError, check_owner, entry_claim

__all__ = ["Allocation", "ClaimAllocation", "ClassicController", "ClassicDriver"]

RECHECK_SECONDS: Final = 30.0
"""Seconds after which a scheduling context is reconciled again, because its answers can become outdated."""


WORKERS: Final = 10


MAX_NODES: Final = 128


_LOG: Final = logging.getLogger(__name__)


class SchedulingKey(NamedTuple):
    """The object to reconcile."""

    kind: Literal["claim", "schedulingCtx"]
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind}:{self.namespace}/{self.name}"


Allocation = v1alpha2.AllocationResult
"""Allocation of a claim: handles for node plugins, the nodes that can use it, and whether pods may share it."""


@dataclass(slots=True)
class WantedClaim(Generic[C]):
    """One claim on its way to its allocation; the driver fills in the last three fields."""

    claim: C
    pod_claim_name: str = field(default="", kw_only=True)
    """Name of the pod's entry, or "" without a pod."""
    unsuitable_nodes: list[str] = field(default_factory=list, kw_only=True)
    allocation: Any = field(default=None, kw_only=True)
    error: Exception | None = field(default=None, kw_only=True)


W = TypeVar("W", bound=WantedClaim[Any])


class AllocatingDriver(ABC, Generic[C, W]):
    """Decides for one kind of resources. All methods may be called again with the same arguments."""

    @abstractmethod
    async def allocate(self, claims: Sequence[W], selected_node: str) -> None:
        """Give each claim an allocation that can be used on the node, or an error.

        ``selected_node`` is "" for claims that are allocated at once: then the driver chooses.
        """

    @abstractmethod
    async def deallocate(self, claim: C) -> None:
        """Deallocate the claim if it is allocated, and end an allocation in progress."""

    @abstractmethod
    async def unsuitable_nodes(self, pod: Pod, claims: Sequence[W], potential_nodes: list[str]) -> None:
        """Enter, for each claim, the nodes where it cannot be allocated together with the pod's others."""


@dataclass(slots=True)
class ClaimAllocation(WantedClaim[v1alpha2.ResourceClaim]):
    """A claim of 1.26 to 1.30, with its class and parameters."""

    resource_class: v1alpha2.ResourceClass
    claim_parameters: Any = None
    """Result of `ClassicDriver.get_claim_parameters` for the claim."""
    class_parameters: Any = None
    """Result of `ClassicDriver.get_class_parameters` for its class."""


class ClassicDriver(AllocatingDriver[v1alpha2.ResourceClaim, ClaimAllocation]):
    """A driver of 1.26 to 1.30: classes and claims may refer to parameters in kinds of its own."""

    async def get_class_parameters(self, resource_class: v1alpha2.ResourceClass) -> Any:
        """Return the class's parameters, fetched and checked; whatever is raised is shown to the user."""
        return None

    async def get_claim_parameters(
        self, claim: v1alpha2.ResourceClaim, resource_class: v1alpha2.ResourceClass, class_parameters: Any
    ) -> Any:
        """Return the claim's parameters, fetched and checked; whatever is raised is shown to the user."""
        return None


class NegotiatingController(ABC, Generic[C, W]):
    """The controller of one driver: `run` until cancelled. A subclass has the claims of a release."""

    resource: ClassVar[ResourceRef[Any]]
    """The resource of the claims."""

    def __init__(
        self,
        client: Client,
        name: str,
        driver: AllocatingDriver[C, W],
        *,
        clock: Clock,
        reserves: bool,
        workers: int,
    ) -> None:
        """``name`` is the driver's; ``reserves``: allocated claims are reserved for their pod."""
        self.name = name
        self.finalizer = f"{name}/deletion-protection"
        self._driver = driver
        self._reserves = reserves
        self._workers = workers
        self._client = client
        self._recorder = EventRecorder(client, f"resource driver {name}", clock)
        self._informers = SharedInformers(client, clock)
        self._claims: Informer[Any] = self._informers.of(self.resource)
        self._contexts = self._informers.of(CONTEXTS)
        self._queue: WorkQueue[SchedulingKey] = WorkQueue(clock)
        self._claims.add_handler(self._claim_changed, lambda _, claim: self._claim_changed(claim))
        self._contexts.add_handler(self._context_changed, lambda _, context: self._context_changed(context))

    # --- differences between releases

    @abstractmethod
    async def wanted(self, pod: Pod, claim: C) -> W | None:
        """Return the unallocated claim with everything that the driver needs. Return None if it belongs to another
        driver.

        Raises:
            RetryLater: something is missing. An event reports it to the user.
        """

    @abstractmethod
    def allocated(self, wanted: W) -> C:
        """Return the claim with the driver's allocation, recorded as this driver's."""

    @abstractmethod
    def emptied(self, claim: C) -> C:
        """Return the claim without allocation, and without the request for that."""

    async def allocate_at_once(self, claim: C) -> None:
        """Allocate a claim that waits for no pod, where a release has such claims."""

    async def run(self) -> None:
        """Reconcile claims until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._recorder.run())
            group.create_task(self._informers.run())
            # Workers start with complete stores. With a partial one a claim would look unallocated whose allocation has
            # just not arrived, and the driver would be called for it twice.
            await self._informers.wait_synced()
            group.create_task(run_workers(self._queue, self._reconcile, workers=self._workers))

    def _claim_changed(self, claim: C) -> None:
        self._queue.add(SchedulingKey("claim", claim.metadata.namespace, claim.metadata.name))

    def _context_changed(self, context: v1alpha2.PodSchedulingContext) -> None:
        self._queue.add(SchedulingKey("schedulingCtx", context.metadata.namespace, context.metadata.name))

    async def _reconcile(self, key: SchedulingKey) -> float | None:
        if key.kind == "claim":
            claim = self._claims.store.get(key.namespace, key.name)
            if claim is not None:
                await self._sync_claim(claim)
            return None
        context = self._contexts.store.get(key.namespace, key.name)
        return None if context is None else await self._sync_context(context)

    # --- claims

    async def _sync_claim(self, claim: C) -> None:
        status = claim.status
        # A consumer may be running. Its claim is neither deallocated nor allocated anew, whatever else its status
        # requests.
        if status.reserved_for:
            return
        if claim.metadata.deletion_timestamp is not None or status.deallocation_requested:
            await self._take_back(claim)
            return
        if status.allocation is None:
            await self.allocate_at_once(claim)

    async def _take_back(self, claim: C) -> None:
        if self.finalizer not in claim.metadata.finalizers:
            return
        try:
            # Also for a claim without allocation: one may be under way.
            await self._driver.deallocate(claim)
        except Exception as error:
            raise self.report_failure(claim, RuntimeError(f"deallocate: {error}")) from error
        if claim.status.allocation is not None:
            # Status first, finalizer last: without the finalizer the claim may be deleted at once, and a failed status
            # would then never be retried.
            claim = await self._of(claim).update_status(self.emptied(claim))
        finalizers = tuple(name for name in claim.metadata.finalizers if name != self.finalizer)
        await self._of(claim).update(with_metadata(claim, finalizers=finalizers))

    async def allocate(self, claims: Sequence[W], node: str, pod: Pod | None) -> None:
        """Have claims allocated; what could not be done is in their ``error``."""
        open_claims = [wanted for wanted in claims if wanted.claim.status.allocation is None]
        for wanted in open_claims:
            if self.finalizer in wanted.claim.metadata.finalizers:
                continue
            # The finalizer is written before the driver is called. If we die between allocation and status, the claim
            # cannot vanish with the driver still holding its resource: `_take_back` finds the finalizer and
            # deallocates.
            finalizers = (*wanted.claim.metadata.finalizers, self.finalizer)
            try:
                wanted.claim = await self._of(wanted.claim).update(with_metadata(wanted.claim, finalizers=finalizers))
            except StatusError as error:
                wanted.error = RuntimeError(f"add finalizer: {error}")
        ready = [wanted for wanted in open_claims if wanted.error is None]
        if not ready:
            return
        await self._driver.allocate(ready, node)
        for wanted in ready:
            if wanted.error is None and wanted.allocation is None:
                wanted.error = RuntimeError("allocating claim: missing allocation from driver")
            if wanted.error is None:
                await self._write_allocation(wanted, pod)

    async def _write_allocation(self, wanted: W, pod: Pod | None) -> None:
        claim: C = self.allocated(wanted)
        if pod is not None and self._reserves:
            status = claim.status
            claim = replace(claim, status=replace(status, reserved_for=(*status.reserved_for, consumer_of(claim, pod))))
        try:
            wanted.claim = await self._of(claim).update_status(claim)
        except StatusError as error:
            wanted.error = RuntimeError(f"updating resource claim status: {error}")

    # --- scheduling contexts

    async def _sync_context(self, context: v1alpha2.PodSchedulingContext) -> float | None:
        spec = context.spec
        if context.metadata.deletion_timestamp is not None or not (spec.selected_node or spec.potential_nodes):
            return None
        pod = await self._pod_of(context)
        if pod is None:
            return None
        pending = await self._pending(pod)
        if not pending:
            return RECHECK_SECONDS
        if spec.potential_nodes:
            nodes = list(spec.potential_nodes)
            if spec.selected_node and spec.selected_node not in nodes:
                nodes.append(spec.selected_node)
            try:
                await self._driver.unsuitable_nodes(pod, pending, nodes)
            except Exception as error:
                raise self.report_failure(context, RuntimeError(f"checking potential nodes: {error}")) from error
        node = spec.selected_node
        if node and all(node not in wanted.unsuitable_nodes for wanted in pending):
            await self.allocate(pending, node, pod)
            failed = [wanted for wanted in pending if wanted.error is not None]
            if failed:
                text = "; ".join(f"claim {wanted.claim.metadata.name}: {wanted.error}" for wanted in failed)
                raise self.report_failure(context, RuntimeError(text)) from failed[0].error
        await self._write_unsuitable(context, pending)
        return RECHECK_SECONDS

    async def _pod_of(self, context: v1alpha2.PodSchedulingContext) -> Pod | None:
        """Return the negotiation's pod; None if it is gone, being deleted, or not the owner of ``context``."""
        try:
            pod = await self._client.resource(PODS, context.metadata.namespace).get(context.metadata.name)
        except StatusError as error:
            if error.is_not_found:
                return None
            raise
        if pod.metadata.deletion_timestamp is not None or not is_controlled_by(context, pod):
            return None
        return pod

    async def _pending(self, pod: Pod) -> list[W]:
        """Return the pod's claims that this driver has yet to allocate."""
        found: list[W] = []
        for entry in pod.spec.resource_claims:
            try:
                named = entry_claim(pod, entry)
            except PodClaimError:
                # Not made yet; its making comes with a change of the context or with the next look.
                continue
            claim = self._claims.store.get(pod.metadata.namespace, named.name) if named is not None else None
            if named is None or claim is None:
                continue
            if named.generated:
                try:
                    check_owner(claim, pod, "")
                except NotOwner as error:
                    raise self.report_failure(pod, error) from error
            wanted = await self.wanted(pod, claim) if claim.status.allocation is None else None
            if wanted is not None:
                wanted.pod_claim_name = entry.name
                found.append(wanted)
        return found

    async def _write_unsuitable(self, context: v1alpha2.PodSchedulingContext, pending: Sequence[W]) -> None:
        statuses = {status.name: status for status in context.status.resource_claims}
        for wanted in pending:
            statuses[wanted.pod_claim_name] = v1alpha2.ResourceClaimSchedulingStatus(
                name=wanted.pod_claim_name,
                unsuitable_nodes=_shortened(wanted.unsuitable_nodes, context.spec.selected_node),
            )
        changed = tuple(statuses.values())
        if changed == context.status.resource_claims:
            return
        status = v1alpha2.PodSchedulingContextStatus(resource_claims=changed)
        contexts = self._client.resource(CONTEXTS, context.metadata.namespace)
        await contexts.update_status(replace(context, status=status))

    # --- both

    def report_failure(self, involved: KubeObject, error: Exception) -> RetryLater:
        """Log the error, record it as an event, and return the exception that makes the controller retry."""
        _LOG.warning("%s %s/%s: %s", self.name, involved.metadata.namespace, involved.metadata.name, error)
        self._recorder.record(involved, "Warning", "Failed", str(error))
        return RetryLater(str(error))

    def _of(self, claim: C) -> ResourceClient[Any]:
        return self._client.resource(self.resource, claim.metadata.namespace)


def _shortened(nodes: Sequence[str], selected: str) -> tuple[str, ...]:
    """At most as many nodes as the API takes; the selected one stays."""
    if len(nodes) <= MAX_NODES:
        return tuple(nodes)
    if selected in nodes[MAX_NODES:]:
        # The scheduler waits for the verdict about the selected node. If the limit cut it off, the pod would wait
        # forever.
        return (*nodes[: MAX_NODES - 1], selected)
    return tuple(nodes[:MAX_NODES])


class ClassicController(NegotiatingController[v1alpha2.ResourceClaim, ClaimAllocation]):
    """The controller of one driver: `run` until cancelled."""

    resource = CLAIMS

    def __init__(
        self,
        client: Client,
        name: str,
        driver: ClassicDriver,
        *,
        clock: Clock,
        reserves: bool = True,
        workers: int = WORKERS,
    ) -> None:
        """``name`` is the driver's, as classes have it; ``reserves``: allocated claims are reserved for their pod."""
        super().__init__(classic_client(client), name, driver, clock=clock, reserves=reserves, workers=workers)
        self._parameters = driver
        self._classes = self._informers.of(CLASSES)

    async def allocate_at_once(self, claim: v1alpha2.ResourceClaim) -> None:
        """Allocate a claim of the mode Immediate."""
        if claim.spec.allocation_mode != "Immediate":
            return
        resource_class = self._class_of(claim)
        if resource_class is None:
            raise RetryLater(f"{claim.metadata.name}: class {claim.spec.resource_class_name} not found")
        if resource_class.driver_name != self.name:
            return
        try:
            wanted = await self._with_parameters(claim, resource_class)
        except Exception as error:
            raise self.report_failure(claim, error) from error
        await self.allocate([wanted], "", None)
        if wanted.error is not None:
            raise self.report_failure(claim, wanted.error) from wanted.error

    async def wanted(self, pod: Pod, claim: v1alpha2.ResourceClaim) -> ClaimAllocation | None:
        """Return the claim with its parameters, if its class is this driver's and it waits for its pod."""
        if claim.spec.allocation_mode == "Immediate":
            return None
        resource_class = self._class_of(claim)
        if resource_class is None or resource_class.driver_name != self.name:
            return None
        try:
            return await self._with_parameters(claim, resource_class)
        except Exception as error:
            self.report_failure(claim, error)
            raise self.report_failure(pod, RuntimeError(f"claim {claim.metadata.name}: {error}")) from error

    def allocated(self, wanted: ClaimAllocation) -> v1alpha2.ResourceClaim:
        """Return the claim with its allocation, in the driver's name."""
        claim = wanted.claim
        return replace(claim, status=replace(claim.status, allocation=wanted.allocation, driver_name=self.name))

    def emptied(self, claim: v1alpha2.ResourceClaim) -> v1alpha2.ResourceClaim:
        """Return the claim without allocation and driver."""
        status = replace(claim.status, allocation=None, driver_name="", deallocation_requested=False)
        return replace(claim, status=status)

    def _class_of(self, claim: v1alpha2.ResourceClaim) -> v1alpha2.ResourceClass | None:
        return self._classes.store.get("", claim.spec.resource_class_name)

    async def _with_parameters(
        self, claim: v1alpha2.ResourceClaim, resource_class: v1alpha2.ResourceClass
    ) -> ClaimAllocation:
        of_class = await self._parameters.get_class_parameters(resource_class)
        of_claim = await self._parameters.get_claim_parameters(claim, resource_class, of_class)
        return ClaimAllocation(claim, resource_class, of_claim, of_class)
