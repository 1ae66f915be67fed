"""The controllers of replica sets and replication controllers, which maintain a number of pods."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple, TypeVar, cast

from cathedra.api.core.apps_v1 import ReplicaSet, ReplicaSetCondition
from cathedra.api.core.core_v1 import Pod, ReplicationController, ReplicationControllerCondition
from cathedra.api.core.meta_v1 import KubeObject, LabelSelector
from cathedra.api.struct import Time, replace
from cathedra.client.resources import REPLICASETS, REPLICATIONCONTROLLERS
from cathedra.client.transport import ResourceRef
from cathedra.controllers.controller import ControllerContext
from cathedra.controllers.podcontrol import (
    BY_CONTROLLER,
    PodControllerRefManager,
    controlled_undecodable,
    pod_from_template,
    selects_labels,
    surplus_first,
)
from cathedra.controllers.workloads.workload import WorkloadController
from cathedra.semantics.conditions import with_condition_moved_last
from cathedra.semantics.owners import controller_of, controller_uid, same_owners
from cathedra.semantics.pods import is_active, is_available, is_ready, is_terminal, ready_since

T = TypeVar("T", bound=KubeObject)

MOST_PER_SYNC: Final = 500


_FORMS: Final = "forms-of-pods"
"""Name of the tally of pods by the UID of their controller, and by their form."""


class PodForm(NamedTuple):
    """Fields of a pod that the selector and the status of a replica set read. A thousand pods have a few forms."""

    labels: tuple[tuple[str, str], ...]
    active: bool
    ready: bool
    """Active, and condition Ready is True."""
    ending: bool
    """It is being deleted and has not ended."""


def form_of(pod: Pod) -> PodForm:
    """Return the form of a pod."""
    metadata = pod.metadata
    active = is_active(pod)
    ending = metadata.deletion_timestamp is not None and not is_terminal(pod)
    return PodForm(tuple(metadata.labels.items()), active, active and is_ready(pod), ending)


def form_by_controller(pod: Pod) -> tuple[str, PodForm] | None:
    """Tally function: a pod is counted under the UID of its controller."""
    owner = controller_of(pod)
    return None if owner is None else (owner.uid, form_of(pod))


class _ReplicasController(WorkloadController[T]):
    """Keeps objects full that consist of a selector, a template and a number; both kinds differ in nothing else."""

    def __init__(self, context: ControllerContext, ref: ResourceRef[T]) -> None:
        super().__init__(context, ref)
        # Each of a thousand pods changes several times while the set comes up. Reading all of them for each change took
        # a fifth of the processor time of a simulation.
        self.pods.store.add_tally(_FORMS, form_by_controller)

    async def claim(self, obj: T) -> None:
        """Adopt and release pods. All pods are examined only if some are not selected."""
        selector, pods = self.selector(obj), self.pods.store
        own = PodControllerRefManager(self.control, pods, obj, selector)
        await own.adopt()
        if not all(selects_labels(selector, dict(form.labels)) for form in pods.tally(_FORMS, obj.metadata.uid)):
            await own.release()

    async def sync(self, obj: T) -> float | None:
        """Create or delete the difference, then write the status."""
        spec = cast(Any, obj).spec
        forms = self._forms(obj)
        # The pods themselves are only read where their times count, or where some have to go.
        active = self._active(obj) if spec.min_ready_seconds else []
        wanted = 1 if spec.replicas is None else spec.replicas
        failure: Exception | None = None
        reason = ""
        if obj.metadata.deletion_timestamp is None:
            missing = wanted - sum(number for form, number in forms.items() if form.active)
            if missing > 0:
                pod = pod_from_template(spec.template, obj)
                failure, reason = (
                    # Bounded: an object of a million replicas must not keep the worker from all others.
                    await self.control.create_all(obj, [pod] * min(missing, MOST_PER_SYNC)),
                    "FailedCreate",
                )
            elif missing < 0:
                # Pods without a node or not ready go first, so that scaling down interrupts as little service as
                # possible.
                ranked = surplus_first(self._active(obj), self.related(obj), self.clock.now())
                for pod in ranked[: min(-missing, MOST_PER_SYNC)]:
                    await self.control.delete(obj, pod)
        # Also after a failure, so that users find its reason in the conditions.
        await self._write_status(obj, forms, active, reason if failure else "", str(failure or ""))
        if failure is not None:
            raise failure
        return self._next_available(spec.min_ready_seconds, active)

    def _forms(self, obj: T) -> dict[PodForm, int]:
        """Return the forms of the object's pods, and how many have each."""
        pods, uid = self.pods.store, obj.metadata.uid
        forms: dict[PodForm, int] = pods.tally(_FORMS, uid)
        for rest in controlled_undecodable(pods, uid):
            form = form_of(rest)
            forms[form] = forms.get(form, 0) + 1
        return forms

    def _active(self, obj: T) -> list[Pod]:
        return [pod for pod in self.controlled(obj) if is_active(pod)]

    async def _write_status(
        self, obj: T, forms: Mapping[PodForm, int], active: list[Pod], reason: str, message: str
    ) -> None:
        now, spec, old = self.clock.now(), cast(Any, obj).spec, cast(Any, obj).status
        labels = spec.template.metadata.labels.items()
        conditions = tuple(c for c in old.conditions if c.type != "ReplicaFailure")
        if reason:
            conditions = with_condition_moved_last(old.conditions, self.failure(reason, message, Time(now)))
        ready = sum(number for form, number in forms.items() if form.ready)
        status = replace(
            old,
            replicas=sum(number for form, number in forms.items() if form.active),
            fully_labeled_replicas=sum(
                number for form, number in forms.items() if form.active and labels <= set(form.labels)
            ),
            ready_replicas=ready,
            available_replicas=sum(is_available(pod, spec.min_ready_seconds, now) for pod in active)
            if spec.min_ready_seconds
            else ready,
            observed_generation=obj.metadata.generation,
            conditions=conditions,
            **self.more_status(forms),
        )
        # An unchanged status would be a write, and an event for all watchers, for each reconciliation.
        if status != old:
            changed: Any = obj
            await self.client.resource(self.ref, obj.metadata.namespace).update_status(replace(changed, status=status))

    def related(self, obj: T) -> Iterator[Pod]:
        """Return the active pods that are counted to find crowded nodes for scaling down; none by default."""
        return iter(())

    def failure(self, reason: str, message: str, now: Time) -> Any:
        """Return the condition for missing pods."""
        raise NotImplementedError

    def more_status(self, forms: Mapping[PodForm, int]) -> dict[str, int]:
        """Return the status fields that only one of the kinds has."""
        return {}

    def _next_available(self, wait: int, active: list[Pod]) -> float | None:
        """Seconds until another ready pod has been ready long enough."""
        if not wait:
            return None
        now = self.clock.now()
        ends = [since + wait - now for pod in active if (since := ready_since(pod)) is not None]
        return min((end for end in ends if end > 0), default=None)


class ReplicaSetController(_ReplicasController[ReplicaSet]):
    """Keeps replica sets full."""

    name = "replicaset-controller"
    component = "replicaset-controller"

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context, REPLICASETS)
        self.objects.store.add_index(BY_CONTROLLER, controller_uid, same_owners)

    def related(self, obj: ReplicaSet) -> Iterator[Pod]:
        """Yield the pods of all replica sets of the same deployment; a set without a deployment has none."""
        for uid in controller_uid(obj):
            for sibling in self.objects.store.by_index(BY_CONTROLLER, uid):
                pods = self.pods.store.by_index(BY_CONTROLLER, sibling.metadata.uid)
                yield from (pod for pod in pods if is_active(pod))

    def failure(self, reason: str, message: str, now: Time) -> ReplicaSetCondition:
        """Return a replica set's condition."""
        return ReplicaSetCondition(
            type="ReplicaFailure", status="True", last_transition_time=now, reason=reason, message=message
        )

    def more_status(self, forms: Mapping[PodForm, int]) -> dict[str, int]:
        """Return pods that are being deleted and have not ended."""
        return {"terminating_replicas": sum(number for form, number in forms.items() if form.ending)}


class ReplicationControllerController(_ReplicasController[ReplicationController]):
    """Keeps replication controllers full."""

    name = "replicationcontroller-controller"
    component = "replication-controller"

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context, REPLICATIONCONTROLLERS)

    def selector(self, obj: ReplicationController) -> LabelSelector:
        """Return the labels that its selector consists of."""
        return LabelSelector(match_labels=obj.spec.selector)

    def failure(self, reason: str, message: str, now: Time) -> ReplicationControllerCondition:
        """Return a replication controller's condition."""
        return ReplicationControllerCondition(
            type="ReplicaFailure", status="True", last_transition_time=now, reason=reason, message=message
        )
