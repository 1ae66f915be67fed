"""Marks a pod as disrupted and deletes it: what taint managers do, without asking disruption budgets."""

from __future__ import annotations

from cathedra.api.core.core_v1 import Pod, PodCondition
from cathedra.api.status import StatusError
from cathedra.api.struct import Time, replace
from cathedra.client.client import Client
from cathedra.client.resources import PODS
from cathedra.clock import Clock
from cathedra.semantics.conditions import with_condition


async def evict(client: Client, clock: Clock, pod: Pod, reason: str, message: str) -> bool:
    """Set condition DisruptionTarget and delete the very pod with its own grace period.

    Answers whether it was there and not being deleted already.
    """
    pods = client.resource(PODS, pod.metadata.namespace)
    try:
        fresh = await pods.get(pod.metadata.name)
        if fresh.metadata.uid != pod.metadata.uid or fresh.metadata.deletion_timestamp is not None:
            return False
        disrupted = PodCondition(
            type="DisruptionTarget",
            status="True",
            last_transition_time=Time(clock.now()),
            reason=reason,
            message=message,
        )
        conditions = with_condition(fresh.status.conditions, disrupted)
        await pods.update_status(replace(fresh, status=replace(fresh.status, conditions=conditions)))
        await pods.delete(pod.metadata.name, uid=pod.metadata.uid)
    except StatusError as error:
        if error.is_not_found:
            return False
        raise
    return True
