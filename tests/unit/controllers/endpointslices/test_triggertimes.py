"""Since when endpoints are others."""

from __future__ import annotations

from cathedra.api.struct import Time
from cathedra.client.objects import ObjectKey, with_metadata
from cathedra.controllers.endpointslices.triggertimes import TriggerTimes
from tests.unit.controllers.endpointslices.objects import pod, service

KEY = ObjectKey("default", "web")
CREATED = Time.parse("2026-01-01T00:00:00Z")
WEB = with_metadata(service(), creation_timestamp=CREATED)


def test_the_oldest_new_time_counts_and_each_only_once() -> None:
    times = TriggerTimes()
    assert times.changed(KEY, WEB, ()) == CREATED
    later, latest = (
        pod(name, "10.0.0.1", since=f"2026-01-01T00:00:0{second}Z") for name, second in (("a", 5), ("b", 9))
    )
    assert times.changed(KEY, WEB, [latest, later]) == Time.parse("2026-01-01T00:00:05Z")
    assert times.changed(KEY, WEB, [latest, later]) is None


def test_a_service_that_comes_again_has_its_time_again() -> None:
    times = TriggerTimes()
    times.changed(KEY, WEB, ())
    times.forget(KEY)
    assert times.changed(KEY, WEB, ()) == CREATED
