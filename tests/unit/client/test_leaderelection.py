"""At most one candidate leads, and one does."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from cathedra.api.core.coordination_v1 import Lease
from cathedra.client.client import Client
from cathedra.client.leaderelection import LeaderElector, LostLeadership
from cathedra.client.transport import APICall
from cathedra.clock import run_virtual
from tests.running import on_virtual_clock
from tests.unit.client.fake_transport import FakeTransport


def elector(server: FakeTransport, name: str) -> LeaderElector:
    return LeaderElector(Client(server, clock=server.clock()), "lock", name, clock=server.clock())


async def forever() -> None:
    await asyncio.get_running_loop().create_future()


async def stop(task: asyncio.Future[Any]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def lease(server: FakeTransport) -> Lease:
    found = server.objects["leases", "kube-system", "lock"]
    assert isinstance(found, Lease)
    return found


@on_virtual_clock
async def test_the_second_waits_until_the_first_gives_the_lease_back() -> None:
    server = FakeTransport()
    a, b = elector(server, "a"), elector(server, "b")
    first = asyncio.ensure_future(a.run(forever))
    await asyncio.sleep(1)
    second = asyncio.ensure_future(b.run(forever))
    await asyncio.sleep(100)
    assert (a.leading, b.leading, b.leader) == (True, False, "a")
    await stop(first)
    await asyncio.sleep(4)
    assert b.leading
    assert lease(server).spec.lease_transitions == 1
    await stop(second)


@on_virtual_clock
async def test_a_dead_leader_is_followed_after_its_lease_has_run_out() -> None:
    server = FakeTransport()
    dead = asyncio.ensure_future(elector(server, "dead").run(forever))
    await asyncio.sleep(1)
    left_behind = lease(server)
    await stop(dead)
    server.objects["leases", "kube-system", "lock"] = left_behind
    b = elector(server, "b")
    task = asyncio.ensure_future(b.run(forever))
    await asyncio.sleep(14)
    assert not b.leading
    await asyncio.sleep(4)
    assert b.leading
    await stop(task)


def test_a_leader_that_cannot_renew_stops_working() -> None:
    async def main() -> float:
        server = FakeTransport()
        cancelled_at = 0.0
        loop = asyncio.get_running_loop()

        async def lead() -> None:
            nonlocal cancelled_at
            try:
                await forever()
            finally:
                cancelled_at = loop.time()

        task = asyncio.ensure_future(elector(server, "a").run(lead))
        await asyncio.sleep(1)
        server.failures += [ConnectionError("down")] * 100
        with pytest.raises(LostLeadership):
            await task
        return cancelled_at

    assert run_virtual(main()) <= 12


@on_virtual_clock
async def test_an_error_in_the_work_ends_it_and_frees_the_lease() -> None:
    server = FakeTransport()

    async def lead() -> None:
        await asyncio.sleep(5)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await elector(server, "a").run(lead)
    assert lease(server).spec.holder_identity == ""


class Lasting(FakeTransport):
    """A server whose writes take a while, and go on when the client has left."""

    async def update(self, call: APICall) -> Any:
        async def lasting() -> Any:
            await asyncio.sleep(0.3)
            return await super(Lasting, self).update(call)

        return await asyncio.shield(asyncio.ensure_future(lasting()))


@on_virtual_clock
async def test_a_lease_is_given_back_also_when_its_last_renewal_comes_in_between() -> None:
    server = Lasting()
    leading = asyncio.ensure_future(elector(server, "a").run(forever))
    await asyncio.sleep(2.1)  # the first renewal is under way
    assert ("update", "leases", "lock") not in server.requests
    await stop(leading)
    assert lease(server).spec.holder_identity == ""
