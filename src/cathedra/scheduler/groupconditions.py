"""Conditions of pod groups: whether a group was scheduled, or why not."""

from __future__ import annotations

import logging
from typing import Any, Final

import msgspec

from cathedra.api.core.meta_v1 import Condition
from cathedra.api.core.scheduling_v1alpha3 import CompositePodGroup
from cathedra.api.core.scheduling_v1beta1 import PodGroup
from cathedra.api.status import StatusError
from cathedra.api.struct import Time, to_dict
from cathedra.client.client import Client
from cathedra.client.resources import COMPOSITEPODGROUPS, PODGROUPS
from cathedra.client.transport import PatchType
from cathedra.clock import Clock
from cathedra.releases import FeatureGates, behaviours
from cathedra.scheduler.plugins.gangs import StoredGroups
from cathedra.semantics.conditions import find_condition
from cathedra.semantics.podgroups import GroupKey

_LOG: Final = logging.getLogger(__name__)


class PodGroupOutcome(msgspec.Struct, frozen=True):
    """Outcome of trying the pods of a group."""

    reason: str
    """``Scheduled``, ``Unschedulable``, ``SchedulerError`` or ``Invalid``."""
    message: str = ""

    @property
    def status(self) -> str:
        """Return the condition's status: True if the group is scheduled."""
        return "True" if self.reason == "Scheduled" else "False"


class PodGroupConditions:
    """Writes the condition ``PodGroupInitiallyScheduled``, until 1.36 ``PodGroupScheduled``."""

    def __init__(self, client: Client, clock: Clock, groups: StoredGroups, gates: FeatureGates) -> None:
        self._client = client
        self._clock = clock
        self._groups = groups
        self._composites = gates.has(behaviours.COMPOSITE_GROUPS_HAVE_CONDITIONS)
        self._type = "InitiallyScheduled" if gates.has(behaviours.GROUPS_SCHEDULED_AS_UNITS) else "Scheduled"
        self._scheduled: set[str] = set()
        """UIDs of groups whose condition was written, until the informer has it."""

    async def write(self, key: GroupKey, outcome: PodGroupOutcome) -> None:
        """Write ``outcome`` into the group's status. A group that was scheduled once stays so."""
        group: PodGroup | CompositePodGroup | None
        if key.kind == "PodGroup":
            group = self._groups.pod_group(key.namespace, key.name)
        elif self._composites:
            group = self._groups.composite(key.namespace, key.name)
        else:
            group = None
        if group is None:
            return
        old = find_condition(group.status.conditions, f"{key.kind}{self._type}")
        uid = group.metadata.uid
        if old is not None and old.status == "True":
            self._scheduled.discard(uid)
            if outcome.status != "True":
                return
        elif outcome.status == "True":
            self._scheduled.add(uid)
        # The informer does not have the condition True yet. A failed attempt of further pods must not overwrite it.
        elif uid in self._scheduled:
            return
        unchanged = old is not None and old.status == outcome.status
        made = Condition(
            type=f"{key.kind}{self._type}",
            status=outcome.status,
            reason=outcome.reason,
            message=outcome.message,
            observed_generation=group.metadata.generation,
            last_transition_time=old.last_transition_time if old is not None and unchanged else Time(self._clock.now()),
        )
        if made == old:
            return
        others = [one for one in group.status.conditions if one.type != made.type]
        conditions = [{"message": "", **to_dict(one)} for one in (*others, made)]
        patch: dict[str, Any] = {"metadata": {"uid": uid}, "status": {"conditions": conditions}}
        try:
            if key.kind == "PodGroup":
                await self._client.resource(PODGROUPS, key.namespace).patch(key.name, PatchType.MERGE, patch, "status")
            else:
                composites = self._client.resource(COMPOSITEPODGROUPS, key.namespace)
                await composites.patch(key.name, PatchType.MERGE, patch, "status")
        except (StatusError, ConnectionError) as failure:
            # The next attempt writes the condition again.
            self._scheduled.discard(uid)
            _LOG.info("%s %s/%s: condition not written: %s", *key, failure)
