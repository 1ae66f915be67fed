"""In-place resize of running pods (KEP-1287).

A pod is limited to what it was granted, whatever its spec requests later. If its spec requests something else, the node
refuses (`Infeasible`), postpones (`Deferred`) or grants it. If granted, the limits of pod and containers change while
they run, and only containers whose resize policy requires it are restarted. Conditions, events and their texts are the
kubelet's.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

import msgspec

from cathedra.api.core.core_v1 import Container, Pod, PodCondition, ResourceRequirements
from cathedra.api.quantity import Quantity
from cathedra.api.struct import Time, replace, to_dict
from cathedra.node.containers.records import ContainerTable
from cathedra.node.pods.context import PodContext
from cathedra.node.pods.podobject import PodObject
from cathedra.node.resources import container_limits, pod_requests
from cathedra.node.runtime.runtime import RuntimeFailure
from cathedra.releases import FeatureGates, behaviours
from cathedra.semantics.pods import is_sidecar

PENDING: Final = "PodResizePending"
PROGRESS: Final = "PodResizeInProgress"
RETRY_SECONDS: Final = 30.0
"""Pause after new limits could not be put into effect."""


class ResourceGrants:
    """Granted resources of a pod and its containers; initially those of its spec."""

    __slots__ = ("_containers", "_whole")

    def __init__(self, pod: Pod) -> None:
        self._whole = pod.spec.resources
        self._containers = _asked(pod)

    def of(self, pod: Pod) -> Pod:
        """Return ``pod`` with the requests that it was granted."""
        return granted_pod(pod, self._containers, self._whole)

    def resources(self, container: Container) -> ResourceRequirements:
        """Return the granted resources of a container."""
        return self._containers.get(container.name, container.resources)

    def give(self, pod: Pod) -> None:
        """Grant what the pod's spec requests now."""
        self._whole = pod.spec.resources
        self._containers = _asked(pod)

    def recover(self, pod: Pod) -> None:
        """Restore grants that an earlier agent applied, from the pod's status."""
        every = (*pod.status.init_container_statuses, *pod.status.container_statuses)
        for status in every:
            asked = self._containers.get(status.name)
            # Only running containers have limits in effect; the others start with those of the spec.
            if asked is not None and status.resources is not None and status.state.running is not None:
                self._containers[status.name] = replace(status.resources, claims=asked.claims)
        if self._whole is not None and pod.status.resources is not None:
            self._whole = replace(pod.status.resources, claims=self._whole.claims)


@dataclass(frozen=True, slots=True)
class Neighbours:
    """The other pods of a pod's node, as far as they share its resources."""

    others: Callable[[], Iterable[Pod]] = tuple
    """Returns the pods whose requests count beside the pod's."""
    freed: Callable[[], None] = lambda: None
    """Called when the pod has released resources."""


ALONE: Final = Neighbours()
"""For the only pod of a node."""


class PodResizer:
    """Compares what a pod requests with what it was granted.

    ``restart`` stops a container that must start again.
    """

    __slots__ = (
        "_before",
        "_context",
        "_neighbours",
        "_object",
        "_pending",
        "_progress",
        "_restart",
        "_retry_at",
        "_table",
        "grants",
    )

    def __init__(
        self,
        pod: PodObject,
        grants: ResourceGrants,
        table: ContainerTable,
        context: PodContext,
        *,
        neighbours: Neighbours,
        restart: Callable[[str], Awaitable[None]],
    ) -> None:
        self._object = pod
        self.grants = grants
        self._table = table
        self._context = context
        self._neighbours = neighbours
        self._restart = restart
        self._pending: PodCondition | None = None
        self._progress: PodCondition | None = None
        self._before: dict[str, ResourceRequirements] = {}
        """Limits that containers still have because their new ones are not applied yet."""
        self._retry_at = 0.0

    @property
    def conditions(self) -> tuple[PodCondition, ...]:
        """Conditions of an unfinished resize, for the pod's status."""
        return tuple(one for one in (self._pending, self._progress) if one is not None)

    @property
    def waits_for_room(self) -> bool:
        """Return True if the resize waits for other pods to release resources."""
        return self._pending is not None and self._pending.reason == "Deferred"

    @property
    def applied(self) -> Mapping[str, ResourceRequirements]:
        """Container → resources, where what is in effect is not what was granted."""
        return self._before

    @property
    def look_again(self) -> float | None:
        """Monotonic time of the next attempt; None: only after a change."""
        return self._retry_at if self._before else None

    async def step(self) -> None:
        """Do what is to be done now."""
        if not self._context.gates.has(behaviours.IN_PLACE_RESIZE):
            return
        pod = self._object.pod
        granted = self.grants.of(pod)
        if requests_resize(pod, granted):
            await self._resize(pod, granted)
            return
        self._pending = None
        # ``step`` runs at every change of the pod; without the pause a failing runtime would be called each time.
        if self._before and self._context.clock.monotonic() >= self._retry_at:
            await self._actuate()

    async def _resize(self, pod: Pod, granted: Pod) -> None:
        refusal = postponement(pod, self._context.facts.allocatable, self._neighbours.others(), self._context.gates)
        if refusal is not None:
            # The old grant stays in effect: the pod runs on with its former limits.
            self._postpone(pod, refusal)
            return
        self._pending = None
        before = _asked(granted)
        # Before the limits are applied. A failure leaves the grant in place, so that other pods cannot take the room
        # meanwhile.
        self.grants.give(pod)
        # Containers that do not run get their new limits when they start.
        running = {record.name for record in self._table.all if record.running}
        self._before = {
            # Limits of an earlier resize that was never applied: those are still in effect.
            name: self._before.get(name, before[name])
            for name, asked in _asked(pod).items()
            if name in running and before[name] != asked
        }
        self._progress = self._condition(PROGRESS, "", "")
        self._record("Normal", "ResizeStarted", "Pod resize started")
        await self._actuate()

    def _postpone(self, pod: Pod, refusal: Postponement) -> None:
        known = self._pending
        self._pending = self._condition(PENDING, refusal.reason, refusal.message)
        # One event for each refused generation: `step` runs at every change of the pod.
        if known is None or (known.reason, known.observed_generation) != (refusal.reason, pod.metadata.generation):
            what = f"Resize{refusal.reason}"
            self._record("Warning", what, f"Pod resize {refusal.reason}", error=refusal.message)

    async def _actuate(self) -> None:
        """Put what was granted into effect: more for the pod before its containers, less after them."""
        pod, cgroups = self.grants.of(self._object.pod), self._context.cgroups
        try:
            if cgroups is not None:
                # Before the containers: a larger container must not be held down by the pod's former limit.
                cgroups.apply(pod)
            for container in (*pod.spec.init_containers, *pod.spec.containers):
                await self._update(pod, container)
            if cgroups is not None:
                # Again after the containers: the kernel refuses a pod limit below the sum of its containers'.
                cgroups.apply(pod)
        except (RuntimeFailure, OSError) as error:
            message = error.message if isinstance(error, RuntimeFailure) else str(error)
            self._retry_at = self._context.clock.monotonic() + RETRY_SECONDS
            self._progress = self._condition(PROGRESS, "Error", message)
            self._record("Warning", "ResizeError", "Pod resize error", error=message)
            return
        self._progress = None
        self._record("Normal", "ResizeCompleted", "Pod resize completed")
        # Wakes resizes of other pods that wait for room.
        self._neighbours.freed()

    async def _update(self, pod: Pod, container: Container) -> None:
        """Limit one container to its granted resources; it may inherit limits of the pod."""
        record = self._table.get(container.name)
        if record is None or not record.running or record.current is None:
            self._before.pop(container.name, None)
            return
        before = self._before.get(container.name)
        if before is not None and must_restart(container, before):
            self._before.pop(container.name)
            await self._restart(container.name)
            return
        await self._context.runtime.update(record.current.id, container_limits(pod, container, self._context.facts))
        self._before.pop(container.name, None)

    def _condition(self, type_: str, reason: str, message: str) -> PodCondition:
        return PodCondition(
            type=type_,
            status="True",
            reason=reason,
            message=message,
            observed_generation=self._object.pod.metadata.generation,
            last_transition_time=Time(self._context.clock.now()),
        )

    def _record(self, kind: Literal["Normal", "Warning"], reason: str, what: str, *, error: str = "") -> None:
        pod = self._object.pod
        sidecars = [one for one in pod.spec.init_containers if is_sidecar(one)]
        details: dict[str, Any] = {}
        if sidecars:
            details["initContainers"] = [_summary(one) for one in sidecars]
        details["containers"] = [_summary(one) for one in pod.spec.containers]
        if pod.spec.resources is not None:
            details["resources"] = _amounts(pod.spec.resources)
        details["generation"] = pod.metadata.generation
        if error:
            details["error"] = error
        self._context.recorder.record(pod, kind, reason, f"{what}: {json.dumps(details, separators=(',', ':'))}")


def _asked(pod: Pod) -> dict[str, ResourceRequirements]:
    """Return the requested resources of each container."""
    return {one.name: one.resources for one in (*pod.spec.init_containers, *pod.spec.containers)}


def _summary(container: Container) -> dict[str, Any]:
    return {"name": container.name, "resources": _amounts(container.resources)}


def _amounts(resources: ResourceRequirements) -> dict[str, Any]:
    """Limits and requests of what can be resized."""
    found: dict[str, Any] = to_dict(resources)
    kept = {what: {name: found[what][name] for name in RESIZED if name in found.get(what, {})} for what in _KINDS}
    return {what: amounts for what, amounts in kept.items() if amounts}


_KINDS: Final = ("limits", "requests")


RESIZED: Final = ("cpu", "memory")
"""The resources that can be resized."""
_MILLI: Final = 10**6
_NANO: Final = 10**9


class Postponement(msgspec.Struct, frozen=True):
    """Reason and message of a refused resize: ``Infeasible`` (never on this node) or ``Deferred`` (not now)."""

    reason: str
    message: str


def postponement(
    pod: Pod, allocatable: Mapping[str, Quantity], others: Iterable[Pod], gates: FeatureGates
) -> Postponement | None:
    """Return the reason why the node cannot grant what ``pod`` requests beside ``others``; None if it can."""
    wanted = pod_requests(pod, gates)
    used = [pod_requests(other, gates) for other in others]
    found = [(name, wanted.get(name, 0), allocatable[name].nanos) for name in RESIZED if name in allocatable]
    for name, amount, have in found:
        # First against the whole node: what can never fit must not wait for others.
        if amount > have:
            unit = _unit(name)
            text = (
                f"Node didn't have enough capacity: {name}, requested: {-(-amount // unit)}, capacity: {have // unit}"
            )
            return Postponement("Infeasible", text)
    for name, amount, have in found:
        taken = sum(amounts.get(name, 0) for amounts in used)
        if amount + taken > have:
            unit = _unit(name)
            text = (
                f"Node didn't have enough resource: {name}, requested: {-(-amount // unit)}, "
                f"used: {-(-taken // unit)}, capacity: {have // unit}"
            )
            return Postponement("Deferred", text)
    return None


def _unit(resource: str) -> int:
    return _MILLI if resource == "cpu" else _NANO


def granted_pod(pod: Pod, granted: Mapping[str, ResourceRequirements], whole: ResourceRequirements | None) -> Pod:
    """``pod`` with the resources that its containers (by name), and it as a ``whole``, were granted."""

    def of(containers: tuple[Container, ...]) -> tuple[Container, ...]:
        return tuple(replace(one, resources=granted.get(one.name, one.resources)) for one in containers)

    spec = replace(
        pod.spec,
        init_containers=of(pod.spec.init_containers),
        containers=of(pod.spec.containers),
        resources=whole,
    )
    return replace(pod, spec=spec)


def requests_resize(pod: Pod, granted: Pod) -> bool:
    """Return True if the pod's spec requests other resources than were granted."""
    if pod.spec.resources != granted.spec.resources:
        return True
    pairs = (
        *zip(pod.spec.containers, granted.spec.containers, strict=True),
        *zip(pod.spec.init_containers, granted.spec.init_containers, strict=True),
    )
    return any(mine.resources != theirs.resources for mine, theirs in pairs)


def must_restart(container: Container, before: ResourceRequirements) -> bool:
    """Return True if the container wants to be restarted when what has changed since ``before`` changes."""
    after = container.resources
    changed = {
        name
        for name in RESIZED
        if after.requests.get(name) != before.requests.get(name) or after.limits.get(name) != before.limits.get(name)
    }
    policies = {policy.resource_name: policy.restart_policy for policy in container.resize_policy}
    return any(policies.get(name) == "RestartContainer" for name in changed)
