"""The history of a cluster, in the order of the API server's commits, and the rules that held all the time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from cathedra.api.core.core_v1 import Pod
from cathedra.api.resource import ResourceClaim
from cathedra.api.struct import KubeStruct, encode
from cathedra.client.client import Client
from cathedra.client.resources import EVENTS, JOBS, NODES, PODS, RESOURCECLAIMS, RESOURCESLICES
from cathedra.client.transport import EventType, ResourceRef
from cathedra.clock import Clock

__all__ = ["History", "Moment"]

WATCHED = (NODES, RESOURCESLICES, JOBS, PODS, RESOURCECLAIMS, EVENTS)

Device = tuple[str, str, str]
"""Driver, pool, device."""


@dataclass(frozen=True, slots=True)
class Moment:
    """One committed change."""

    revision: int
    at: float
    type: EventType
    ref: ResourceRef[Any]
    obj: KubeStruct

    def line(self) -> bytes:
        """Everything about it: two runs are equal if their lines are."""
        return b"%d %.6f %s %s %s" % (
            self.revision,
            self.at,
            self.type.name.encode(),
            self.ref.resource.encode(),
            encode(self.obj),
        )


@dataclass(slots=True)
class History:
    """Follows the API server from its first revision on, and checks as it goes."""

    clock: Clock
    moments: list[Moment] = field(default_factory=list)
    holders: dict[Device, str] = field(default_factory=dict)
    """Dedicated devices, and the claim (``namespace/name``) that holds each."""
    most_held: int = 0
    """The largest number of devices that were held at one time."""

    async def follow(self, client: Client, ref: ResourceRef[Any]) -> None:
        """Note every change of one resource until cancelled."""
        async with client.resource(ref).watch(resource_version="1", bookmarks=False) as events:
            async for event in events:
                revision = int(event.object.metadata.resource_version)
                self.moments.append(Moment(revision, self.clock.now(), event.type, ref, event.object))
                if isinstance(event.object, ResourceClaim):
                    self._check_devices(event.object, deleted=event.type is EventType.DELETED)

    def lines(self) -> list[bytes]:
        """The event log."""
        return [moment.line() for moment in self._in_order()]

    def of(self, ref: ResourceRef[Any], name: str = "") -> list[Any]:
        """Every state of the objects of one resource (of one name), in order."""
        return [m.obj for m in self._in_order() if m.ref == ref and (not name or m.obj.metadata.name == name)]

    def reasons(self) -> Counter[str]:
        """Return the number of new events by reason."""
        return Counter(m.obj.reason for m in self.moments if m.ref == EVENTS and m.type is EventType.ADDED)  # type: ignore[attr-defined]  # events have reasons

    def check_running_pods(self) -> None:
        """No pod ever ran without claims that are allocated and reserved for it."""
        claims: dict[tuple[str, str], ResourceClaim] = {}
        for moment in self._in_order():
            obj = moment.obj
            key = (obj.metadata.namespace, obj.metadata.name)
            if isinstance(obj, ResourceClaim):
                claims[key] = obj
                if moment.type is EventType.DELETED:
                    del claims[key]
            elif isinstance(obj, Pod) and obj.status.phase == "Running" and moment.type is not EventType.DELETED:
                for name in _claim_names(obj):
                    claim = claims.get((key[0], name))
                    assert claim is not None, f"pod {key} runs without its claim {name}"
                    assert claim.status.allocation is not None, f"pod {key} runs with claim {name} not allocated"
                    users = {consumer.uid for consumer in claim.status.reserved_for}
                    assert obj.metadata.uid in users, f"pod {key} runs with claim {name} reserved for others"

    def _check_devices(self, claim: ResourceClaim, *, deleted: bool) -> None:
        """No device may be held twice at any moment."""
        name = f"{claim.metadata.namespace}/{claim.metadata.name}"
        for device in [device for device, holder in self.holders.items() if holder == name]:
            del self.holders[device]
        if deleted or claim.status.allocation is None:
            return
        for result in claim.status.allocation.devices.results:
            device = (result.driver, result.pool, result.device)
            if result.admin_access or result.share_id:
                continue
            assert device not in self.holders, f"{device} is held by {self.holders[device]} and by {name}"
            self.holders[device] = name
        self.most_held = max(self.most_held, len(self.holders))

    def _in_order(self) -> list[Moment]:
        return sorted(self.moments, key=lambda moment: moment.revision)


def _claim_names(pod: Pod) -> Iterator[str]:
    recorded = {status.name: status.resource_claim_name for status in pod.status.resource_claim_statuses}
    for entry in pod.spec.resource_claims:
        name = entry.resource_claim_name or recorded.get(entry.name)
        if name:
            yield name
