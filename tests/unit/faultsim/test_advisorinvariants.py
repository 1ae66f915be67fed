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


def test_a_repeated_event_is_found_and_a_changed_one_is_right() -> None:
    story = Story()
    check = AdvisorWritesOnce(story.chronicle)
    story.write("events", "a", event("no device is free"), check)
    story.write("events", "b", event("no node is there"), check)
    story.write("events", "c", event("no device is free"), check)
    with pytest.raises(BrokenInvariant, match="p has two events DevicesExplained"):
        story.write("events", "d", event("no device is free"), check)


def test_a_repetition_within_an_event_counts_and_other_changes_of_it_do_not() -> None:
    story = Story()
    check = AdvisorWritesOnce(story.chronicle)
    story.write("events", "a", event("no device is free"), check)
    story.write("events", "a", event("no device is free"), check)
    with pytest.raises(BrokenInvariant):
        story.write("events", "a", event("no device is free", count=2), check)


def test_an_event_is_written_again_after_it_has_expired() -> None:
    story = Story()
    check = AdvisorWritesOnce(story.chronicle)
    story.write("events", "a", event("no device is free"), check)
    story.write("events", "a", None, check)
    story.write("events", "b", event("no device is free"), check)
    with pytest.raises(BrokenInvariant):
        story.write("events", "c", event("no device is free"), check)


def test_the_expiry_of_an_earlier_event_allows_no_repetition_of_the_last() -> None:
    story = Story()
    check = AdvisorWritesOnce(story.chronicle)
    story.write("events", "a", event("no device is free"), check)
    story.write("events", "b", event("no node is there"), check)
    story.write("events", "a", None, check)
    with pytest.raises(BrokenInvariant):
        story.write("events", "c", event("no node is there"), check)
