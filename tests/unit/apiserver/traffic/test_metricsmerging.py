"""Expositions of several processes become that of one server."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from cathedra.apiserver.traffic.metricsmerging import COMMON, merged
from tests.unit.apiserver.asgi import open_asgi

MAPS = "/api/v1/namespaces/default/configmaps"
Sample = tuple[str, frozenset[tuple[str, str]]]
Counts = dict[str, int]


def samples(text: bytes) -> dict[Sample, float]:
    """What a reader of the exposition finds; each series may be in it once."""
    found: dict[Sample, float] = {}
    for family in text_string_to_metric_families(text.decode()):
        for sample in family.samples:
            key = sample.name, frozenset(sample.labels.items())
            assert key not in found
            found[key] = sample.value
    return found


def types(text: bytes) -> dict[str, str]:
    return {family.name: family.type for family in text_string_to_metric_families(text.decode())}


def exposition(*, requests: Counts, seconds: Sequence[float] = (), objects: Counts | None = None) -> bytes:
    """The figures of a process: requests by resource, how long some took, and objects by resource."""
    registry = CollectorRegistry()
    counter = Counter("apiserver_request", 'With a \\ and\na "quote".', ("resource",), registry=registry)
    for resource, count in requests.items():
        counter.labels(resource).inc(count)
    durations = Histogram("apiserver_request_duration_seconds", "How long.", buckets=(0.5, 1.0), registry=registry)
    for value in seconds:
        durations.observe(value)
    stored = Gauge("apiserver_storage_objects", "Objects.", ("resource",), registry=registry)
    for resource, count in (objects or {}).items():
        stored.labels(resource).set(count)
    lines = generate_latest(registry).decode().split("\n")
    return "\n".join(line for line in lines if "_created" not in line).encode()


def process(**figures: float) -> bytes:
    return "".join(
        f"# HELP process_{k} Of it.\n# TYPE process_{k} gauge\nprocess_{k} {v}\n" for k, v in figures.items()
    ).encode()


labels = st.text(max_size=6)
counts = st.dictionaries(labels, st.integers(0, 2**40), max_size=5)
eighths = st.lists(st.integers(0, 16).map(lambda number: number / 8), max_size=5)  # sums of them are exact
expositions = st.builds(exposition, requests=counts, seconds=eighths, objects=counts)


def test_requests_are_added_and_objects_are_not() -> None:
    text = merged(
        [
            exposition(requests={"pods": 3, "nodes": 1}, seconds=[0.25, 2.0], objects={"pods": 7}),
            exposition(requests={"pods": 2, "leases": 5}, seconds=[0.75], objects={"pods": 6, "gone": 1}),
        ]
    )
    duration = "apiserver_request_duration_seconds"
    assert samples(text) == {
        ("apiserver_request_total", frozenset({("resource", "pods")})): 5,
        ("apiserver_request_total", frozenset({("resource", "nodes")})): 1,
        ("apiserver_request_total", frozenset({("resource", "leases")})): 5,
        (f"{duration}_bucket", frozenset({("le", "0.5")})): 1,
        (f"{duration}_bucket", frozenset({("le", "1.0")})): 2,
        (f"{duration}_bucket", frozenset({("le", "+Inf")})): 3,
        (f"{duration}_count", frozenset()): 3,
        (f"{duration}_sum", frozenset()): 3.0,
        ("apiserver_storage_objects", frozenset({("resource", "pods")})): 7,
    }
    assert types(text) == {
        "apiserver_request": "counter",
        duration: "histogram",
        "apiserver_storage_objects": "gauge",
    }


def test_a_process_means_and_their_limits_are_added_but_not_its_start() -> None:
    text = merged(
        [
            process(start_time_seconds=1.7e9, max_fds=1024, open_fds=9, resident_memory_bytes=5.0e7),
            process(start_time_seconds=1.6e9, max_fds=512, open_fds=8, resident_memory_bytes=4.0e7),
        ]
    )
    assert {name: value for (name, _), value in samples(text).items()} == {
        "process_start_time_seconds": 1.6e9,
        "process_max_fds": 1536,
        "process_open_fds": 17,
        "process_resident_memory_bytes": 9.0e7,
    }


def test_one_text_alone_is_left_as_it_is() -> None:
    text = exposition(requests={"pods": 10**7})
    assert merged([text]) is text


@pytest.mark.parametrize(
    ("texts", "why"),
    [
        ([], "at least one process"),
        ([b"a 1\n", b"a 1\n"], "stands before any"),
        ([b"# HELP a\n<html>", b""], "could not convert"),
    ],
)
def test_what_is_no_exposition_is_refused(texts: list[bytes], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        merged(texts)


@given(st.lists(expositions, min_size=2, max_size=4))
def test_each_sum_is_that_of_the_texts(texts: list[bytes]) -> None:
    found = samples(merged(texts))
    apart = [samples(text) for text in texts]
    added = {key for one in apart for key in one if key[0] not in COMMON}
    assert {key: value for key, value in found.items() if key[0] not in COMMON} == {
        key: sum(one.get(key, 0) for one in apart) for key in added
    }
    assert {key: value for key, value in found.items() if key[0] in COMMON} == {
        key: value for key, value in apart[0].items() if key[0] in COMMON
    }


@given(st.lists(expositions, min_size=2, max_size=5), st.data())
def test_it_does_not_matter_which_texts_are_merged_first(texts: list[bytes], data: st.DataObject) -> None:
    at = data.draw(st.integers(1, len(texts) - 1))
    assert merged([merged(texts[:at]), merged(texts[at:])]) == merged(texts)


async def test_two_servers_together_have_answered_what_each_has() -> None:
    texts = []
    for requests in (2, 3):
        async with open_asgi() as asgi:
            await asgi("POST", MAPS, {"metadata": {"name": "a"}})
            for _ in range(requests):
                await asgi("GET", f"{MAPS}/a")
            texts.append(asgi.server.app.metrics.text())
    text = merged(texts)
    assert types(text) == types(texts[0])
    assert list(_values(text, "apiserver_request_total", ("code", "200"), ("verb", "GET"))) == [5]
    assert list(_values(text, "apiserver_request_duration_seconds_count", ("verb", "POST"))) == [2]
    assert list(_values(text, "apiserver_resource_objects", ("resource", "configmaps"))) == [1]


async def test_of_every_gauge_it_is_known_whether_processes_have_it_in_common() -> None:
    """A new one has to be entered in `COMMON`, or here."""
    added = {
        "apiserver_current_inflight_requests",
        "apiserver_flowcontrol_current_executing_seats",
        "apiserver_flowcontrol_current_inqueue_requests",
        "apiserver_longrunning_requests",
        "process_max_fds",
        "process_open_fds",
        "process_resident_memory_bytes",
        "process_virtual_memory_bytes",
    }
    async with open_asgi() as asgi:
        found = types(asgi.server.app.metrics.text())
    assert {name for name, type_ in found.items() if type_ == "gauge"} == added | COMMON.keys()


def _values(text: bytes, name: str, *labels: tuple[str, str]) -> Iterator[float]:
    return (value for (found, having), value in samples(text).items() if found == name and having >= set(labels))
