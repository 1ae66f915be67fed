"""Work on an object grows with its lists, not with their square, and no refusal grows faster than what is refused."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from functools import cache, partial
from typing import Any

import msgspec
import pytest

from cathedra.api.core.meta_v1 import ObjectMeta
from cathedra.api.field import ErrorList
from cathedra.api.status import invalid
from cathedra.api.struct import encode, from_dict, to_dict
from cathedra.apiserver.ownership import typed
from cathedra.apiserver.patches.merge_patch import merge_patch
from cathedra.apiserver.patches.schema import struct_shape
from cathedra.apiserver.patches.strategic import strategic_patch
from cathedra.kinds.definition import ResourceDefinition, Strategy
from cathedra.kinds.metadata import validate_changed_metadata, validate_new_metadata
from cathedra.kinds.served import all_definitions
from tests.unit.kinds.filled import Part, filled, filled_whole, parts_with_lists
from tests.unit.kinds.objects import context, created, gates, updated

FEW, MANY = 150, 600
NOISE = 0.04
"""Seconds of processor time below which nothing is concluded from a measurement."""
MARGIN = 2.2
"""Allowed growth of the time beyond proportion. Quadratic work takes four times more."""
ROOM = 192 * 1024
"""Bytes of a refusal beside what was sent: a message of 64 KiB, and the same in 500 causes."""

LIKE_DEPLOYMENTS = ("CronJob", "DaemonSet", "Job", "PodTemplate", "ReplicaSet", "ReplicationController", "StatefulSet")
"""Kinds with a template of pods, whose rules are those of the template of a deployment."""

Step = tuple[str, Callable[[], object]]


@cache
def parts() -> tuple[Part, ...]:
    return tuple(parts_with_lists(all_definitions(gates(everything=True))))


def steps(part: Part, entries: int, *, alike: bool) -> Iterator[Step]:
    """Process an object with a number of entries, on create, update, patch and apply."""
    definition, request = part.definition, context(everything=True)
    sent = filled(part, entries, first=entries, alike=alike)
    new, old = from_dict(definition.type, sent), from_dict(definition.type, filled(part, entries, alike=alike))
    strategies = definition.strategy, *definition.subresources.values()
    yield "create", lambda: refused(part, created(strategies[0], new, request)[1], sent)
    yield "warn", lambda: list(strategies[0].warnings(new, None, request))
    for number, strategy in enumerate(strategies):
        yield f"update {number}", partial(changed, part, strategy, new, old, sent)
    if part.type is ObjectMeta:
        yield "metadata", lambda: validate_new_metadata(definition, new.metadata, gates())
        ending = msgspec.structs.replace(old.metadata, deletion_timestamp=old.metadata.creation_timestamp)
        yield "changed metadata", lambda: validate_changed_metadata(new.metadata, ending, gates(), rounds=2)
    version = definition.versions[0]
    shape = struct_shape(version.type)
    wanted, stored = to_dict(version.from_hub(new)), to_dict(version.from_hub(old))
    yield "strategic patch", lambda: strategic_patch(stored, wanted, shape)
    yield "merge patch", lambda: merge_patch(stored, wanted)
    yield "apply", lambda: typed.check(wanted, shape) or typed.merge(stored, wanted, shape)


def changed(part: Part, strategy: Strategy[Any], new: Any, old: Any, sent: Any) -> None:
    refused(part, updated(strategy, new, old, context(everything=True))[1], sent)


def refused(part: Part, errors: ErrorList, sent: Any) -> None:
    if errors:
        answer = encode(invalid(part.definition.group, part.definition.kind, "x", errors).status)
        assert len(answer) < len(json.dumps(sent)) + ROOM, f"{part}: {len(answer)} bytes of refusal"


def seconds(step: Callable[[], object]) -> float:
    started = time.process_time()
    step()
    return time.process_time() - started


def grows_too_fast(part: Part, *, alike: bool) -> list[str]:
    """The steps whose time grows much faster than the object."""
    return [
        name
        for (name, many), (_, few) in zip(steps(part, MANY, alike=alike), steps(part, FEW, alike=alike), strict=True)
        # What was slow once by chance is not so three times.
        if all((slow := seconds(many)) > NOISE and slow > MARGIN * MANY / FEW * seconds(few) for _ in range(3))
    ]


@pytest.mark.parametrize("alike", [False, True])
def test_time_grows_with_every_list(alike: bool) -> None:
    slow = {str(part): found for part in parts() if (found := grows_too_fast(part, alike=alike))}
    assert not slow


def calls(step: Callable[[], object]) -> int:
    """Return the number of functions that a step calls."""
    count = 0

    def counted(frame: object, event: str, argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(counted)
    try:
        step()
    finally:
        sys.setprofile(None)
    return count


def whole_steps(definition: ResourceDefinition[Any], entries: int) -> Iterator[Step]:
    """What is done with an object all of whose lists are long, whose names are those of one another."""
    request = context(everything=True)
    new = from_dict(definition.type, filled_whole(definition, entries, first=entries))
    old, same = (from_dict(definition.type, filled_whole(definition, entries)) for _ in range(2))
    yield "create", partial(created, definition.strategy, new, request)
    for number, strategy in enumerate((definition.strategy, *definition.subresources.values())):
        yield f"change {number}", partial(updated, strategy, new, old, request)
        yield f"repeat {number}", partial(updated, strategy, same, old, request)


def test_no_list_is_gone_through_once_for_each_entry_of_another() -> None:
    """Four times the entries take four times the calls, and a few more for what is done once."""
    few, many, slow = 40, 160, []
    for definition in all_definitions(gates(everything=True)):
        if definition.kind in LIKE_DEPLOYMENTS:
            continue
        pairs = zip(whole_steps(definition, few), whole_steps(definition, many), strict=True)
        for (name, of_few), (_, of_many) in pairs:
            before = calls(of_few)
            after = calls(of_many)
            if after > 4.8 * max(before, 500):
                slow.append(f"{definition.kind} {name}: {before} calls, {after}")
    assert not slow
