"""Events in both groups."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cathedra.api.core.core_v1 import Event
from cathedra.api.core.events_v1 import Event as NewEvent
from cathedra.api.struct import from_dict, replace
from cathedra.kinds.core.events import event_from_core, event_to_core
from tests.unit.kinds.objects import context, created, definition_of, row, texts

WORDS = st.sampled_from(("", "a", "b"))
EVENTS = st.fixed_dictionaries(
    {
        "metadata": st.just({"name": "e", "namespace": "default"}),
        "involvedObject": st.fixed_dictionaries({"kind": st.just("Pod"), "name": WORDS}),
        "reason": WORDS,
        "message": WORDS,
        "type": st.sampled_from(("Normal", "Warning")),
        "count": st.integers(0, 9),
        "reportingComponent": WORDS,
        "reportingInstance": WORDS,
        "action": WORDS,
    },
    optional={"series": st.just({"count": 3, "lastObservedTime": "2026-01-01T00:00:00.000000Z"})},
)


@given(EVENTS)
def test_the_newer_group_shows_the_same_events(values: dict[str, Any]) -> None:
    event = from_dict(Event, values)
    assert event_to_core(event_from_core(event)) == event


def test_an_event_lies_in_the_namespace_of_its_object() -> None:
    values = {"metadata": {"name": "e", "namespace": "default"}, "involvedObject": {"namespace": "other"}}
    errors = created(definition_of("events").strategy, from_dict(Event, values), context())[1]
    assert texts(errors) == ['involvedObject.namespace: Invalid value: "other": does not match event.namespace']


def test_a_row_names_object_and_source() -> None:
    values = {
        "involvedObject": {"kind": "Pod", "name": "p"},
        "reportingComponent": "scheduler",
        "reportingInstance": "n1",
        "message": " done\n",
    }
    found = row("events", from_dict(Event, values))
    assert (found["Object"], found["Source"], found["Message"], found["Count"]) == ("pod/p", "scheduler, n1", "done", 1)


NEW = {
    "metadata": {"name": "e", "namespace": "ns"},
    "regarding": {"namespace": "ns"},
    "eventTime": "2026-01-01T00:00:00.000001Z",
    "reportingController": "example.com/c",
    "reportingInstance": "i",
    "action": "A",
    "reason": "R",
    "type": "Normal",
}


@pytest.mark.parametrize(
    ("changes", "wanted"),
    [
        ({}, []),
        ({"eventTime": None}, ["eventTime: Required value"]),
        ({"reportingController": ""}, ["reportingController: Required value", "reportingController: Invalid value"]),
        ({"action": ""}, ["action: Required value"]),
        ({"reason": ""}, ["reason: Required value"]),
        ({"action": "a" * 129}, ['action: Invalid value: "": can have at most 128 characters']),
        ({"note": "a" * 1025}, ['message: Invalid value: "": can have at most 1024 characters']),
        ({"type": "Foo"}, ['type: Invalid value: "": has invalid value: Foo']),
        ({"deprecatedCount": 1}, ['count: Invalid value: "": needs to be unset']),
        ({"deprecatedSource": {"host": "n"}}, ['source: Invalid value: "": needs to be unset']),
        ({"series": {"count": 1}}, ["series.count: Invalid value", "series.lastObservedTime: Required value"]),
    ],
)
def test_the_newer_group_is_strict(changes: dict[str, Any], wanted: list[str]) -> None:
    event = event_to_core(from_dict(NewEvent, NEW | changes))
    strict = replace(context(), api_version="events.k8s.io/v1")
    found = texts(created(definition_of("events").strategy, event, strict)[1])
    assert [text.startswith(begin) for text, begin in zip(found, wanted, strict=False)] == [True] * len(wanted)
    assert len(found) >= len(wanted)
    assert bool(found) == bool(wanted)


def test_only_the_series_of_a_newer_event_changes() -> None:
    strategy, strict = definition_of("events").strategy, replace(context(), api_version="events.k8s.io/v1")
    old = event_to_core(from_dict(NewEvent, NEW))
    series = {"count": 2, "lastObservedTime": "2026-01-01T00:00:01.000000Z"}
    again = event_to_core(from_dict(NewEvent, NEW | {"series": series}))
    assert strategy.validate_update(again, old, strict) == []
    other = event_to_core(from_dict(NewEvent, NEW | {"action": "B"}))
    assert texts(strategy.validate_update(other, old, strict)) == ['action: Invalid value: "B": field is immutable']
    assert strategy.validate_update(other, old, context()) == []
