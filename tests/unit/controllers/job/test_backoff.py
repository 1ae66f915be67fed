"""Pauses before a job's pods are replaced."""

from __future__ import annotations

from cathedra.api.core.core_v1 import (
    Pod,
)
from cathedra.api.core.meta_v1 import ObjectMeta
from cathedra.api.struct import Time
from cathedra.controllers.job.backoff import PodFailures, pause_after


def test_pauses_double_up_to_ten_minutes_and_a_success_ends_them() -> None:
    assert [pause_after(failures, 100.0, 100.0) for failures in (0, 1, 2, 3, 7, 50)] == [0, 10, 20, 40, 600, 600]
    assert PodFailures(3, 100.0).pause(130.0) == 10
    ended = Pod(metadata=ObjectMeta(creation_timestamp=Time(120)))
    assert PodFailures(3, 100.0).after((), (ended,), 120.0) == PodFailures(4, 120.0)
    assert PodFailures(3, 100.0).after((ended,), (ended,), 120.0) == PodFailures()
