"""Use of devices over time, by namespace and class: for chargeback, and for a history.

A *holding* is what one claim holds of one class from its allocation on. Holdings begin and end with events of claims,
so device-seconds need no sampling. `Usage.listen` is for a store that keeps holdings beyond the life of the process.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Final, Protocol

import msgspec

from cathedra.advisor.model import ClusterModel
from cathedra.api.resource import ResourceClaim
from cathedra.clock import Clock
from cathedra.histogram import Histogram

Owner = tuple[str, str]
"""Namespace and device class."""
AGES: Final = (60, 3600, 6 * 3600, 24 * 3600, 7 * 24 * 3600, 30 * 24 * 3600)
"""Ages for which allocations are counted. Seconds."""
_BUCKETS: Final = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0, 3600.0, 6 * 3600.0)


class Holding(msgspec.Struct, frozen=True):
    """The devices of one class that a claim holds."""

    uid: str
    """UID of the claim."""
    namespace: str
    claim: str
    device_class: str
    driver: str
    node: str
    """"" if the devices can be used on several nodes."""
    devices: int
    since: float
    """Wall-clock time of the allocation, or of the first sight of it. Seconds."""


class UsageObserver(Protocol):
    """Observer of holdings, such as a history."""

    def begun(self, holding: Holding) -> None:
        """A claim was allocated, or the advisor has started and found it so."""

    def ended(self, holding: Holding, at: float) -> None:
        """The claim holds these devices no more, since wall-clock time ``at``."""


class Usage:
    """Holdings of all claims, and the device-seconds of those that this process has seen."""

    def __init__(self, model: ClusterModel, clock: Clock) -> None:
        self._clock = clock
        self._held: dict[str, tuple[Holding, ...]] = {}
        self._seconds: dict[Owner, float] = {}
        self._devices: Counter[Owner] = Counter()
        self._counted_to = clock.now()
        self._observers: list[UsageObserver] = []
        self.durations: dict[str, Histogram] = {}
        """Class → seconds from creation to allocation, of claims whose allocation was seen."""
        model.informer(ResourceClaim).add_handler(self._added, self._updated, self._gone)

    def listen(self, observer: UsageObserver) -> None:
        """Report what begins and ends; what is held already is reported at once."""
        self._observers.append(observer)
        for holdings in self._held.values():
            for one in holdings:
                observer.begun(one)

    def holdings(self) -> Iterator[Holding]:
        """Yield what is held now."""
        for found in self._held.values():
            yield from found

    def devices(self) -> Counter[Owner]:
        """Return (namespace, class) → devices held now."""
        return +self._devices

    def claims(self) -> Counter[Owner]:
        """Return (namespace, class) → claims that hold devices now."""
        return Counter((one.namespace, one.device_class) for one in self.holdings())

    def seconds(self) -> Mapping[Owner, float]:
        """Return (namespace, class) → device-seconds since the process started."""
        self._count()
        return self._seconds

    def older_than(self) -> Counter[tuple[str, int]]:
        """Return (class, age in seconds) → devices that are held for at least that long."""
        now = self._clock.now()
        found: Counter[tuple[str, int]] = Counter()
        for one in self.holdings():
            for age in AGES:
                if now - one.since >= age:
                    found[one.device_class, age] += one.devices
        return found

    def _count(self) -> None:
        """Add the time since the last change for what has been held meanwhile."""
        now = self._clock.now()
        passed = max(0.0, now - self._counted_to)
        self._counted_to = now
        for owner, devices in self._devices.items():
            self._seconds[owner] = self._seconds.get(owner, 0.0) + devices * passed

    def _added(self, claim: ResourceClaim) -> None:
        self._set(claim.metadata.uid, tuple(self._holdings(claim)))

    def _updated(self, old: ResourceClaim, new: ResourceClaim) -> None:
        if old.status.allocation is None and new.status.allocation is not None:
            created = new.metadata.creation_timestamp
            taken = self._clock.now() - created.timestamp if created is not None else 0.0
            for one in {holding.device_class for holding in self._holdings(new)}:
                self.durations.setdefault(one, Histogram(_BUCKETS)).add(max(0.0, taken))
        if old.status.allocation != new.status.allocation:
            self._set(new.metadata.uid, tuple(self._holdings(new)))

    def _gone(self, claim: ResourceClaim) -> None:
        self._set(claim.metadata.uid, ())

    def _set(self, uid: str, holdings: tuple[Holding, ...]) -> None:
        before = self._held.pop(uid, ())
        if not before and not holdings:
            return
        self._count()
        for one in before:
            self._devices[one.namespace, one.device_class] -= one.devices
            for observer in self._observers:
                observer.ended(one, self._clock.now())
        if holdings:
            self._held[uid] = holdings
        for one in holdings:
            self._devices[one.namespace, one.device_class] += one.devices
            for observer in self._observers:
                observer.begun(one)

    def _holdings(self, claim: ResourceClaim) -> Iterator[Holding]:
        allocation = claim.status.allocation
        if allocation is None:
            return
        classes = dict(_classes(claim))
        # Admin access takes nothing from others.
        counted = Counter(
            (classes.get(one.request, ""), one.driver) for one in allocation.devices.results if not one.admin_access
        )
        since = allocation.allocation_timestamp.timestamp if allocation.allocation_timestamp else self._clock.now()
        for (device_class, driver), devices in counted.items():
            metadata = claim.metadata
            node = _node(claim)
            yield Holding(metadata.uid, metadata.namespace, metadata.name, device_class, driver, node, devices, since)


def _classes(claim: ResourceClaim) -> Iterator[tuple[str, str]]:
    """Yield request, or «request/subrequest», and its class."""
    for request in claim.spec.devices.requests or ():
        if request.exactly is not None:
            yield request.name, request.exactly.device_class_name
        for sub in request.first_available:
            yield f"{request.name}/{sub.name}", sub.device_class_name


def _node(claim: ResourceClaim) -> str:
    """Return the only node on which the claim can be used; "" if there are several."""
    allocation = claim.status.allocation
    selector = allocation.node_selector if allocation is not None else None
    for term in selector.node_selector_terms if selector is not None else ():
        for one in term.match_fields:
            if one.key == "metadata.name" and len(one.values) == 1:
                return one.values[0]
    return ""
