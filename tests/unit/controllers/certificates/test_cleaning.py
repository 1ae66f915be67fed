"""Requests that are over are deleted."""

from __future__ import annotations

import pytest

from cathedra.client.resources import CERTIFICATESIGNINGREQUESTS
from tests.unit.apiserver.guarded import Guarded, guarded
from tests.unit.controllers.certificates.requests import asked, controllers, joined, request

HOUR = 3600


async def left(api: Guarded, seconds: float) -> int:
    """How many requests there are after so long."""
    async with controllers(api):
        await api.clock.sleep(seconds)
    return len((await api.admin.resource(CERTIFICATESIGNINGREQUESTS).list()).items)


@pytest.mark.parametrize(("seconds", "count"), [(HOUR / 2, 1), (2 * HOUR + 60, 0)])
def test_a_request_is_deleted_an_hour_after_its_decision(seconds: float, count: int) -> None:
    async def body(api: Guarded) -> None:
        await joined(api, asked("system:node:n1"))
        assert await left(api, seconds) == count

    guarded(body)


@pytest.mark.parametrize(("seconds", "count"), [(23 * HOUR, 1), (26 * HOUR, 0)])
def test_a_request_that_is_not_decided_on_is_deleted_after_a_day(seconds: float, count: int) -> None:
    async def body(api: Guarded) -> None:
        await api.admin.resource(CERTIFICATESIGNINGREQUESTS).create(request(asked("me")))
        assert await left(api, seconds) == count

    guarded(body)
