"""Use of devices over time, by namespace and class: for chargeback, and for a history.

A *holding* is what one claim holds of one class from its allocation on. Holdings begin and end with events of claims,
so device-seconds need no sampling. `UsageTracker.listen` is for a store that keeps holdings beyond the life of the
process.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Final, Protocol

from cathedra.advisor.model import ClusterModel
from cathedra.api.resource import ResourceClaim
from cathedra.clock import Clock
from cathedra.histogram import Histogram
from cathedra.insight.inventory.holdings import ClaimHolding, holdings_of

Owner = tuple[str, str]
"""Namespace and device class."""
AGES: Final = (60, 3600, 6 * 3600, 24 * 3600, 7 * 24 * 3600, 30 * 24 * 3600)
"""Ages for which allocations are counted. Seconds."""
_BUCKETS: Final = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0, 3600.0, 6 * 3600.0)


class UsageObserver(Protocol):
    """Observer of holdings, such as a history."""

    def begun(self, holding: ClaimHolding) -> None:
        """Note that a claim was allocated, or the advisor has started and found it so."""

    def ended(self, holding: ClaimHolding, at: float) -> None:
        """Note that the claim holds these devices no more, since wall-clock time ``at``."""


class UsageTracker:
    """Holdings of all claims, and the device-seconds of those that this process has seen."""

    def __init__(self, model: ClusterModel, clock: Clock) -> None:
        self._clock = clock
        self._held: dict[str, tuple[ClaimHolding, ...]] = {}
        self._seconds: dict[Owner, float] = {}
        self._devices: Counter[Owner] = Counter()
        self._counted_to = clock.now()
        self._observers: list[UsageObserver] = []
        self.durations: dict[str, Histogram] = {}
        """Class → seconds from creation to allocation, of claims whose allocation was seen."""
        model.informer(ResourceClaim).add_handler(self._added, self._updated, self._gone)

    def listen(self, observer: UsageObserver) -> None:
        """Report the beginning and end of holdings; existing ones are reported at once."""
        self._observers.append(observer)
        for holdings in self._held.values():
            for one in holdings:
                observer.begun(one)

    def unlisten(self, observer: UsageObserver) -> None:
        """Report nothing more to an observer."""
        self._observers.remove(observer)

    def holdings(self) -> Iterator[ClaimHolding]:
        """Yield the present holdings."""
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

    def _set(self, uid: str, holdings: tuple[ClaimHolding, ...]) -> None:
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

    def _holdings(self, claim: ResourceClaim) -> Iterator[ClaimHolding]:
        return holdings_of(claim, self._clock.now())
