"""GangScheduling: the pods of a gang enter the queue when there are enough of them (docs/spec/scheduling.md §14)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from cathedra.api.core.core_v1 import Pod
from cathedra.api.core.scheduling_v1beta1 import PodGroup
from cathedra.client.store import Store
from cathedra.scheduler.framework.events import Action, Change, Registration, Resource
from cathedra.scheduler.framework.plugin import PreEnqueuePlugin
from cathedra.scheduler.framework.status import Status, unresolvable
from cathedra.scheduler.state.pod_info import PodInfo
from cathedra.semantics.podclaims import pod_group_name

__all__ = ["GangScheduling"]

_INDEX = "cathedra.scheduler/pod-group"


class GangScheduling(PreEnqueuePlugin):
    """Keeps the pods of a gang out of the active queue until its smallest number of them exists."""

    name = "GangScheduling"

    def __init__(self, groups: Store[PodGroup], pods: Store[Pod]) -> None:
        self._groups = groups
        self._pods = pods
        pods.add_index(_INDEX, _group_of)

    def events(self) -> Sequence[Registration]:
        """Another pod of the group, and the group itself."""
        return (
            Registration(Resource.UNSCHEDULED_POD, Action.ADD, self._is_sibling),
            Registration(Resource.POD_GROUP, Action.ADD, self._is_group),
        )

    def pre_enqueue(self, pod: PodInfo) -> Status | None:
        """Refuses a pod whose gang is not complete yet."""
        name = pod_group_name(pod.pod)
        if not name:
            return None
        group = self._groups.get(pod.namespace, name)
        if group is None:
            return unresolvable(f'waiting for pods\'s pod group "{name}" to appear in scheduling queue')
        gang = group.spec.scheduling_policy.gang
        if gang is None or len(self._pods.by_index(_INDEX, f"{pod.namespace}/{name}")) >= gang.min_count:
            return None
        return unresolvable("waiting for minCount pods from a gang to appear in scheduling queue")

    def _is_sibling(self, pod: Pod, change: Change) -> bool:
        return bool(pod_group_name(pod)) and tuple(_group_of(pod)) == tuple(_group_of(change.new))

    def _is_group(self, pod: Pod, change: Change) -> bool:
        metadata = change.new.metadata
        return tuple(_group_of(pod)) == (f"{metadata.namespace}/{metadata.name}",)


def _group_of(pod: Pod) -> Iterable[str]:
    name = pod_group_name(pod)
    return (f"{pod.metadata.namespace}/{name}",) if name else ()
