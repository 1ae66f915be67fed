"""What claims ask for, worked out once for all that have the same specs.

All claims of a template have the template's spec, the very same object, and classes hardly ever change. So what was
made of one pod's claims (their plans, the tables of fixed tests, the key of their answers) holds for those of the next
pod too. Only texts of errors name the claims: for these they are taken apart again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from cathedra.allocation.claims.requests import ClaimPlan, ClassLookup, Obstacle, RequestKey, request_key_of
from cathedra.allocation.claims.tables import OptionTables
from cathedra.allocation.features import Features
from cathedra.allocation.supply.caches import CacheSlot
from cathedra.allocation.supply.devices import Interner
from cathedra.api.resource import DeviceClass, ResourceClaim

__all__ = ["KNOWN_REQUESTS", "Asked", "KnownRequests"]

LIMIT: Final = 64
"""So many sorts of pods are remembered; the first ones give way."""


class Asked(msgspec.Struct, frozen=True, eq=False):
    """What some claims ask for."""

    plans: tuple[ClaimPlan, ...]
    """Of the claims that asked first: those that ask for the same may have other names."""
    tables: OptionTables
    key: RequestKey | None
    """Equal for claims that get the same devices; None if they are faulty."""
    classes: tuple[DeviceClass, ...] = ()
    """What the plans were made with, besides the specs."""

    def is_current(self, classes: ClassLookup, interner: Interner) -> bool:
        """Whether it would be made in the same way now."""
        for known in self.classes:
            if classes(known.metadata.name) is not known:
                return False
        return self.tables.is_current(interner)


class KnownRequests:
    """What was asked for lately, by the specs themselves; the plans hold them, so no other can take their place."""

    __slots__ = ("_known",)

    def __init__(self) -> None:
        self._known: dict[tuple[object, ...], Asked] = {}

    def get(
        self, claims: Sequence[ResourceClaim], classes: ClassLookup, features: Features, interner: Interner
    ) -> Asked | None:
        """What ``claims`` ask for, if it is known."""
        known = self._known.get((features, *[id(claim.spec) for claim in claims]))
        return known if known is not None and known.is_current(classes, interner) else None

    def add(self, plans: tuple[ClaimPlan, ...], features: Features, interner: Interner) -> Asked:
        """What claims ask for that were taken apart like this; it is remembered unless they are faulty."""
        asked = Asked(plans, OptionTables(plans, features, interner), request_key_of(plans), _classes_of(plans))
        if asked.key is not None:
            if len(self._known) >= LIMIT:
                del self._known[next(iter(self._known))]
            self._known[features, *[id(plan.claim.spec) for plan in plans]] = asked
        return asked


KNOWN_REQUESTS: Final[CacheSlot[KnownRequests]] = CacheSlot("requests", KnownRequests)


def _classes_of(plans: Sequence[ClaimPlan]) -> tuple[DeviceClass, ...]:
    options = [option for plan in plans for request in plan.requests for option in request.options]
    found = {one.device_class.metadata.name: one.device_class for one in options if not isinstance(one, Obstacle)}
    return tuple(found.values())
