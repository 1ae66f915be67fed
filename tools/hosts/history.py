"""The history of the clients, and what it must show.

Every counter has one value after each compare-and-swap. So two acknowledged swaps of a counter to one value are a lost
update, and a read of less than an acknowledged value is a lost write. Allocations are in the order of revisions.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Final

import msgspec

SHARED: Final = "counter-shared"
"""The counter that all writers increase."""


class Call(msgspec.Struct, frozen=True, tag="call"):
    """A finished call of a writer. Moments are seconds of the machine's monotonic clock."""

    writer: int
    kind: str
    """``create``, ``swap`` or ``read``."""
    key: str
    value: int
    outcome: str
    """``ok``, ``unknown``, or ``refused`` with a code."""
    began: float
    ended: float


class Allocation(msgspec.Struct, frozen=True, tag="allocation"):
    """The devices of a claim from a revision on."""

    claim: str
    revision: int
    devices: list[str]


class Snapshot(msgspec.Struct, frozen=True, tag="snapshot"):
    """The devices of all claims at one revision, where the watch had to begin anew."""

    allocations: list[Allocation]


class PodRun(msgspec.Struct, frozen=True, tag="pod"):
    """A pod that ran."""

    name: str
    created: float
    running: float


class EndState(msgspec.Struct, frozen=True, tag="final"):
    """The state at the end: counters, names of config maps, and restarts of the pods that stay."""

    counters: dict[str, int]
    maps: list[str]
    steady: dict[str, int]


Entry = Call | Allocation | Snapshot | PodRun | EndState
_DECODER: Final = msgspec.json.Decoder(Entry)


@dataclass(frozen=True)
class Fault:
    """A fault of a host, and its time."""

    name: str
    began: float
    ended: float


def read_history(path: Path) -> list[Entry]:
    """Return the entries of a history, which may still be written: its last line may be incomplete."""
    complete, _, _ = path.read_bytes().rpartition(b"\n")
    return [_DECODER.decode(line) for line in complete.splitlines()]


def problems(history: Sequence[Entry], *, steady: int) -> Iterator[str]:
    """Return what must not be: lost or doubled writes, devices with two claims, pods that did not stay."""
    final = next((entry for entry in history if isinstance(entry, EndState)), None)
    if final is None:
        yield "the clients did not finish"
        return
    calls = [entry for entry in history if isinstance(entry, Call)]
    yield from _counters(calls, final)
    present = set(final.maps)
    made = [call.key for call in calls if call.kind == "create" and call.outcome == "ok"]
    yield from (f"{key} was acknowledged and is not there" for key in made if key not in present)
    yield from _devices(history)
    if len(final.steady) != steady or any(final.steady.values()):
        yield f"pods that were to stay, with their restarts: {final.steady}"


def _counters(calls: Sequence[Call], final: EndState) -> Iterator[str]:
    acknowledged: dict[str, dict[int, Call]] = defaultdict(dict)
    unknown: dict[str, int] = defaultdict(int)
    for call in calls:
        if call.kind == "swap" and call.outcome == "ok":
            if call.value in acknowledged[call.key]:
                yield f"{call.key} was set to {call.value} twice"
            acknowledged[call.key][call.value] = call
        elif call.kind == "swap" and call.outcome == "unknown":
            unknown[call.key] += 1
    for key, swaps in acknowledged.items():
        last = final.counters.get(key, 0)
        if not len(swaps) <= last <= len(swaps) + unknown[key]:
            yield f"{key} is {last} after {len(swaps)} acknowledged and {unknown[key]} unknown swaps"
    # What was acknowledged before a read began must be in it. Ends and starts are compared in one pass over both.
    moments = [(call.ended, 0, call) for call in calls if call.kind == "swap" and call.outcome == "ok"]
    moments += [(call.began, 1, call) for call in calls if call.kind == "read"]
    newest: dict[str, int] = defaultdict(int)
    for _, _, call in sorted(moments, key=lambda one: one[:2]):
        if call.kind == "swap":
            newest[call.key] = max(newest[call.key], call.value)
        elif call.value < newest[call.key]:
            yield f"{call.key} was read as {call.value} after {newest[call.key]} was acknowledged"


def _devices(history: Sequence[Entry]) -> Iterator[str]:
    held: dict[str, str] = {}
    of: dict[str, list[str]] = {}
    for entry in history:
        allocations = [entry] if isinstance(entry, Allocation) else []
        if isinstance(entry, Snapshot):
            held, of, allocations = {}, {}, entry.allocations
        for one in allocations:
            for device in of.pop(one.claim, []):
                held.pop(device, None)
            for device in one.devices:
                if device in held:
                    yield f"{device} was given to {one.claim} at {one.revision} while {held[device]} had it"
                held[device] = one.claim
            of[one.claim] = one.devices


def pause_of(history: Sequence[Entry], fault: Fault) -> float:
    """Return the longest time in seconds in which no write of any one writer was acknowledged, around a fault."""
    longest = 0.0
    ends: dict[int, list[float]] = defaultdict(list)
    for entry in history:
        if isinstance(entry, Call) and entry.kind != "read" and entry.outcome == "ok":
            ends[entry.writer].append(entry.ended)
    for times in ends.values():
        inside = [one for one in times if fault.began - 1 <= one <= fault.ended]
        marks = [fault.began, *inside, fault.ended]
        longest = max(longest, *(after - before for before, after in pairwise(marks)))
    return longest


def slowest_pod(history: Sequence[Entry], fault: Fault) -> float:
    """Return the longest time in seconds from a pod's creation to its start, of those that waited during a fault."""
    waits = [
        entry.running - entry.created
        for entry in history
        if isinstance(entry, PodRun) and entry.created <= fault.ended and entry.running >= fault.began
    ]
    return max(waits, default=0.0)
