"""Since when the endpoints of a service have been others: the time that slices carry for those who measure delays.

It is that of the oldest change which a look at the service finds: a pod that became ready or ceased to be, or the
service itself. Where nothing has a new time, there is none (k8s.io/endpointslice/util, trigger_time_tracker.go).
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from cathedra.api.core.core_v1 import Pod, Service
from cathedra.api.struct import Time
from cathedra.client.objects import ObjectKey
from cathedra.semantics.conditions import find_condition

__all__ = ["TriggerTimes"]

_NEVER = Time(0)


class _Known(msgspec.Struct):
    """The times that were seen last."""

    service: Time = _NEVER
    pods: dict[str, Time] = msgspec.field(default_factory=dict)


class TriggerTimes:
    """Remembers, by service, the times that were seen."""

    def __init__(self) -> None:
        self._known: dict[ObjectKey, _Known] = {}

    def changed(self, key: ObjectKey, service: Service, pods: Iterable[Pod]) -> Time | None:
        """The oldest time that is new since the last look."""
        before = self._known.get(key, _Known())
        now = _Known(service.metadata.creation_timestamp or _NEVER)
        new: list[Time] = []
        for pod in pods:
            ready = find_condition(pod.status.conditions, "Ready")
            if ready is None or ready.last_transition_time is None:
                continue
            now.pods[pod.metadata.name] = ready.last_transition_time
            if ready.last_transition_time > before.pods.get(pod.metadata.name, _NEVER):
                new.append(ready.last_transition_time)
        if now.service > before.service:
            new.append(now.service)
        self._known[key] = now
        return min(new, default=None)

    def forget(self, key: ObjectKey) -> None:
        """The service is gone."""
        self._known.pop(key, None)
