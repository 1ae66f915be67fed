"""What the scheduler says of a PodGroup after its pods were tried (docs/spec/scheduling.md §14)."""

from __future__ import annotations

import logging
from typing import Final

import msgspec

from cathedra.api.core.meta_v1 import Condition
from cathedra.api.core.scheduling_v1beta1 import PodGroup
from cathedra.api.status import StatusError
from cathedra.api.struct import Time, to_dict
from cathedra.client.client import Client
from cathedra.client.resources import PODGROUPS
from cathedra.client.store import Store
from cathedra.client.transport import PatchType
from cathedra.clock import Clock
from cathedra.semantics.conditions import find_condition

__all__ = ["PodGroupConditions", "PodGroupOutcome"]

_SCHEDULED: Final = "PodGroupScheduled"
_LOG = logging.getLogger(__name__)


class PodGroupOutcome(msgspec.Struct, frozen=True):
    """What came of trying the pods of a group."""

    reason: str
    """``Scheduled``, ``Unschedulable`` or ``SchedulerError``."""
    message: str = ""

    @property
    def status(self) -> str:
        """The condition's status."""
        return "True" if self.reason == "Scheduled" else "False"


class PodGroupConditions:
    """Writes the condition ``PodGroupScheduled``."""

    def __init__(self, client: Client, clock: Clock, groups: Store[PodGroup]) -> None:
        self._client = client
        self._clock = clock
        self._groups = groups
        self._scheduled: set[str] = set()
        """UIDs of groups that have been told so, until the informer shows it."""

    async def tell(self, namespace: str, name: str, outcome: PodGroupOutcome) -> None:
        """Write ``outcome`` into the group's status. A group that was scheduled once stays so."""
        group = self._groups.get(namespace, name)
        if group is None:
            return
        old = find_condition(group.status.conditions, _SCHEDULED)
        uid = group.metadata.uid
        if old is not None and old.status == "True":
            self._scheduled.discard(uid)
            if outcome.status != "True":
                return
        elif outcome.status == "True":
            self._scheduled.add(uid)
        elif uid in self._scheduled:
            return
        unchanged = old is not None and old.status == outcome.status
        made = Condition(
            type=_SCHEDULED,
            status=outcome.status,
            reason=outcome.reason,
            message=outcome.message,
            observed_generation=group.metadata.generation,
            last_transition_time=old.last_transition_time if old is not None and unchanged else Time(self._clock.now()),
        )
        if made == old:
            return
        others = [one for one in group.status.conditions if one.type != _SCHEDULED]
        conditions = [{"message": "", **to_dict(one)} for one in (*others, made)]
        patch = {"metadata": {"uid": uid}, "status": {"conditions": conditions}}
        try:
            await self._client.resource(PODGROUPS, namespace).patch(name, PatchType.MERGE, patch, "status")
        except (StatusError, ConnectionError) as failure:
            # The next attempt will say it again.
            self._scheduled.discard(uid)
            _LOG.info("pod group %s/%s: condition not written: %s", namespace, name, failure)
