"""What the scheduler says of a PodGroup: it is scheduled, once one of its pods is (docs/spec/scheduling.md §14)."""

from __future__ import annotations

import logging
from typing import Any

from cathedra.api.core.core_v1 import Pod
from cathedra.api.core.scheduling_v1beta1 import PodGroup
from cathedra.api.status import StatusError
from cathedra.api.struct import Time, to_dict
from cathedra.client.client import Client
from cathedra.client.resources import PODGROUPS
from cathedra.client.store import Store
from cathedra.client.transport import PatchType
from cathedra.clock import Clock
from cathedra.semantics.podclaims import pod_group_name

__all__ = ["PodGroupConditions"]

_SCHEDULED = "PodGroupScheduled"
_LOG = logging.getLogger(__name__)


class PodGroupConditions:
    """Writes the condition ``PodGroupScheduled``."""

    def __init__(self, client: Client, clock: Clock, groups: Store[PodGroup]) -> None:
        self._client = client
        self._clock = clock
        self._groups = groups

    async def scheduled(self, pod: Pod) -> None:
        """A pod has got its node; its group says so, if it does not yet."""
        namespace, name = pod.metadata.namespace, pod_group_name(pod)
        group = self._groups.get(namespace, name) if name else None
        if group is None or any(one.type == _SCHEDULED and one.status == "True" for one in group.status.conditions):
            return
        condition: dict[str, Any] = {
            "type": _SCHEDULED,
            "status": "True",
            "reason": "Scheduled",
            "message": "",
            "observedGeneration": group.metadata.generation,
            "lastTransitionTime": str(Time(self._clock.now())),
        }
        others = [to_dict(one) for one in group.status.conditions if one.type != _SCHEDULED]
        patch = {"metadata": {"uid": group.metadata.uid}, "status": {"conditions": [*others, condition]}}
        try:
            await self._client.resource(PODGROUPS, namespace).patch(name, PatchType.MERGE, patch, "status")
        except (StatusError, ConnectionError) as failure:
            # The next pod of the group that is bound will say it again.
            _LOG.info("pod group %s/%s: condition not written: %s", namespace, name, failure)
