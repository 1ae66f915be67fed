"""NodePorts: a port of the host can be taken once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from cathedra.scheduler.framework.events import Action, EventRegistration, EventResource
from cathedra.scheduler.framework.plugin import CycleState, FilterPlugin, PreFilterPlugin
from cathedra.scheduler.framework.status import Code, Status, unschedulable
from cathedra.scheduler.state.node_info import NodeInfo, ports_conflict
from cathedra.scheduler.state.pod_info import PodInfo
from cathedra.scheduler.state.snapshot import Snapshot

_SKIP: Final = Status(Code.SKIP)


class NodePorts(PreFilterPlugin, FilterPlugin):
    """Refuses nodes on which a host port of the pod is taken."""

    name = "NodePorts"
    _refusal = unschedulable("node(s) didn't have free ports for the requested pod ports")

    def events(self) -> Sequence[EventRegistration]:
        """Return the events that may help: a pod that holds a port goes, or a node comes."""
        return (
            EventRegistration(
                EventResource.ASSIGNED_POD, Action.DELETE, lambda pod, change: bool(change.old.spec.node_name)
            ),
            EventRegistration(EventResource.NODE, Action.ADD),
        )

    def skips(self, pod: PodInfo) -> bool:
        """Nothing to do for pods without host ports."""
        return not pod.host_ports

    def pre_filter(self, state: CycleState, pod: PodInfo, snapshot: Snapshot) -> Status | None:
        """Return Skip for pods without host ports; for the others the filter does all."""
        return _SKIP if self.skips(pod) else None

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        """Refuses a node when one port is taken."""
        return self._refusal if ports_conflict(pod.host_ports, node.ports) else None
