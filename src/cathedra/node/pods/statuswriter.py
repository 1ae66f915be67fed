"""A pod's status: computed from the state of its containers, and written whenever it has changed.

docs/spec/node.md §17.5 to §17.7 and §17.9. Only this node writes the status, but others change the object's metadata
and conditions; after a conflict the write is repeated on top of their changes. `pod_status` is a pure function: it
keeps the conditions of others, and changes a condition's transition time only with its status.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import msgspec

from cathedra.api.core.core_v1 import (
    ContainerState,
    ContainerStateRunning,
    ContainerStateTerminated,
    ContainerStateWaiting,
    ContainerStatus,
    HostIP,
    Pod,
    PodCondition,
    PodIP,
    PodStatus,
    ResourceRequirements,
    ResourceStatus,
)
from cathedra.api.status import StatusError
from cathedra.api.struct import Time, replace
from cathedra.api.undecodable import UndecodableObject
from cathedra.client.client import ResourceClient
from cathedra.client.resources import PODS
from cathedra.node.containers.records import ContainerRecord, ContainerTable, initialized, of_kind, will_restart
from cathedra.node.pods.admission import Rejection
from cathedra.node.pods.context import PodContext
from cathedra.node.pods.lifecycle import PodLifecycle
from cathedra.node.pods.podobject import PodObject
from cathedra.node.pods.resizer import PodResizer
from cathedra.node.resources import as_quantities, pod_requirements, taken_by_claims
from cathedra.node.runtime.runtime import ContainerRun
from cathedra.node.setup.launch import identity_of
from cathedra.releases import behaviours
from cathedra.semantics.conditions import find_condition, is_true, keep_transition_time
from cathedra.semantics.pods import is_terminal

_CONFLICTS: Final = 5
_LOG = logging.getLogger(__name__)


class StatusWriter:
    """Writes the status of one pod, and in the end that its deletion may be completed."""

    __slots__ = ("_containers", "_context", "_life", "_object", "_resizer")

    def __init__(
        self,
        pod: PodObject,
        life: PodLifecycle,
        containers: ContainerTable,
        context: PodContext,
        resizer: PodResizer,
    ) -> None:
        self._object = pod
        self._life = life
        self._containers = containers
        self._context = context
        self._resizer = resizer

    async def publish(self, *, final: bool = False) -> bool:
        """Write the status if it has changed. Return True if the API server has the current status.

        ``final``: the pod has ended and released everything, so its phase becomes terminal.
        """
        return await self._write(lambda: self._status(final=final))

    async def publish_rejection(self, rejection: Rejection) -> bool:
        """Write that the node does not take the pod; whether the API server now has it."""
        return await self._write(lambda: rejected_status(self._object.pod, self._context.clock.now(), rejection))

    async def confirm_deletion(self) -> bool:
        """Delete the object of a pod that has ended. Return True if it no longer exists."""
        metadata = self._object.pod.metadata
        try:
            # With the UID: a StatefulSet may have created the next pod of that name, which must not be deleted.
            await self._pods.delete(metadata.name, grace_period_seconds=0, uid=metadata.uid)
        except UndecodableObject:
            _LOG.debug("pod %s: its deletion was answered with what cannot be decoded", identity_of(self._object.pod))
        except StatusError as error:
            # Conflict: another pod of the same name exists already (the uid differs), so this one is gone.
            if error.is_not_found or error.is_conflict:
                return True
            _LOG.warning("pod %s cannot be deleted: %s", identity_of(self._object.pod), error)
        except ConnectionError:
            _LOG.info("pod %s cannot be deleted now: no connection", identity_of(self._object.pod))
        return False

    @property
    def _pods(self) -> ResourceClient[Pod]:
        return self._context.client.resource(PODS, self._object.pod.metadata.namespace)

    async def _write(self, make: Callable[[], PodStatus]) -> bool:
        # A terminal phase is final: a later write would revive a pod that controllers have counted.
        if self._object.gone or is_terminal(self._object.pod):
            return True
        for _ in range(_CONFLICTS):
            # Made again after each conflict: `_refresh` may have changed the pod from which it is computed.
            status, pod = make(), self._object.pod
            # An unchanged status is not written: each write is an event for every watcher of pods.
            if status == pod.status:
                return True
            try:
                self._object.note_written(await self._pods.update_status(replace(pod, status=status)))
            except UndecodableObject as error:
                # It was written, on top of a pod that can still not be decoded.
                self._object.note_written(replace(pod, status=status))
                self._object.offer_undecodable(error.what)
                return True
            except StatusError as error:
                if error.is_not_found:
                    return True
                # After a conflict the status is computed again from the newer pod. Sending the old one would undo
                # conditions of other writers.
                if not error.is_conflict or not await self._refresh():
                    _LOG.warning("status of pod %s cannot be written: %s", identity_of(pod), error)
                    return False
            except ConnectionError:
                return False
            else:
                return True
        return False

    async def _refresh(self) -> bool:
        """Read what was written elsewhere; whether that is known now."""
        try:
            self._object.offer(await self._pods.get(self._object.pod.metadata.name))
        except UndecodableObject as error:
            self._object.offer_undecodable(error.what)
        except StatusError as error:
            if error.is_not_found:
                self._object.note_gone()
            return error.is_not_found
        except ConnectionError:
            return False
        return True

    def _status(self, *, final: bool) -> PodStatus:
        context, life = self._context, self._life
        view = PodView(
            now=context.clock.now(),
            runtime=context.runtime.name,
            host_ip=context.config.address,
            pod_ip=life.address or context.config.address,
            started_at=life.started_at,
            sandbox=life.set_up,
            final=final,
            stopping=life.stopping,
            failure=life.failure,
            resources=self._last_health() if final else self._health(),
            granted={record.name: self._resizer.grants.resources(record.container) for record in self._containers.all},
            applied=self._resizer.applied,
            whole=self._whole(),
            resize=self._resizer.conditions,
        )
        return pod_status(self._object.pod, self._containers.all, view)

    def _whole(self) -> ResourceRequirements | None:
        """Return the pod-level resources: of pods that state them (1.36), or whose claims use the node's (1.37)."""
        pod, gates = self._object.pod, self._context.gates
        stated = pod.spec.resources is not None and gates.has(behaviours.POD_LEVEL_RESIZE)
        if not self._life.set_up or not (
            stated or (taken_by_claims(pod, gates) and gates.has(behaviours.CLAIMS_TAKE_FOR_PODS))
        ):
            return None
        requests, limits = pod_requirements(self._resizer.grants.of(pod), gates)
        return ResourceRequirements(requests=as_quantities(requests), limits=as_quantities(limits))

    def _health(self) -> dict[str, tuple[ResourceStatus, ...]]:
        context, pod = self._context, self._object.pod
        return {
            record.name: context.device_health(pod, record.container)
            for record in self._containers.all
            if not record.init or (record.sidecar and context.config.report_sidecar_health)
        }

    def _last_health(self) -> dict[str, tuple[ResourceStatus, ...]]:
        """Return the last written health: after its end a pod no longer uses its devices."""
        status = self._object.pod.status
        every = (*status.init_container_statuses, *status.container_statuses)
        return {one.name: one.allocated_resources_status for one in every}


_OWNED: Final = frozenset(
    {"PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodResizePending", "PodResizeInProgress"}
)
_LOST: Final = "The container could not be located when the pod was terminated"


class PodView(msgspec.Struct, frozen=True):
    """Inputs of a status besides pod and containers; ``now`` is in seconds since the epoch."""

    now: float
    runtime: str
    host_ip: str
    pod_ip: str = ""
    started_at: float | None = None
    sandbox: bool = False
    final: bool = False
    """True if the pod has ended and released everything: the phase becomes terminal."""
    stopping: bool = False
    """True if the pod is terminating: nothing of it is ready."""
    failure: tuple[str, str] | None = None
    """Reason and message of a pod that ran into its deadline: it fails."""
    resources: Mapping[str, tuple[ResourceStatus, ...]] = msgspec.field(default_factory=dict)
    """Health of devices by container."""
    granted: Mapping[str, ResourceRequirements] = msgspec.field(default_factory=dict)
    """Granted resources by container name."""
    applied: Mapping[str, ResourceRequirements] = msgspec.field(default_factory=dict)
    """Applied resources, of containers where they differ from the granted ones."""
    whole: ResourceRequirements | None = None
    """Granted resources of the whole pod, including those of its claims; None: not reported."""
    resize: tuple[PodCondition, ...] = ()
    """Conditions of a resize that is not done."""


def pod_status(pod: Pod, records: Sequence[ContainerRecord], view: PodView) -> PodStatus:
    """Return the pod's status; fields of others are taken over from ``pod``."""
    old = pod.status
    init = tuple(_container_status(pod, record, view, records) for record in of_kind(records, init=True))
    regular = tuple(_container_status(pod, record, view, records) for record in of_kind(records, init=False))
    ephemeral = tuple(_container_status(pod, record, view, records) for record in records if record.ephemeral)
    phase = _phase(pod, records, view)
    addresses = view.sandbox and view.pod_ip
    # Set once. activeDeadlineSeconds counts from it, also after a restart of the agent.
    started = old.start_time or (Time(view.started_at) if view.started_at is not None else None)
    # The reason of an eviction was written by a controller, and stays.
    reason, message = view.failure or (old.reason, old.message)
    return replace(
        old,
        phase=phase,
        reason=reason,
        message=message,
        conditions=_conditions(pod, records, (*init, *regular), phase, view),
        host_ip=view.host_ip,
        host_ips=(HostIP(ip=view.host_ip),),
        pod_ip=view.pod_ip if addresses else old.pod_ip,
        pod_ips=(PodIP(ip=view.pod_ip),) if addresses else old.pod_ips,
        start_time=started,
        init_container_statuses=init,
        container_statuses=regular,
        ephemeral_container_statuses=ephemeral,
        observed_generation=pod.metadata.generation,
        allocated_resources=view.whole.requests if view.whole is not None else old.allocated_resources,
        # What is not known is kept: another agent of the node may have written it before a restart.
        resources=view.whole if view.whole is not None else old.resources,
    )


def rejected_status(pod: Pod, now: float, rejection: Rejection) -> PodStatus:
    """Return the status of a pod that the node does not take: it has failed, and nothing of it was ever there."""
    return replace(
        pod.status,
        phase="Failed",
        reason=rejection.reason,
        message=f"Pod was rejected: {rejection.message}",
        start_time=pod.status.start_time or Time(now),
        observed_generation=pod.metadata.generation,
    )


def _phase(pod: Pod, records: Sequence[ContainerRecord], view: PodView) -> str:
    if is_terminal(pod):
        return pod.status.phase
    regular = of_kind(records, init=False)
    if view.final:
        if view.failure is not None:
            return "Failed"
        ended = [record.ended for record in regular]
        # A container that never ran counts as failed, as in the kubelet.
        good = all(state is not None and state.exit_code == 0 for state in ended)
        return "Succeeded" if good else "Failed"
    begun = initialized(records) and all(record.current is not None or record.attempt for record in regular)
    return "Running" if begun else "Pending"


def _container_status(
    pod: Pod, record: ContainerRecord, view: PodView, records: Sequence[ContainerRecord]
) -> ContainerStatus:
    state, last = _states(pod, record, view, records)
    ended = record.ended
    # A terminating pod is not ready from the first moment, so that endpoints stop sending requests before it ends.
    ready = record.running and record.started and record.ready and not view.stopping and not record.ephemeral
    if record.init and not record.sidecar:
        ready = ended is not None and ended.exit_code == 0
    current = record.current or record.previous
    granted = view.granted.get(record.name, record.container.resources)
    return ContainerStatus(
        name=record.name,
        state=state,
        last_state=last,
        ready=ready,
        restart_count=record.attempt,
        image=(current.image if current is not None else "") or record.container.image,
        image_id=current.image_id or record.container.image if current is not None else "",
        container_id=f"{view.runtime}://{current.id}" if current is not None else "",
        started=record.running and record.started if not (record.init and not record.sidecar and ended) else False,
        allocated_resources=granted.requests if current is not None else {},
        resources=replace(view.applied.get(record.name, granted), claims=()) if current is not None else None,
        allocated_resources_status=view.resources.get(record.name, ()),
    )


def _states(
    pod: Pod, record: ContainerRecord, view: PodView, records: Sequence[ContainerRecord]
) -> tuple[ContainerState, ContainerState]:
    previous = _terminated(record.previous, view) if record.previous is not None else ContainerState()
    current = record.current
    if current is not None and current.running:
        running = ContainerStateRunning(started_at=Time(current.started_at))
        return ContainerState(running=running), previous
    if current is not None:
        ended = _terminated(current, view)
        waits = not view.final and not view.stopping and will_restart(pod, record, current.exit_code or 0)
        if waits and record.waiting is not None:
            waiting = ContainerStateWaiting(reason=record.waiting.reason, message=record.waiting.message)
            return ContainerState(waiting=waiting), ended
        return ended, previous
    # The kubelet's own text for a container of which nothing is left.
    if view.final and record.previous is None and view.failure is None:
        lost = ContainerStateTerminated(exit_code=137, reason="ContainerStatusUnknown", message=_LOST)
        return ContainerState(terminated=lost), previous
    if record.waiting is not None:
        waiting = ContainerStateWaiting(reason=record.waiting.reason, message=record.waiting.message)
    elif pod.spec.init_containers and not initialized(records):
        waiting = ContainerStateWaiting(reason="PodInitializing")
    else:
        waiting = ContainerStateWaiting(reason="ContainerCreating")
    return ContainerState(waiting=waiting), previous


def _terminated(state: ContainerRun, view: PodView) -> ContainerState:
    ended = ContainerStateTerminated(
        exit_code=state.exit_code or 0,
        signal=state.signal,
        reason=state.reason,
        message=state.message,
        started_at=Time(state.started_at) if state.started_at else None,
        finished_at=Time(state.finished_at) if state.finished_at is not None else None,
        container_id=f"{view.runtime}://{state.id}",
    )
    return ContainerState(terminated=ended)


def _conditions(
    pod: Pod,
    records: Sequence[ContainerRecord],
    statuses: Sequence[ContainerStatus],
    phase: str,
    view: PodView,
) -> tuple[PodCondition, ...]:
    kept = tuple(condition for condition in pod.status.conditions if condition.type not in _OWNED)
    # Static pods and pods with a nodeName were never scheduled, and clients wait for this condition.
    if find_condition(kept, "PodScheduled") is None:
        kept = (*kept, PodCondition(type="PodScheduled", status="True", last_transition_time=Time(view.now)))
    containers_ready = _containers_ready(records, statuses, phase)
    made = (
        PodCondition(type="PodReadyToStartContainers", status="True" if view.sandbox and not view.final else "False"),
        _initialized(records, phase),
        _ready(pod, containers_ready),
        containers_ready,
    )
    dated = (replace(condition, last_transition_time=Time(view.now)) for condition in made)
    before = pod.status.conditions
    resize = () if view.final else view.resize
    own = (keep_transition_time(one, find_condition(before, one.type)) for one in (*resize, *dated))
    return (*own, *kept)


def _initialized(records: Sequence[ContainerRecord], phase: str) -> PodCondition:
    if phase == "Succeeded":
        return PodCondition(type="Initialized", status="True", reason="PodCompleted")
    if initialized(records):
        return PodCondition(type="Initialized", status="True")
    missing = [
        record.name
        for record in of_kind(records, init=True)
        if not (record.running and record.started if record.sidecar else record.ended and record.ended.exit_code == 0)
    ]
    message = f"containers with incomplete status: [{' '.join(missing)}]"
    return PodCondition(type="Initialized", status="False", reason="ContainersNotInitialized", message=message)


def _containers_ready(
    records: Sequence[ContainerRecord], statuses: Sequence[ContainerStatus], phase: str
) -> PodCondition:
    if phase == "Succeeded":
        return PodCondition(type="ContainersReady", status="False", reason="PodCompleted")
    if phase == "Failed":
        return PodCondition(type="ContainersReady", status="False", reason="PodFailed")
    # Init containers have ended when the pod is ready, so only sidecars count among them.
    counted = {record.name for record in records if not record.init or record.sidecar}
    unready = [status.name for status in statuses if status.name in counted and not status.ready]
    if not unready:
        return PodCondition(type="ContainersReady", status="True")
    message = f"containers with unready status: [{' '.join(unready)}]"
    return PodCondition(type="ContainersReady", status="False", reason="ContainersNotReady", message=message)


def _ready(pod: Pod, containers: PodCondition) -> PodCondition:
    if containers.status != "True":
        return replace(containers, type="Ready")
    gates = [gate.condition_type for gate in pod.spec.readiness_gates]
    closed = [gate for gate in gates if not is_true(pod.status.conditions, gate)]
    if not closed:
        return PodCondition(type="Ready", status="True")
    message = "; ".join(f'the status of pod readiness gate "{gate}" is not "True"' for gate in closed)
    return PodCondition(type="Ready", status="False", reason="ReadinessGatesNotReady", message=message)
