"""SchedulingGates: a pod with gates is not tried before all of them are removed."""

from __future__ import annotations

from collections.abc import Sequence

from cathedra.scheduler.framework.events import Action, EventRegistration, EventResource
from cathedra.scheduler.framework.plugin import PreEnqueuePlugin
from cathedra.scheduler.framework.status import Status, unresolvable
from cathedra.scheduler.state.pod_info import PodInfo


class SchedulingGates(PreEnqueuePlugin):
    """Keeps gated pods out of the active queue."""

    name = "SchedulingGates"

    def events(self) -> Sequence[EventRegistration]:
        """Return the event that helps: the removal of the last gate."""
        return (EventRegistration(EventResource.TARGET_POD, Action.UPDATE_POD_GATES_ELIMINATED),)

    def pre_enqueue(self, pod: PodInfo) -> Status | None:
        """Refuses while there are gates."""
        gates = pod.pod.spec.scheduling_gates
        if not gates:
            return None
        return unresolvable(f"waiting for scheduling gates: [{' '.join(gate.name for gate in gates)}]")
