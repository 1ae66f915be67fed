"""Placement of partitions inside the device that they are parts of, to scale.

A device and its partitions share a counter set. The share of a partition is the largest share that it needs of any
counter. Where counters are numbered slices of the device, as ``memory-slice-0`` to ``memory-slice-7`` of a GPU, they
also determine where the partition lies; partitions without such counters are placed side by side.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

CounterKey = tuple[str, str]
"""Counter set and counter."""
_DIGITS: Final = "0123456789"
_EPSILON: Final = 1e-9
"""Rounding error of sums of shares."""


@dataclass(frozen=True, slots=True)
class PlacedPartition:
    """A device that consumes counters, as far as its placement depends on it."""

    name: str
    needed: Mapping[CounterKey, int]
    held: bool


@dataclass(frozen=True, slots=True)
class DeviceSpan:
    """Position and size as fractions of the whole device, and the row in which nothing else lies at that position."""

    at: float = 0.0
    size: float = 1.0
    lane: int = 0


def placements(partitions: Iterable[PlacedPartition], totals: Mapping[CounterKey, int]) -> dict[str, DeviceSpan]:
    """Return the placement of each partition of a pool by its name.

    Held partitions are placed first, so that they lie side by side; then the larger ones before the smaller ones.
    """
    sets: dict[str, list[PlacedPartition]] = {}
    for one in partitions:
        for name in {name for name, _ in one.needed}:
            sets.setdefault(name, []).append(one)
            break
    found: dict[str, DeviceSpan] = {}
    for name, members in sets.items():
        found.update(_placed(members, {key: total for key, total in totals.items() if key[0] == name}))
    return found


def _placed(members: list[PlacedPartition], totals: Mapping[CounterKey, int]) -> dict[str, DeviceSpan]:
    slices = _numbered(totals)
    spans = {one.name: _span(one, slices, totals) for one in members}
    lanes: list[list[tuple[float, float]]] = []
    found = {}
    for one in sorted(members, key=lambda one: (not one.held, -spans[one.name][1], one.name)):
        fixed, size = spans[one.name]
        if fixed is not None:
            at = fixed
            lane = next((n for n, taken in enumerate(lanes) if _fits(taken, at, size)), len(lanes))
        else:
            gaps = ((n, _gap(taken, size)) for n, taken in enumerate(lanes))
            lane, at = next(((n, gap) for n, gap in gaps if gap is not None), (len(lanes), 0.0))
        if lane == len(lanes):
            lanes.append([])
        lanes[lane].append((at, at + size))
        found[one.name] = DeviceSpan(round(at, 6), round(size, 6), lane)
    return found


def _span(
    one: PlacedPartition, slices: Mapping[CounterKey, int], totals: Mapping[CounterKey, int]
) -> tuple[float | None, float]:
    """Return the position, if numbered counters determine it, and the size."""
    own = sorted(slices[key] for key, amount in one.needed.items() if amount and key in slices)
    if own:
        return own[0] / len(slices), (own[-1] - own[0] + 1) / len(slices)
    shares = (amount / totals[key] for key, amount in one.needed.items() if totals.get(key, 0) > 0)
    return None, min(max(shares, default=1.0), 1.0) or 1.0


def _numbered(totals: Mapping[CounterKey, int]) -> dict[CounterKey, int]:
    """Return the position of each counter that is a numbered slice; {} if there are not several of one name."""
    stems: dict[str, list[tuple[int, CounterKey]]] = {}
    for key in totals:
        stem = key[1].rstrip(_DIGITS)
        if number := key[1][len(stem) :]:
            stems.setdefault(stem.removesuffix("-"), []).append((int(number), key))
    largest = max(stems.values(), key=len, default=[])
    if len(largest) < 2:
        return {}
    return {key: place for place, (_, key) in enumerate(sorted(largest))}


def _fits(taken: Iterable[tuple[float, float]], at: float, size: float) -> bool:
    return all(end <= at + _EPSILON or start >= at + size - _EPSILON for start, end in taken)


def _gap(taken: Iterable[tuple[float, float]], size: float) -> float | None:
    """Return the first position at which ``size`` fits between what is taken; None if there is none."""
    at = 0.0
    for start, end in sorted(taken):
        if start - at >= size - _EPSILON:
            return at
        at = max(at, end)
    return at if 1.0 - at >= size - _EPSILON else None
