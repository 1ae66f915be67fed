"""What a session pays for each request, and what it leaves to HTTP."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from cathedra.api.core.core_v1 import ConfigMap
from cathedra.api.status import StatusError
from cathedra.apiserver.authentication.user import MASTERS_GROUP, UserInfo
from cathedra.apiserver.custom.objects import CustomObject
from cathedra.apiserver.local.limits import Traffic, Turnstile
from cathedra.apiserver.traffic.deadlines import Deadlines
from cathedra.apiserver.traffic.flow import Flow
from cathedra.client.local.messages import LocalRequest, Options

AGGREGATED = ("example.com", "v1")


def request(verb: str, group: str = "", version: str = "v1") -> LocalRequest:
    return LocalRequest(1, 0, verb, group, version, "things", "default", "a", "", 0, Options())


def turnstile(flow: Flow, *groups: str) -> Turnstile:
    return Turnstile(Traffic(flow, Deadlines(), lambda: {AGGREGATED}), UserInfo("jane", groups))


@pytest.mark.parametrize(
    ("asked", "kind", "served"),
    [
        (request("create"), ConfigMap, True),
        (request("get", *AGGREGATED), ConfigMap, False),
        (request("get", "example.com", "v2"), CustomObject, True),
        (request("patch", "example.com", "v2"), CustomObject, True),
        (request("create", "example.com", "v2"), CustomObject, False),
        (request("update", "example.com", "v2"), CustomObject, False),
    ],
)
def test_other_servers_groups_and_bodies_of_custom_objects_are_left_to_http(
    asked: LocalRequest, kind: type[Any], served: bool
) -> None:
    assert turnstile(Flow()).serves(asked, kind) is served


async def test_a_request_holds_a_seat_for_as_long_as_it_is_worked_on() -> None:
    flow, go_on = Flow(seats=1), asyncio.Event()
    one = turnstile(flow)
    working = asyncio.create_task(one.carry(request("create"), go_on.wait))
    await asyncio.sleep(0)
    assert flow.taken == 1
    waiting = asyncio.create_task(one.carry(request("get"), go_on.wait))
    await asyncio.sleep(0)
    assert (flow.taken, flow.waiting) == (1, 1)
    master = turnstile(flow, MASTERS_GROUP)
    assert await master.carry(request("get"), lambda: asyncio.sleep(0, "at once")) == "at once"
    go_on.set()
    await asyncio.gather(working, waiting)
    assert (flow.taken, flow.waiting) == (0, 0)


async def test_who_waits_too_long_for_a_seat_is_told_to_come_again() -> None:
    flow, go_on = Flow(seats=1, wait=0.01), asyncio.Event()
    one = turnstile(flow)
    working = asyncio.create_task(one.carry(request("create"), go_on.wait))
    await asyncio.sleep(0)
    with pytest.raises(StatusError) as refused:
        await one.carry(request("get"), go_on.wait)
    assert refused.value.code == 429
    go_on.set()
    await working
