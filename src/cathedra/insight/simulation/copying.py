"""A copy of a cluster: a store that begins with the objects of a state, status and all."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import Any, Final

from msgspec import structs

from cathedra.api.core.apps_v1 import DaemonSet, Deployment, ReplicaSet, StatefulSet
from cathedra.api.core.batch_v1 import Job
from cathedra.api.core.core_v1 import (
    Container,
    ContainerState,
    ContainerStateRunning,
    ContainerStatus,
    Namespace,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    ObjectReference,
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeSpec,
    Pod,
    PodCondition,
    PodResourceClaim,
    PodSpec,
    PodStatus,
)
from cathedra.api.core.meta_v1 import KubeObject, LabelSelector, ObjectMeta
from cathedra.api.resource import ResourceClaim, ResourceSlice
from cathedra.api.status import StatusError
from cathedra.api.struct import Time, replace
from cathedra.apiserver.storage.protocol import MemoryStorage, Record, StoreContent
from cathedra.client.client import Client
from cathedra.client.informer import SharedInformers
from cathedra.client.resources import PERSISTENTVOLUMECLAIMS, PERSISTENTVOLUMES, PODS, STORAGECLASSES
from cathedra.client.transport import APICall, Transport
from cathedra.client.workqueue import WorkQueue, run_workers
from cathedra.clock import Clock
from cathedra.controllers.resourceclaim.release import FINALIZER
from cathedra.insight.reading.state import READ_KINDS, ClusterState
from cathedra.kinds.batch.jobs.strategy import with_selector
from cathedra.kinds.resource.claims.validation import ADMIN_LABEL, ADMIN_LABEL_OF_133
from cathedra.node.runtime.simulated import RUN_SECONDS
from cathedra.semantics.owners import controller_of
from cathedra.semantics.pods import is_terminal

__all__ = ["SimulatedNodes", "SimulatedVolumes", "StateStorage", "StateTransport", "complete"]


_UNKNOWN_TIME: Final = Time(0.0)
_SELECTED: Final = "simulated.cathedra.dev/workload"
"""Label by which workloads without a selector select their pods."""


class StateStorage(MemoryStorage):
    """Begins with the objects of a state, and remembers nothing else."""

    def __init__(self, state: ClusterState) -> None:
        self._state = state

    async def load(self) -> StoreContent:
        """Return the objects, each at a revision of its own."""
        records = list(self._records())
        return StoreContent(len(records), records)

    def _records(self) -> Iterator[Record]:
        revision = 0
        for kind in READ_KINDS:
            for one in self._state.all(kind.ref.type):
                revision += 1
                metadata = one.metadata
                parts = (metadata.namespace, metadata.name) if kind.ref.namespaced else (metadata.name,)
                # Each object has a revision of its own, as if it had been written alone: watches begin behind the last
                # one.
                # Dumps that were written by hand have no times, and every object of a server has one.
                numbered: Any = replace(
                    one,
                    metadata=replace(
                        metadata,
                        resource_version=str(revision),
                        creation_timestamp=metadata.creation_timestamp or _UNKNOWN_TIME,
                    ),
                )
                yield Record(f"/{kind.ref.group}/{kind.plural}/{'/'.join(parts)}", revision, b"", numbered)


class StateTransport:
    """The way to a server on a `StateStorage`, which cannot hold what cannot be decoded: lists show it beside the rest,
    and so it stays as long as the copy does."""

    def __init__(self, inner: Transport, state: ClusterState) -> None:
        self._inner = inner
        self._undecodable = state.undecodable

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    async def call(self, call: APICall) -> Any:
        """Carry out a call; a list also holds the objects that cannot be decoded."""
        answer = await self._inner.call(call)
        if call.verb != "list":
            return answer
        kind, namespace = call.ref.kind, call.namespace
        found = [one for one in self._undecodable if one.kind == kind and namespace in ("", one.namespace)]
        return structs.replace(answer, undecodable=tuple(found)) if found else answer


def complete(state: ClusterState, namespaces: Iterable[str] = ()) -> ClusterState:
    """Return the state with objects that dumps leave out and controllers would miss.

    Namespaces exist, ``namespaces`` too. Owner references to objects that were not read are removed, because the
    garbage collector would delete the owned objects. If pods were not read, every consumer of a claim is a running pod.
    Allocations that were written by hand get the finalizer and the node selector that the scheduler writes, and
    workloads a selector.
    """
    added: list[KubeObject] = []
    if not state.is_known(Pod):
        added += _consumers(state)
    known = state.is_known(Namespace)
    state = state.including([*added, *_written_allocations(state), *_selecting(state)])
    uids = {one.metadata.uid for items in state.objects.values() for one in items.values()}
    trimmed = [
        replace(one, metadata=replace(metadata, owner_references=kept))
        for items in state.objects.values()
        for one in items.values()
        if (metadata := one.metadata).owner_references
        and len(kept := tuple(owner for owner in metadata.owner_references if owner.uid in uids))
        < len(metadata.owner_references)
    ]
    names = {*namespaces, *(key[0] for items in state.objects.values() for key in items)} - {""}
    # Of a namespace that was not read, no label is known: claims with admin access are taken to be allowed there.
    unknown = {} if known else dict.fromkeys((ADMIN_LABEL, ADMIN_LABEL_OF_133), "true")
    added = [
        Namespace(metadata=ObjectMeta(name=name, labels={"kubernetes.io/metadata.name": name, **unknown}))
        for name in sorted(names)
        if state.get(Namespace, name) is None
    ]
    return state.including([*trimmed, *added])


def _selecting(state: ClusterState) -> Iterator[KubeObject]:
    """Yield workloads without a selector with one, and their pods with its labels.

    Every workload of a server has one. A controller that selects no pod would create pods for ever.
    """
    marked: dict[str, Mapping[str, str]] = {}
    for kind in (Job, ReplicaSet, StatefulSet, Deployment, DaemonSet):
        for one in state.all(kind):
            workload: Any = one
            selector = workload.spec.selector
            if isinstance(selector, LabelSelector) and (selector.match_labels or selector.match_expressions):
                continue
            made: Any = with_selector(one) if isinstance(one, Job) else _with_own_label(workload)
            marked[one.metadata.uid] = made.spec.selector.match_labels
            yield made
    for pod in state.pods if marked else ():
        owner = controller_of(pod)
        if owner is not None and owner.uid in marked:
            # A controller releases a pod that its selector does not match.
            labels = {**pod.metadata.labels, **marked[owner.uid]}
            yield replace(pod, metadata=replace(pod.metadata, labels=labels))


def _with_own_label(workload: Any) -> Any:
    own = {_SELECTED: workload.metadata.uid}
    template = workload.spec.template
    labels = {**template.metadata.labels, **own}
    template = replace(template, metadata=replace(template.metadata, labels=labels))
    return replace(workload, spec=replace(workload.spec, selector=LabelSelector(match_labels=own), template=template))


def _consumers(state: ClusterState) -> Iterator[Pod]:
    homes = {(piece.spec.driver, piece.spec.pool.name): piece.spec.node_name for piece in state.all(ResourceSlice)}
    for claim in state.all(ResourceClaim):
        allocation = claim.status.allocation
        results = allocation.devices.results if allocation is not None else ()
        node = next((home for one in results if (home := homes.get((one.driver, one.pool)))), "")
        for consumer in claim.status.reserved_for:
            if consumer.resource == "pods" and node:
                yield Pod(
                    metadata=ObjectMeta(name=consumer.name, namespace=claim.metadata.namespace, uid=consumer.uid),
                    spec=PodSpec(
                        node_name=node,
                        containers=(Container(name="unknown"),),
                        resource_claims=(PodResourceClaim(name="claim", resource_claim_name=claim.metadata.name),),
                    ),
                    status=PodStatus(phase="Running"),
                )


def _written_allocations(state: ClusterState) -> Iterator[ResourceClaim]:
    """Yield allocated claims with the finalizer and the node selector that they lack.

    Without the finalizer no controller frees a claim whose pod is gone, and without the node selector its next pod
    could run where the devices are not.
    """
    homes = {(piece.spec.driver, piece.spec.pool.name): piece.spec.node_name for piece in state.all(ResourceSlice)}
    for claim in state.all(ResourceClaim):
        allocation = claim.status.allocation
        if allocation is None or FINALIZER in claim.metadata.finalizers:
            continue
        metadata = replace(claim.metadata, finalizers=(*claim.metadata.finalizers, FINALIZER))
        nodes = {homes.get((one.driver, one.pool)) or "" for one in allocation.devices.results} - {""}
        if allocation.node_selector is None and len(nodes) == 1:
            field = NodeSelectorRequirement(key="metadata.name", operator="In", values=(*nodes,))
            term = NodeSelectorTerm(match_fields=(field,))
            allocation = replace(allocation, node_selector=NodeSelector(node_selector_terms=(term,)))
        yield replace(claim, metadata=metadata, status=replace(claim.status, allocation=allocation))


# --- pretended nodes


_CONDITIONS = ("PodReadyToStartContainers", "Initialized", "ContainersReady", "Ready")
_WORKERS: Final = 16
"""Pods that are started or ended at the same time: as many as the scheduler tries in two turns of the event loop."""


class SimulatedNodes:
    """The kubelets of all nodes. `run` until cancelled.

    They work at the same time, as on machines of their own. One pod after the other would bring each status to the
    controllers in a turn of its own, and a replica set of a thousand pods would be counted a thousand times.
    """

    def __init__(self, client: Client, informers: SharedInformers, clock: Clock) -> None:
        self._client = client
        self._clock = clock
        self._pods = informers.of(PODS)
        self._queue: WorkQueue[tuple[str, str]] = WorkQueue(clock)

    async def run(self) -> None:
        """Follow pods until cancelled."""
        self._pods.add_handler(self._note, lambda _, pod: self._note(pod))
        async with asyncio.TaskGroup() as group:
            group.create_task(run_workers(self._queue, partial(self._reconcile, group), workers=_WORKERS))

    def _note(self, pod: Pod) -> None:
        if pod.spec.node_name and (pod.metadata.deletion_timestamp is not None or pod.status.phase in ("", "Pending")):
            self._queue.add((pod.metadata.namespace, pod.metadata.name))

    async def _reconcile(self, group: asyncio.TaskGroup, key: tuple[str, str]) -> None:
        pod = self._pods.store.get(*key)
        if pod is None:
            return
        with contextlib.suppress(StatusError):  # it has changed meanwhile, and its event follows
            if pod.metadata.deletion_timestamp is not None:
                await self._end(pod)
            elif pod.status.phase in ("", "Pending"):
                await self._start(pod)
                seconds = pod.metadata.annotations.get(RUN_SECONDS)
                if seconds is not None:
                    group.create_task(self._finish(pod, float(seconds)))

    async def _end(self, pod: Pod) -> None:
        pods = self._client.resource(PODS, pod.metadata.namespace)
        await pods.delete(pod.metadata.name, grace_period_seconds=0, uid=pod.metadata.uid)

    async def _start(self, pod: Pod) -> None:
        now = Time(self._clock.now())
        others = tuple(one for one in pod.status.conditions if one.type not in _CONDITIONS)
        conditions = tuple(PodCondition(type=name, status="True", last_transition_time=now) for name in _CONDITIONS)
        containers = tuple(
            ContainerStatus(
                name=one.name,
                ready=True,
                started=True,
                state=ContainerState(running=ContainerStateRunning(started_at=now)),
            )
            for one in pod.spec.containers
        )
        await self._write(
            pod,
            replace(
                pod.status,
                phase="Running",
                start_time=now,
                conditions=(*others, *conditions),
                container_statuses=containers,
            ),
        )

    async def _finish(self, pod: Pod, seconds: float) -> None:
        await self._clock.sleep(seconds)
        known = self._pods.store.get(pod.metadata.namespace, pod.metadata.name)
        if known is None or known.metadata.uid != pod.metadata.uid or is_terminal(known):
            return
        with contextlib.suppress(StatusError):  # it was deleted in this moment
            await self._write(known, replace(known.status, phase="Succeeded"))

    async def _write(self, pod: Pod, status: PodStatus) -> None:
        await self._client.resource(PODS, pod.metadata.namespace).update_status(replace(pod, status=status))


# --- pretended volumes


_BOUND: Final = {"pv.kubernetes.io/bind-completed": "yes"}


class SimulatedVolumes:
    """The provisioners of all storage classes: claims that the simulation creates are bound at once. `run` until
    cancelled.

    Claims that waited before stay as they are, because their provisioner has not bound them either.
    """

    def __init__(self, client: Client, informers: SharedInformers, state: ClusterState) -> None:
        self._client = client
        self._classes = informers.of(STORAGECLASSES).store
        self._waited = {claim.metadata.uid for claim in state.all(PersistentVolumeClaim)}
        self._queue: asyncio.Queue[PersistentVolumeClaim] = asyncio.Queue()
        informers.of(PERSISTENTVOLUMECLAIMS).add_handler(self._queue.put_nowait)

    async def run(self) -> None:
        """Follow claims until cancelled."""
        while True:
            claim = await self._queue.get()
            if claim.spec.volume_name or claim.metadata.uid in self._waited:
                continue
            # Admission has set the default class.
            found = self._classes.get("", claim.spec.storage_class_name or "")
            if found is None or found.volume_binding_mode == "WaitForFirstConsumer":
                continue
            if found.provisioner not in ("", "kubernetes.io/no-provisioner"):
                with contextlib.suppress(StatusError):  # it has changed meanwhile
                    await self._bind(claim, found.metadata.name)

    async def _bind(self, claim: PersistentVolumeClaim, class_name: str) -> None:
        metadata, spec = claim.metadata, claim.spec
        owner = ObjectReference(
            kind="PersistentVolumeClaim", namespace=metadata.namespace, name=metadata.name, uid=metadata.uid
        )
        volume = PersistentVolume(
            metadata=ObjectMeta(name=f"pvc-{metadata.uid}"),
            spec=PersistentVolumeSpec(
                capacity=spec.resources.requests,
                access_modes=spec.access_modes,
                storage_class_name=class_name,
                claim_ref=owner,
            ),
        )
        await self._client.resource(PERSISTENTVOLUMES).create(volume)
        annotations = {**(metadata.annotations or {}), **_BOUND}
        bound = replace(
            claim,
            metadata=replace(metadata, annotations=annotations),
            spec=replace(spec, volume_name=volume.metadata.name, storage_class_name=class_name),
        )
        claims = self._client.resource(PERSISTENTVOLUMECLAIMS, metadata.namespace)
        changed = await claims.update(bound)
        await claims.update_status(replace(changed, status=replace(changed.status, phase="Bound")))
