"""The store in etcd in virtual time, with members that hang."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from cathedra.apiserver.storage.etcd import EtcdAddress, EtcdStorage
from cathedra.apiserver.storage.protocol import StoreUnavailable
from cathedra.clock import LoopClock, run_virtual
from tests.running import run_with
from tests.unit.apiserver.storage.etcd.fakemember import Cluster

ENDPOINTS = ("m0:1", "m1:1", "m2:1")


@asynccontextmanager
async def following(cluster: Cluster) -> AsyncIterator[tuple[EtcdStorage, dict[str, int]]]:
    """A store, and the revisions of the keys that it has followed."""
    store = EtcdStorage(
        EtcdAddress.parse(f"etcd://{','.join(cluster.members)}"), clock=LoopClock(asyncio.get_running_loop())
    )
    for endpoint, member in cluster.members.items():
        store._connection._channels[endpoint] = (_Channel(), member)
    content = await store.load(lambda _: None)
    seen: dict[str, int] = {}

    async def follow() -> None:
        async with contextlib.aclosing(store.follow(content.revision)) as stream:
            async for progress in stream:
                seen.update({write.key: write.revision for write in progress.writes})

    task = asyncio.create_task(follow())
    await asyncio.sleep(0.01)
    try:
        yield store, seen
    finally:
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await store.close()


class _Channel:
    async def close(self, grace: Any) -> None:
        """There is nothing to close."""


def virtual(test: Any) -> None:
    run_virtual(test())


@run_with(virtual)
async def test_a_watch_on_a_member_that_hangs_is_made_anew_at_one_that_answers() -> None:
    cluster = Cluster(*ENDPOINTS)
    async with following(cluster) as (store, seen):
        # Calls go elsewhere already, so none of them fails.
        store._connection._current = 1
        cluster.hanging.add("m0:1")
        made = await store.write("pods/a/b", b"1", expected=0)
        assert "pods/a/b" not in seen
        await asyncio.sleep(3.2)
        assert seen["pods/a/b"] == made
        assert store.problem == ""


@run_with(virtual)
async def test_while_the_watch_is_silent_the_problem_names_its_member() -> None:
    cluster = Cluster("m0:1")
    async with following(cluster) as (store, seen):
        cluster.silent.add("m0:1")
        await store.write("pods/a/b", b"1", expected=0)
        await asyncio.sleep(3.2)
        assert store.problem == (
            "etcd at m0:1 does not answer: the watch is at revision 11, and revision 12 was acknowledged"
        )
        cluster.silent.clear()
        await asyncio.sleep(5)
        assert "pods/a/b" in seen
        assert store.problem == ""


@run_with(virtual)
async def test_a_read_goes_on_at_the_next_member_and_takes_the_watch_along() -> None:
    cluster = Cluster(*ENDPOINTS)
    async with following(cluster) as (store, seen):
        cluster.hanging.add("m0:1")
        began = asyncio.get_running_loop().time()
        await store.latest()
        assert asyncio.get_running_loop().time() - began < 2.1
        made = await store.write("pods/a/b", b"1", expected=0)
        await asyncio.sleep(0.2)
        assert seen["pods/a/b"] == made


@run_with(virtual)
async def test_a_write_to_a_member_that_hangs_is_not_sent_to_another() -> None:
    cluster = Cluster(*ENDPOINTS)
    async with following(cluster) as (store, _seen):
        first = await store.write("pods/a/b", b"1", expected=0)
        sent = len(cluster.transactions)
        cluster.hanging.add("m0:1")
        with pytest.raises(StoreUnavailable) as caught:
            await store.write("pods/a/b", b"2", expected=first)
        assert caught.value.unknown
        assert len(cluster.transactions) == sent
        await store.write("pods/a/b", b"3", expected=first)
        await asyncio.sleep(0.2)
        assert cluster.stored[b"/registry/pods/a/b"][1] == b"3"


@run_with(virtual)
async def test_a_watch_is_left_alone_while_nothing_is_missing() -> None:
    cluster = Cluster(*ENDPOINTS)
    async with following(cluster) as (store, _seen):
        await store.write("pods/a/b", b"1", expected=0)
        await asyncio.sleep(600)
        assert store._watched == "m0:1"
        assert len(cluster._watches) == 1


@run_with(virtual)
async def test_a_watch_that_is_left_before_its_first_write_is_sent_is_made_anew() -> None:
    cluster = Cluster("m0:1")
    async with following(cluster) as (store, seen):
        cluster.connecting.add("m0:1")
        store._connection.leave("m0:1", "the connection was reset")
        await asyncio.sleep(0.2)
        store._connection.leave("m0:1", "the connection was reset again")
        cluster.connecting.clear()
        made = await store.write("pods/a/b", b"1", expected=0)
        await asyncio.sleep(2.5)
        assert seen["pods/a/b"] == made
        assert store.problem == ""


@run_with(virtual)
async def test_a_member_at_which_no_watch_begins_is_left() -> None:
    cluster = Cluster(*ENDPOINTS)
    async with following(cluster) as (store, seen):
        cluster.connecting.add("m1:1")
        store._connection.leave("m0:1", "the connection was reset")
        await asyncio.sleep(2.5)
        made = await store.write("pods/a/b", b"1", expected=0)
        await asyncio.sleep(0.5)
        assert store._watched == "m2:1"
        assert seen["pods/a/b"] == made
