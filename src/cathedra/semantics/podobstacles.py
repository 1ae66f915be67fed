"""Obstacles of a pod that has a node: why it does not start, does not stay up, or does not end.

The API shows these in different places: in conditions of the node, in slices that are gone because their driver is, in
warnings about the pod, and in the states of its containers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from cathedra.api.core.core_v1 import Event, Node, Pod
from cathedra.api.resource import ResourceClaim, ResourceSlice
from cathedra.semantics.conditions import find_condition
from cathedra.semantics.pods import is_terminal

_STARTING: Final = frozenset(("", "ContainerCreating", "PodInitializing"))
"""Reasons of containers while the pod is being set up."""
_OF_SCHEDULER: Final = "FailedScheduling"


class PodObstacle(NamedTuple):
    """One obstacle: a word for programs, and a sentence."""

    kind: str
    text: str


def obstacles_on_node(
    pod: Pod,
    node: Node | None,
    claims: Iterable[ResourceClaim],
    slices: Iterable[ResourceSlice] | None,
    events: Iterable[Event],
) -> Iterator[PodObstacle]:
    """Yield the obstacles of a pod with a node, the decisive one first.

    ``claims`` are the pod's; ``slices`` are all, or None if they are not known.
    """
    if is_terminal(pod):
        return
    if node is not None:
        yield from _not_ready(node)
    ending = pod.metadata.deletion_timestamp is not None
    # A container that runs keeps its devices without the driver; only preparing and unpreparing need it.
    if slices is not None and (ending or pod.status.phase != "Running"):
        yield from _gone_drivers(pod, claims, slices)
    waiting = list(_waiting_containers(pod))
    if ending or waiting or pod.status.phase != "Running":
        yield from (
            PodObstacle("node", f"{event.reason}: {event.message}") for event in warnings_about(pod, events)[:1]
        )
    yield from waiting


def deletion_text(pod: Pod) -> str:
    """Return what the deletion of a pod has come to, in one sentence; "" if it is not being deleted."""
    since = pod.metadata.deletion_timestamp
    if since is None:
        return ""
    text = f"is being deleted; its grace period ended, or ends, at {since}"
    if pod.metadata.finalizers:
        text += f", and it stays until its finalizers are removed: {', '.join(pod.metadata.finalizers)}"
    elif pod.spec.node_name:
        text += ", and it stays until its containers have ended and its claims are unprepared"
    return text


def warnings_about(pod: Pod, events: Iterable[Event]) -> list[Event]:
    """Return the warnings about a pod, the newest first; of a pod with a node without those of the scheduler."""
    uid = pod.metadata.uid
    found = [one for one in events if one.type == "Warning" and uid and one.involved_object.uid == uid]
    if pod.spec.node_name:
        found = [one for one in found if one.reason != _OF_SCHEDULER]
    return sorted(found, key=_moment, reverse=True)


def _moment(event: Event) -> int:
    last = event.last_timestamp or event.metadata.creation_timestamp
    return last.micros if last is not None else 0


def _not_ready(node: Node) -> Iterator[PodObstacle]:
    ready = find_condition(node.status.conditions, "Ready")
    if ready is None or ready.status == "True":
        return
    since = f" since {ready.last_transition_time}" if ready.last_transition_time is not None else ""
    why = ": ".join(part for part in (ready.reason, ready.message) if part)
    yield PodObstacle("node not ready", f"node {node.metadata.name} is not ready{since}" + (f" ({why})" if why else ""))


def _gone_drivers(pod: Pod, claims: Iterable[ResourceClaim], slices: Iterable[ResourceSlice]) -> Iterator[PodObstacle]:
    published = {(one.spec.driver, one.spec.pool.name) for one in slices}
    found: dict[str, str] = {}
    for claim in claims:
        results = claim.status.allocation.devices.results if claim.status.allocation is not None else ()
        for one in results:
            if (one.driver, one.pool) not in published:
                found.setdefault(one.driver, claim.metadata.name)
    for driver, claim_name in found.items():
        what = "unprepare" if pod.metadata.deletion_timestamp is not None else "prepare"
        text = (
            f"driver {driver} does not publish the devices of claim {claim_name} any more: it does not run on "
            f"{pod.spec.node_name}, and nothing else can {what} the claim"
        )
        yield PodObstacle("driver gone", text)


def _waiting_containers(pod: Pod) -> Iterator[PodObstacle]:
    for status in (*pod.status.init_container_statuses, *pod.status.container_statuses):
        waiting = status.state.waiting if status.state is not None else None
        if waiting is None or (waiting.reason in _STARTING and not waiting.message):
            continue
        ended = status.last_state.terminated if status.last_state is not None else None
        said = " ".join(line.strip() for line in (ended.message if ended is not None else "").splitlines())
        if ended is not None and not said:
            said = f"it ended with exit code {ended.exit_code}"
        yield PodObstacle("container", f"container {status.name}: {waiting.reason}: {said or waiting.message}")
