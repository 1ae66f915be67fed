"""Preemption, and refusals after the filters, in Reserve, Permit and PreBind; and what an explanation does not examine.

A pod may pass all filters and still not be bound: its claim has as many consumers as it may have, or its gang does not
fit as a whole. The scheduler's own condition is reported where it contradicts the filters.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

from cathedra.api.core.core_v1 import PersistentVolumeClaim, Pod, PodCondition
from cathedra.api.core.scheduling_v1 import PriorityClass
from cathedra.api.core.scheduling_v1beta1 import PodGroup
from cathedra.api.resource import ResourceClaim
from cathedra.api.struct import replace
from cathedra.insight.explanation.report import Cause
from cathedra.insight.reading.state import ClusterState, Note
from cathedra.insight.rendering import names_text
from cathedra.kinds.resource.claims.devicequota import HELD_INFIX
from cathedra.kinds.resource.claims.status import most_consumers
from cathedra.printable import counted
from cathedra.scheduler.judging import Filters
from cathedra.semantics.conditions import find_condition
from cathedra.semantics.podclaims import pod_group_name

NOT_TRIED: Final = ("podgroups", "not examined")
"""Resource and problem of the note on a gang that was not tried."""
_JOINT: Final = re.compile(r"JointPlacement: [^,]+(?:, \S+ finds no node)?(?:; the search ended after \d+ trials)?")
_OVER_QUOTA: Final = re.compile(
    rf"exceeded quota: \S+, requested: \S+{re.escape(HELD_INFIX)}\S+ used: \S+ limited: \S+[^\s.,]"
)


def refusal_of(pod: Pod) -> PodCondition | None:
    """Return the condition by which the scheduler refuses a pod without a node."""
    condition = find_condition(pod.status.conditions, "PodScheduled")
    refused = condition is not None and condition.status == "False" and not pod.spec.node_name
    return condition if refused else None


def binding_causes(pod: Pod, claims: Iterable[ResourceClaim], state: ClusterState) -> Iterator[Cause]:
    """Yield the quota on held devices over which the scheduler has refused the pod, and the claims that cannot be
    reserved for one more pod, which PreBind finds out when it writes them."""
    condition = refusal_of(pod)
    # Whether the scheduler enforces such quotas is known from its refusals alone.
    over = _OVER_QUOTA.search(condition.message) if condition is not None else None
    if over is not None:
        yield Cause("quota", over[0])
    limit = most_consumers(state.gates)
    for claim in claims:
        consumers = claim.status.reserved_for
        mine = any(one.uid == pod.metadata.uid or one.resource == "podgroups" for one in consumers)
        if len(consumers) >= limit and not mine:
            where = f"claim {claim.metadata.namespace}/{claim.metadata.name}"
            text = f"{where} cannot be reserved for the pod: status.reservedFor: Too many: {len(consumers) + 1}"
            yield Cause("consumers", f"{text}: must have at most {limit} items")


def gang_causes(pod: Pod, state: ClusterState, counted: str) -> Iterator[Cause]:
    """Yield the reason why a gang does not fit whose pods fit one by one: the scheduler's refusal, or how many of its
    pods fit together (``counted``, "" if that was not tried or all do)."""
    group = _gang(pod, state)
    condition = refusal_of(pod)
    said = condition.message if condition is not None else ""
    if (group is not None and said) or counted:
        name = group.metadata.name if group is not None else pod_group_name(pod)
        text = f"the pod fits alone, and is bound with its gang only (PodGroup {name})"
        joint = _joint_refusal(group) if group is not None else ""
        beside = f"; {joint}" if joint and joint not in said else ""
        yield Cause("pod group", f"{text}: {said or counted}{beside}")


def _joint_refusal(group: PodGroup) -> str:
    """Return the refusal of a joint search, with the obstacle and the bound that was reached; "" without one."""
    for condition in group.status.conditions:
        found = _JOINT.search(condition.message) if condition.status == "False" else None
        if found is not None:
            return found[0]
    return ""


def preemption_causes(pod: Pod, state: ClusterState, filters: Filters) -> Iterator[Cause]:
    """Yield the pods that the scheduler would evict for a pod that fits on no node, or the reason why it evicts
    none."""
    found = filters.preemption(with_priority(pod, state))
    if not found.victims:
        if found.why:
            yield Cause("preemption", f"preemption evicts no pod: {found.why}")
        return
    victims = victims_text(found.victims)
    against = f", against the disruption budget of {counted(found.violations, 'pod')}" if found.violations else ""
    text = f"preemption evicts {victims} and nominates {found.node}{against}"
    if all(one.metadata.deletion_timestamp is not None for one in found.victims):
        text = f"preemption waits until {victims} on {found.node} has ended"
    yield Cause("preemption", text)


def victims_text(pods: Iterable[Pod]) -> str:
    """Return the names of evicted pods with their priorities."""
    return names_text(
        [f"{one.metadata.namespace}/{one.metadata.name} (priority {one.spec.priority or 0})" for one in pods]
    )


def with_priority(pod: Pod, state: ClusterState) -> Pod:
    """Return the pod with the priority and policy of its class, which admission fills in when a pod is created."""
    priority_class = state.get(PriorityClass, pod.spec.priority_class_name) if pod.spec.priority is None else None
    if priority_class is None:
        return pod
    policy = pod.spec.preemption_policy or priority_class.preemption_policy
    return replace(pod, spec=replace(pod.spec, priority=priority_class.value, preemption_policy=policy))


def _gang(pod: Pod, state: ClusterState) -> PodGroup | None:
    name = pod_group_name(pod)
    if not name or not state.gates.gang_scheduling:
        return None
    group = state.get(PodGroup, name, pod.metadata.namespace)
    return group if group is not None and group.spec.scheduling_policy.gang is not None else None


def not_examined(pod: Pod, state: ClusterState, *, gang_tried: bool) -> Iterator[Note]:
    """Yield notes on what the verdict on a pod that passes the filters leaves out."""
    group = _gang(pod, state)
    if group is not None and group.spec.scheduling_policy.gang is not None and not gang_tried:
        size = group.spec.scheduling_policy.gang.min_count
        text = (
            f"the pod is judged alone; whether {size} pods of its gang fit together is computed by kubectl dra simulate"
        )
        yield Note(*NOT_TRIED, text)
    condition = refusal_of(pod)
    if condition is not None:
        reported = f"{condition.reason}: {condition.message}" if condition.message else condition.reason
        text = f"the cluster's scheduler reported PodScheduled=False, {reported}"
        other = "its extenders, plugins of other projects, and changes since then are not examined"
        yield Note("pods", "not examined", f"{text}; {other}")
    yield from volume_notes([pod], state)


def volume_notes(pods: Iterable[Pod], state: ClusterState) -> Iterator[Note]:
    """Yield a note if pods have persistent volumes and these are not known."""
    if state.is_known(PersistentVolumeClaim):
        return
    names = dict.fromkeys(
        f"{pod.metadata.namespace}/{volume.persistent_volume_claim.claim_name}"
        for pod in pods
        for volume in pod.spec.volumes
        if volume.persistent_volume_claim is not None
    )
    if names:
        text = f"persistent volumes are not examined, because there are no claims in {state.source}"
        yield Note("persistentvolumeclaims", "not examined", f"{text}: {names_text(tuple(names))}")
