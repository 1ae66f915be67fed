"""Pods are created, deleted, adopted and released in the name of their owner."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from itertools import pairwise

import pytest

from cathedra.api.core.apps_v1 import ReplicaSet
from cathedra.api.core.core_v1 import PodTemplateSpec
from cathedra.api.core.meta_v1 import ObjectMeta
from cathedra.client.events import EventRecorder
from cathedra.client.resources import PODS
from cathedra.controllers.expectations import Expectations
from cathedra.controllers.podcontrol import BEGUN_TOGETHER, PodControl, attempt_all, pod_from_template
from tests.unit.inprocess import API, with_api
from tests.unit.scheduler.objects import pod

OWNER = ReplicaSet(metadata=ObjectMeta(name="web", namespace="default", uid="uid-web"))


def with_control(body: Callable[[API, PodControl, Expectations[str]], Awaitable[None]]) -> None:
    async def main(api: API) -> None:
        expectations: Expectations[str] = Expectations(api.informers.of(PODS), api.clock)
        recorder = EventRecorder(api.client, "replicaset-controller", api.clock)
        await body(api, PodControl(api.client, recorder, expectations), expectations)

    with_api(main)


def test_a_pod_from_a_template_is_named_after_its_owner_and_controlled_by_it() -> None:
    template = PodTemplateSpec(metadata=ObjectMeta(labels={"app": "x"}, finalizers=("a/b",)), spec=pod("p").spec)
    made = pod_from_template(template, OWNER)
    assert (made.metadata.generate_name, made.metadata.namespace) == ("web-", "default")
    assert (made.metadata.labels, made.metadata.finalizers) == ({"app": "x"}, ("a/b",))
    assert [(one.kind, one.name, one.controller) for one in made.metadata.owner_references] == [
        ("ReplicaSet", "web", True)
    ]


def test_the_first_refusal_ends_the_batch_and_is_answered() -> None:
    async def body(api: API, control: PodControl, expectations: Expectations[str]) -> None:
        names = ["p0", "p1", "p2", "p0", "p3", "p4", "p5", "p6"]
        refusal = await control.create_all(OWNER, [pod(name) for name in names])
        assert refusal is not None
        created = {one.metadata.name for one in (await api.client.resource(PODS, "default").list()).items}
        assert created == {"p0", "p1", "p2", "p3", "p4", "p5"}, "batches of one, two and four; there is no fourth"

    with_control(body)


def test_a_deletion_is_of_that_very_pod_and_one_that_is_gone_is_fine() -> None:
    async def body(api: API, control: PodControl, expectations: Expectations[str]) -> None:
        pods = api.client.resource(PODS, "default")
        created = await pods.create(pod("p"))
        await control.delete(OWNER, created)
        assert (await pods.list()).items == ()
        await control.delete(OWNER, created)

    with_control(body)


def test_a_pod_is_adopted_with_a_finalizer_and_released_without() -> None:
    async def body(api: API, control: PodControl, expectations: Expectations[str]) -> None:
        pods = api.client.resource(PODS, "default")
        await control.adopt(OWNER, await pods.create(pod("p")), "a/b")
        adopted = await pods.get("p")
        assert [one.uid for one in adopted.metadata.owner_references] == ["uid-web"]
        assert adopted.metadata.finalizers == ("a/b",)
        await control.release(OWNER, adopted, "a/b")
        released = await pods.get("p")
        assert (released.metadata.owner_references, released.metadata.finalizers) == ((), ())

    with_control(body)


async def test_the_requests_of_a_large_batch_are_begun_in_several_turns_of_the_loop() -> None:
    begun: list[int] = []
    seen: list[int] = []
    finish = asyncio.Event()

    async def attempt(number: int) -> int:
        begun.append(number)
        await finish.wait()
        if number == 7:
            raise ConnectionError
        return number

    async def watch() -> None:
        while len(begun) < 100:
            seen.append(len(begun))
            await asyncio.sleep(0)
        finish.set()

    results, _ = await asyncio.gather(attempt_all(range(100), attempt), watch())
    assert max(after - before for before, after in pairwise(seen)) <= 2 * BEGUN_TOGETHER
    assert [one for one in results if not isinstance(one, ConnectionError)] == [*range(7), *range(8, 100)]


async def test_a_batch_that_is_cancelled_leaves_no_request_behind() -> None:
    ended: list[int] = []

    async def attempt(number: int) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(number)

    running = asyncio.ensure_future(attempt_all(range(40), attempt))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    await asyncio.sleep(0)
    assert len(ended) >= BEGUN_TOGETHER
