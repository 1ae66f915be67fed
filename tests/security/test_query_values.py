"""Numbers and booleans of a query: bounded before they are read, and read everywhere in the same way."""

from __future__ import annotations

import pytest

from cathedra.apiserver.requestinfo import request_info
from tests.costs import costs_less_than
from tests.unit.apiserver.asgi import open_asgi

PODS = "/api/v1/namespaces/default/pods"
LONG = "9" * 100_000
SECONDS = 0.5


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", f"{PODS}?limit={LONG}", 400),
        ("GET", f"{PODS}?resourceVersion={LONG}", 400),
        ("GET", f"{PODS}/nothing?resourceVersion={LONG}", 500),
        ("GET", f"{PODS}?watch=1&resourceVersion={LONG}", 500),
        ("GET", f"{PODS}?watch=1&timeoutSeconds={LONG}", 400),
        ("GET", f"{PODS}?timeout={LONG}s", 400),
        ("GET", f"{PODS}?timeout={'1h' * 50_000}", 400),
        ("GET", f"{PODS}?timeout={'1' * 50_000}.{'1' * 50_000}x", 400),
        ("DELETE", f"{PODS}/nothing?gracePeriodSeconds={LONG}", 400),
        ("DELETE", f"{PODS}/nothing?gracePeriodSeconds=-{LONG}", 400),
        ("GET", f"{PODS}/nothing/log?tailLines={LONG}", 404),
    ],
)
async def test_numbers_of_any_length_are_refused_at_once(method: str, path: str, status: int) -> None:
    async with open_asgi() as asgi:
        with costs_less_than(SECONDS):
            answer = await asgi(method, path)
    assert answer.status == status, answer.body[:300]
    assert len(answer.body) < 2 * len(path)


async def test_a_bad_number_is_refused_without_credentials_as_fast() -> None:
    async with open_asgi() as asgi:
        with costs_less_than(SECONDS):
            assert (await asgi("GET", f"{PODS}?timeout={LONG}", user="")).status == 400


async def test_a_query_of_very_many_parameters_is_not_read() -> None:
    async with open_asgi() as asgi:
        assert (await asgi("GET", f"{PODS}?{'&a=1' * 200_000}")).status == 400
        assert (await asgi("GET", f"{PODS}?{'&a=1' * 900}")).status == 200


def test_long_paths_are_not_kept() -> None:
    from cathedra.apiserver import requestinfo

    before = requestinfo._cached.cache_info().currsize
    for number in range(100):
        request_info("GET", f"/api/v1/namespaces/{number}{'x' * 10_000}/pods")
    assert requestinfo._cached.cache_info().currsize == before


@pytest.mark.parametrize("value", ["true", "True", "TRUE", "t", "T", "1", "yes", ""])
async def test_every_true_watch_is_counted_as_one_and_holds_no_seat(value: str) -> None:
    """What Kubernetes reads as true (anything but ``false`` and ``0``) is authorized, counted and served as a watch."""
    async with open_asgi() as asgi:
        answer = await asgi("GET", f"{PODS}?watch={value}&timeoutSeconds=0")
        text = (await asgi("GET", "/metrics")).body.decode()
    assert answer.status == 200
    assert b'"items"' not in answer.body
    assert 'apiserver_request_total{code="200",component="apiserver",dry_run="",group="",resource="pods"' in text
    assert 'verb="WATCH"' in text
    assert 'verb="LIST"' not in text


@pytest.mark.parametrize("value", ["false", "False", "FALSE", "0"])
async def test_a_watch_that_is_denied_is_a_list(value: str) -> None:
    async with open_asgi() as asgi:
        assert (await asgi("GET", f"{PODS}?watch={value}")).json["items"] == []
