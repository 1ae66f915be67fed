"""The replica set controller: so many pods, no more and no fewer."""

from __future__ import annotations

from typing import Final

from cathedra.api.core.apps_v1 import ReplicaSet, ReplicaSetCondition, ReplicaSetStatus
from cathedra.api.core.core_v1 import Pod
from cathedra.api.struct import Time, replace
from cathedra.client.resources import REPLICASETS
from cathedra.controllers.controller import ControllerContext
from cathedra.controllers.podcontrol import pod_from_template
from cathedra.controllers.podranking import surplus_first
from cathedra.controllers.workloads.workload import WorkloadController
from cathedra.semantics.conditions import with_condition_moved_last
from cathedra.semantics.pods import is_active, is_available, is_ready, is_terminal, ready_since

__all__ = ["ReplicaSetController"]

MOST_PER_SYNC: Final = 500


class ReplicaSetController(WorkloadController[ReplicaSet]):
    """Keeps replica sets full."""

    name = "replicaset-controller"
    component = "replicaset-controller"

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context, REPLICASETS)

    async def sync(self, obj: ReplicaSet, pods: list[Pod]) -> float | None:
        """Create or delete the difference, then write the status."""
        active = [pod for pod in pods if is_active(pod)]
        wanted = 1 if obj.spec.replicas is None else obj.spec.replicas
        failure: Exception | None = None
        reason = ""
        if obj.metadata.deletion_timestamp is None:
            missing = wanted - len(active)
            if missing > 0:
                pod = pod_from_template(obj.spec.template, obj)
                failure, reason = (
                    await self.control.create_all(obj, [pod] * min(missing, MOST_PER_SYNC)),
                    "FailedCreate",
                )
            elif missing < 0:
                for pod in surplus_first(active)[: min(-missing, MOST_PER_SYNC)]:
                    await self.control.delete(obj, pod)
        await self._write_status(obj, pods, active, reason if failure else "", str(failure or ""))
        if failure is not None:
            raise failure
        return self._next_available(obj, active)

    async def _write_status(
        self, obj: ReplicaSet, pods: list[Pod], active: list[Pod], reason: str, message: str
    ) -> None:
        now = self.clock.now()
        labels = obj.spec.template.metadata.labels.items()
        conditions = tuple(c for c in obj.status.conditions if c.type != "ReplicaFailure")
        if reason:
            failure = ReplicaSetCondition(
                type="ReplicaFailure", status="True", last_transition_time=Time(now), reason=reason, message=message
            )
            conditions = with_condition_moved_last(obj.status.conditions, failure)
        status = ReplicaSetStatus(
            replicas=len(active),
            fully_labeled_replicas=sum(labels <= pod.metadata.labels.items() for pod in active),
            ready_replicas=sum(map(is_ready, active)),
            available_replicas=sum(is_available(pod, obj.spec.min_ready_seconds, now) for pod in active),
            terminating_replicas=sum(
                pod.metadata.deletion_timestamp is not None and not is_terminal(pod) for pod in pods
            ),
            observed_generation=obj.metadata.generation,
            conditions=conditions,
        )
        if status != obj.status:
            await self.client.resource(REPLICASETS, obj.metadata.namespace).update_status(replace(obj, status=status))

    def _next_available(self, obj: ReplicaSet, active: list[Pod]) -> float | None:
        """Seconds until another ready pod has been ready long enough."""
        now, wait = self.clock.now(), obj.spec.min_ready_seconds
        ends = [since + wait - now for pod in active if (since := ready_since(pod)) is not None]
        return min((end for end in ends if end > 0), default=None) if wait else None
