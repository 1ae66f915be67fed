"""GangScheduling: all pods of a gang get nodes, or none does (docs/spec/scheduling.md §14).

They enter the queue when there are enough of them, and are bound when enough of them could have a node.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from cathedra.api.core.core_v1 import Pod
from cathedra.api.core.scheduling_v1beta1 import PodGroup
from cathedra.client.store import Store
from cathedra.scheduler.framework.events import Action, ClusterEvent, EventRegistration, EventResource
from cathedra.scheduler.framework.plugin import PermitPlugin, PreEnqueuePlugin
from cathedra.scheduler.framework.status import Code, Status, unresolvable
from cathedra.scheduler.state.pod_info import PodInfo
from cathedra.semantics.podclaims import pod_group_name

__all__ = ["POD_GROUP_INDEX", "GangScheduling", "group_key", "groups_of", "same_group"]

POD_GROUP_INDEX = "cathedra.scheduler/pod-group"


class GangScheduling(PreEnqueuePlugin, PermitPlugin):
    """Keeps a gang together: neither tried before its smallest number of pods exists, nor bound before they fit."""

    name = "GangScheduling"

    def __init__(self, groups: Store[PodGroup], pods: Store[Pod], has_place: Callable[[str], bool]) -> None:
        """``has_place`` returns True for the UID of a pod that has a node, or is assumed on one."""
        self._has_place = has_place
        self._groups = groups
        self._pods = pods
        pods.add_index(POD_GROUP_INDEX, groups_of, same_group)

    def events(self) -> Sequence[EventRegistration]:
        """Another pod of the group, and the group itself."""
        return (
            EventRegistration(EventResource.UNSCHEDULED_POD, Action.ADD, self._is_sibling),
            EventRegistration(EventResource.POD_GROUP, Action.ADD, self._is_group),
        )

    def pre_enqueue(self, pod: PodInfo) -> Status | None:
        """Refuse a pod whose gang is not complete yet."""
        name = pod_group_name(pod.pod)
        if not name:
            return None
        group = self._groups.get(pod.namespace, name)
        if group is None:
            return unresolvable(f'waiting for pods\'s pod group "{name}" to appear in scheduling queue')
        gang = group.spec.scheduling_policy.gang
        if gang is None or len(self._pods.by_index(POD_GROUP_INDEX, f"{pod.namespace}/{name}")) >= gang.min_count:
            return None
        return unresolvable("waiting for minCount pods from a gang to appear in scheduling queue")

    def permit(self, pod: PodInfo) -> Status | None:
        """Waits until the smallest number of the gang's pods have nodes."""
        group = self._groups.get(pod.namespace, pod_group_name(pod.pod))
        gang = group.spec.scheduling_policy.gang if group is not None else None
        if gang is None:
            return None
        members = self._pods.by_index(POD_GROUP_INDEX, group_key(pod.pod))
        if sum(self._has_place(member.metadata.uid) for member in members) >= gang.min_count:
            return None
        return Status(Code.WAIT, ("waiting for minCount pods from a gang to be scheduled",))

    def _is_sibling(self, pod: Pod, change: ClusterEvent) -> bool:
        return bool(pod_group_name(pod)) and tuple(groups_of(pod)) == tuple(groups_of(change.new))

    def _is_group(self, pod: Pod, change: ClusterEvent) -> bool:
        metadata = change.new.metadata
        return tuple(groups_of(pod)) == (f"{metadata.namespace}/{metadata.name}",)


def group_key(pod: Pod) -> str:
    """``namespace/name`` of the pod's group, which it must have."""
    return f"{pod.metadata.namespace}/{pod_group_name(pod)}"


def same_group(old: Pod, new: Pod) -> bool:
    """Return True if both versions of a pod have the same objects in all fields that `groups_of` reads."""
    return old.spec.scheduling_group is new.spec.scheduling_group


def groups_of(pod: Pod) -> Iterable[str]:
    """The pod's group, if it has one, for the index `POD_GROUP_INDEX`."""
    return (group_key(pod),) if pod_group_name(pod) else ()
