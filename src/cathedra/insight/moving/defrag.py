"""Plans against fragmentation: the moves after which the largest request of each device class is larger.

The largest request is the number of devices of a class that one claim can have on one node. For a class of partitions
of which none is free as a whole, that is the step from none to one. Devices that are free on many nodes are of no use
to a claim that needs them on one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import msgspec
from msgspec import structs

from cathedra.allocation import AllocationError, Allocator
from cathedra.allocation.errors import InvalidInput
from cathedra.api.core.core_v1 import Pod
from cathedra.api.core.meta_v1 import ObjectMeta
from cathedra.api.resource import (
    DeviceClaim,
    DeviceClass,
    DeviceRequest,
    ExactDeviceRequest,
    ResourceClaim,
    ResourceClaimSpec,
)
from cathedra.api.struct import replace
from cathedra.insight.inventory.listing import devices
from cathedra.insight.moving.movable import ORPHAN
from cathedra.insight.moving.plan import plan_for
from cathedra.insight.moving.report import Move, MovePlan, MoveStep, move_line, step_lines
from cathedra.insight.moving.search import DEFAULT_OPTIONS, MoveOptions
from cathedra.insight.moving.wanted import Wanted, consumer_of
from cathedra.insight.reading.state import ClusterState, Note
from cathedra.insight.rendering import API_VERSION, Style, plain, table_lines, wrapped
from cathedra.insight.simulation.copying import complete
from cathedra.printable import counted, printable_values
from cathedra.semantics.pods import is_terminal

_NAME: Final = "largest-request"
_NAMESPACE: Final = "default"
_TOP: Final = 2_000_000_000
"""A priority that no pod exceeds but those of the system."""


class ClassRoom(msgspec.Struct, frozen=True, rename="camel"):
    """The room of a device class."""

    device_class: str
    devices: int
    """Devices of the class, on all nodes together."""
    free: int
    """Those that are free, and that no partition in use blocks."""
    before: int
    """The largest number that one claim can have now."""
    after: int


class Defragmentation(msgspec.Struct, frozen=True, rename="camel"):
    """Moves after which larger requests fit."""

    classes: tuple[ClassRoom, ...]
    moves: tuple[Move, ...] = ()
    steps: tuple[MoveStep, ...] = ()
    proved: bool | None = None
    """True if simulations ended with a node for the larger requests and for all moved pods."""
    complete: bool = True
    """False if a search ended at its bound."""
    notes: tuple[Note, ...] = ()

    @property
    def better(self) -> bool:
        """True if a larger request fits afterwards."""
        return any(one.after > one.before for one in self.classes)

    def to_dict(self) -> dict[str, Any]:
        """Return the plan as plain values."""
        found: dict[str, Any] = msgspec.to_builtins(self)
        return {"apiVersion": API_VERSION, "kind": "Defragmentation", "better": self.better, **found}


def defrag(
    state: ClusterState,
    device_class: str = "",
    *,
    options: MoveOptions = DEFAULT_OPTIONS,
    priority: int = _TOP,
) -> Defragmentation:
    """Plan moves that enlarge the largest request of a class, or of one class after the other.

    Pods of a higher ``priority`` stay. No pod is left without a node. Must not be called from a running event loop if
    the plan is to be proved. Pods that wait are left out: some of them may fit afterwards.

    Raises:
        InvalidInput: there is no such class.
    """
    whole = complete(state)
    # Pods that wait would take the room that is made, in the simulation as in the cluster.
    whole = whole.without([pod for pod in whole.pods if not pod.spec.node_name and not is_terminal(pod)])
    rooms = {name: _room(name, whole) for name in _class_names(whole, device_class)}
    rooms, plans = _enlarged_in_turn(rooms, whole, options, priority)
    return Defragmentation(
        tuple(rooms.values()),
        tuple(move for plan in plans for move in plan.moves),
        tuple(step for plan in plans for step in plan.steps),
        all(plan.proved for plan in plans) if plans and options.prove else None,
        all(plan.complete for plan in plans),
        state.notes,
    )


def _enlarged_in_turn(
    rooms: dict[str, ClassRoom], current: ClusterState, options: MoveOptions, priority: int
) -> tuple[dict[str, ClassRoom], list[MovePlan]]:
    """Enlarge one class after the other, and return the room of each afterwards, with the plans."""
    # The class with the most to gain first: free devices that no single claim can have, then devices that are blocked.
    ordered = sorted(rooms, key=lambda name: (rooms[name].before - rooms[name].free, -rooms[name].devices))
    plans: list[MovePlan] = []
    settled, left = frozenset[str](), options.moves
    for name in ordered:
        room = rooms[name]
        if left < 1 or room.devices <= room.after:
            continue
        limits = structs.replace(options, moves=left, evict=False)
        found = _enlarged(room, current, settled, limits, priority)
        if found is None:
            continue
        after = {other: _largest(other, found.after) for other in rooms}
        # What one class gains another may not lose.
        if any(after[other] < rooms[other].after for other in rooms):
            continue
        plan = found.plan
        if options.prove:
            plan, _ = plan_for(found.wanted, current, limits, prove=True, settled=settled)
        plans.append(plan)
        current, settled, left = found.after, settled | found.moved, left - len(plan.claims)
        rooms = {other: structs.replace(room, after=after[other]) for other, room in rooms.items()}
    return rooms, plans


def _class_names(state: ClusterState, device_class: str) -> list[str]:
    """Return the name of one class, or of all."""
    names = [one.metadata.name for one in state.all(DeviceClass)]
    if device_class and device_class not in names:
        some = ", ".join(names[:5]) or "none"
        raise InvalidInput(f"there is no device class {device_class!r} in {state.source}; there are {some}")
    return [device_class] if device_class else names


class _Enlarged(msgspec.Struct, frozen=True):
    """A plan for one larger request."""

    wanted: Wanted
    plan: MovePlan
    after: ClusterState
    """The state after the moves, without the larger request."""
    moved: frozenset[str]
    """The UIDs of the pods that were moved."""


def _enlarged(
    room: ClassRoom, state: ClusterState, settled: frozenset[str], options: MoveOptions, priority: int
) -> _Enlarged | None:
    """Return the plan for the largest request that is to be had; None if none is larger than today's."""
    best: _Enlarged | None = None
    for count in range(room.after + 1, room.devices + 1):
        wanted = _request(room.device_class, count, state, priority)
        plan, solution = plan_for(wanted, state, options, prove=False, settled=settled)
        if solution is None:
            break
        moved = frozenset(pod.metadata.uid for unit in solution.moved for pod in unit.pods)
        best = _Enlarged(wanted, plan, _without_request(solution.world.state), moved)
    return best


def _without_request(state: ClusterState) -> ClusterState:
    """Return the state without the request and without the pods that stand for claims without a consumer."""
    objects = [
        one
        for one in (*state.pods, *state.all(ResourceClaim))
        if one.metadata.name in (_NAME, f"{_NAME}-consumer")
        or (isinstance(one, Pod) and ORPHAN in one.metadata.annotations)
    ]
    gone = {one.metadata.uid for one in objects}
    freed = [
        replace(
            claim,
            status=replace(
                claim.status, reserved_for=tuple(one for one in claim.status.reserved_for if one.uid not in gone)
            ),
        )
        for claim in state.all(ResourceClaim)
        if any(one.uid in gone for one in claim.status.reserved_for)
    ]
    return state.including(freed).without(objects)


def _claim(device_class: str, count: int) -> ResourceClaim:
    exactly = ExactDeviceRequest(device_class_name=device_class, allocation_mode="ExactCount", count=count)
    request = DeviceRequest(name="devices", exactly=exactly)
    metadata = ObjectMeta(name=_NAME, namespace=_NAMESPACE, uid=f"ResourceClaim/{_NAMESPACE}/{_NAME}")
    return ResourceClaim(metadata=metadata, spec=ResourceClaimSpec(devices=DeviceClaim(requests=(request,))))


def _request(device_class: str, count: int, state: ClusterState, priority: int) -> Wanted:
    claim = _claim(device_class, count)
    pod = consumer_of(claim)
    pod = replace(
        pod,
        metadata=replace(pod.metadata, uid=f"Pod/{_NAMESPACE}/{pod.metadata.name}"),
        spec=replace(pod.spec, priority=priority),
    )
    name = f"{counted(count, 'device')} of class {device_class} on one node"
    return Wanted(name, (pod,), state.including([claim, pod]), (claim, pod))


def _room(name: str, state: ClusterState) -> ClassRoom:
    total = devices(state, device_class=name).total
    largest = _largest(name, state)
    return ClassRoom(name, total.devices, total.free, largest, largest)


def _largest(name: str, state: ClusterState) -> int:
    """Return the largest number of devices of a class that one claim can have on one node now."""
    allocator = state.cluster.allocator()
    low, high = 0, 1
    # Doubled until it does not fit, then halved: the number is small, and the devices of a node are few.
    while _fits(allocator, name, high, state):
        low, high = high, high * 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if _fits(allocator, name, middle, state) else (low, middle)
    return low


def _fits(allocator: Allocator, name: str, count: int, state: ClusterState) -> bool:
    prepared = allocator.prepare([_claim(name, count)])
    try:
        return bool(prepared.on_each(state.nodes).fitting())
    except AllocationError:
        return False


# --- text


def defrag_text(found: Defragmentation, width: int = 100, style: Style = plain) -> str:
    """Return the plan as text."""
    found = printable_values(found)
    return "\n".join(line.rstrip() for line in _lines(found, width, style))


def _lines(found: Defragmentation, width: int, style: Style) -> Iterator[str]:
    rows = [
        (one.device_class, str(one.devices), str(one.free), str(one.before), str(one.after)) for one in found.classes
    ]
    yield from table_lines(("CLASS", "DEVICES", "FREE", "LARGEST", "AFTER"), rows, width, style)
    yield ""
    if not found.better:
        yield "no moves enlarge the largest request of a class"
    for move in found.moves:
        yield from wrapped(move_line(move), width, "", "    ")
    if found.steps:
        yield ""
        yield style("Steps", "title")
        yield from step_lines(found.steps, width, style)
    if found.proved is not None:
        text = "simulations of these steps end with nodes for all pods, and for the larger requests"
        yield from wrapped(text if found.proved else "a simulation of these steps ends otherwise", width, "", "  ")
    if not found.complete:
        yield "a search ended at its bound of trials: larger requests may be possible"
    for note in dict.fromkeys(note.text for note in found.notes):
        yield from wrapped(f"! {note}", width, "", "  ")
