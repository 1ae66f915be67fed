"""Prometheus' text format is written as Go's client library writes it."""

from __future__ import annotations

import pytest
from prometheus_client import CollectorRegistry, Counter

from cathedra.exposition import Family, Metric, go_number, text_of
from cathedra.histogram import Histogram


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (0, "0"),
        (-0.0, "0"),
        (True, "1"),
        (0.005, "0.005"),
        (100000, "100000"),
        (1e6, "1e+06"),
        (49451008.0, "4.9451008e+07"),
        (0.0001, "0.0001"),
        (0.00001, "1e-05"),
        (-2.5, "-2.5"),
        (float("inf"), "+Inf"),
        (float("-inf"), "-Inf"),
        (float("nan"), "NaN"),
    ],
)
def test_numbers_are_written_as_go_writes_them(value: float, written: str) -> None:
    assert go_number(value) == written


def test_a_counter_keeps_its_name() -> None:
    family = Family(Metric("attempts", "counter", "Attempts.", ("result",)))
    family.add(('a"b\n',), 2)
    assert text_of([family]).decode().splitlines() == [
        "# HELP attempts Attempts.",
        "# TYPE attempts counter",
        'attempts{result="a\\"b\\n"} 2',
    ]


def test_bounds_follow_the_other_labels() -> None:
    histogram = Histogram((0.5, 1.0))
    histogram.add(0.75)
    family = Family(Metric("seconds", "histogram", "Seconds.", ("verb",)))
    family.add_histogram(("GET",), histogram)
    assert text_of([family]).decode().splitlines()[2:] == [
        'seconds_bucket{verb="GET",le="0.5"} 0',
        'seconds_bucket{verb="GET",le="1"} 1',
        'seconds_bucket{verb="GET",le="+Inf"} 1',
        'seconds_sum{verb="GET"} 0.75',
        'seconds_count{verb="GET"} 1',
    ]


def test_a_family_without_series_is_left_out() -> None:
    assert text_of([Family(Metric("nothing", "gauge", "Nothing."))]) == b""


def test_counters_of_prometheus_client_are_shown_without_their_time_of_creation() -> None:
    registry = CollectorRegistry()
    Counter("calls", "Calls.", registry=registry).inc()
    assert text_of(registry.collect()).decode().splitlines() == [
        "# HELP calls_total Calls.",
        "# TYPE calls_total counter",
        "calls_total 1",
    ]
