"""Invariants of the advisor, by its events."""

from __future__ import annotations

from typing import Any

import pytest

from cathedra.advisor.events import COMPONENT
from cathedra.faultsim.advisorinvariants import AdvisorWritesOnce
from cathedra.faultsim.invariant import BrokenInvariant
from tests.unit.faultsim.builders import Story


def event(message: str, *, count: int = 1) -> dict[str, Any]:
    involved = {"kind": "Pod", "namespace": "default", "name": "p", "uid": "uid-p"}
    return {
        "involvedObject": involved,
        "reason": "DevicesExplained",
        "message": message,
        "count": count,
        "reportingComponent": COMPONENT,
    }


FREE, NODE = event("no device is free"), event("no node is there")
COUNTED = event("no device is free", count=2)


@pytest.mark.parametrize(
    ("allowed", "refused"),
    [
        ([("a", FREE), ("b", NODE), ("c", FREE)], ("d", FREE)),
        ([("a", FREE), ("a", FREE)], ("a", COUNTED)),
        ([("a", FREE), ("a", None), ("b", FREE)], ("c", FREE)),
        ([("a", FREE), ("b", NODE), ("a", None)], ("c", NODE)),
    ],
    ids=[
        "a changed event is right and a repeated one is found",
        "a higher count of an event is a repetition and other changes are none",
        "an expired event is written again once",
        "the expiry of an earlier event allows no repetition of the last",
    ],
)
def test_the_advisor_writes_an_event_once(
    allowed: list[tuple[str, dict[str, Any] | None]], refused: tuple[str, dict[str, Any]]
) -> None:
    story = Story()
    check = AdvisorWritesOnce(story.chronicle)
    for name, written in allowed:
        story.write("events", name, written, check)
    with pytest.raises(BrokenInvariant, match="p has two events DevicesExplained"):
        story.write("events", *refused, check)
