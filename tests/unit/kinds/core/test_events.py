"""Events in both groups."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from cathedra.api.core.core_v1 import Event
from cathedra.api.struct import from_dict
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
