"""Pods are created, deleted, adopted and released in the name of their owner."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from itertools import pairwise
from typing import Any

import pytest

from cathedra.api.core.apps_v1 import ReplicaSet
from cathedra.api.core.core_v1 import Pod, PodTemplateSpec
from cathedra.api.core.meta_v1 import LabelSelector, ObjectMeta, OwnerReference
from cathedra.api.struct import from_dict, to_dict
from cathedra.client.events import EventRecorder
from cathedra.client.objects import with_metadata
from cathedra.client.resources import NODES, PODS
from cathedra.controllers.expectations import Expectations
from cathedra.controllers.podcontrol import (
    BEGUN_TOGETHER,
    DELETION_COST,
    PodControl,
    attempt_all,
    evict,
    least_done_first,
    orphan_places,
    pod_from_template,
    same_orphan_places,
    selects,
    surplus_first,
)
from tests.running import run_with
from tests.unit.inprocess import API, with_api
from tests.unit.scheduler.objects import node, pod

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


@run_with(with_control)
async def test_the_first_refusal_ends_the_batch_and_is_answered(
    api: API, control: PodControl, expectations: Expectations[str]
) -> None:
    names = ["p0", "p1", "p2", "p0", "p3", "p4", "p5", "p6"]
    refusal = await control.create_all(OWNER, [pod(name) for name in names])
    assert refusal is not None
    created = {one.metadata.name for one in (await api.client.resource(PODS, "default").list()).items}
    assert created == {"p0", "p1", "p2", "p3", "p4", "p5"}, "batches of one, two and four; there is no fourth"


@run_with(with_control)
async def test_a_deletion_is_of_that_very_pod_and_one_that_is_gone_is_fine(
    api: API, control: PodControl, expectations: Expectations[str]
) -> None:
    pods = api.client.resource(PODS, "default")
    created = await pods.create(pod("p"))
    await control.delete(OWNER, created)
    assert (await pods.list()).items == ()
    await control.delete(OWNER, created)


@run_with(with_control)
async def test_a_pod_is_adopted_with_a_finalizer_and_released_without(
    api: API, control: PodControl, expectations: Expectations[str]
) -> None:
    pods = api.client.resource(PODS, "default")
    await control.adopt(OWNER, await pods.create(pod("p")), "a/b")
    adopted = await pods.get("p")
    assert [one.uid for one in adopted.metadata.owner_references] == ["uid-web"]
    assert adopted.metadata.finalizers == ("a/b",)
    await control.release(OWNER, adopted, "a/b")
    released = await pods.get("p")
    assert (released.metadata.owner_references, released.metadata.finalizers) == ((), ())


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


@pytest.mark.parametrize(
    ("selector", "selected"),
    [
        (None, False),
        ({}, False),
        ({"matchLabels": {"app": "x"}}, True),
        ({"matchLabels": {"app": "y"}}, False),
        ({"matchExpressions": [{"key": "app", "operator": "Exists"}]}, True),
        ({"matchExpressions": [{"key": "app", "operator": "Nonsense"}]}, False),
    ],
)
def test_an_empty_or_invalid_selector_selects_nothing(selector: dict[str, Any] | None, selected: bool) -> None:
    made = from_dict(LabelSelector, selector) if selector is not None else None
    assert selects(made, {"app": "x"}) is selected


def test_only_pods_without_a_controller_are_orphans() -> None:
    def owned(*, controller: bool) -> OwnerReference:
        return OwnerReference(api_version="v1", kind="Job", name="j", uid="u", controller=controller)

    alone = pod("p", labels={"app": "web"})
    places = ("default", "default/app=web")
    assert orphan_places(alone) == places
    assert orphan_places(with_metadata(alone, owner_references=(owned(controller=False),))) == places
    assert orphan_places(with_metadata(alone, owner_references=(owned(controller=True),))) == ()
    other = with_metadata(alone, labels={"app": "other"})
    assert same_orphan_places(alone, with_metadata(alone, annotations={"a": "b"}))
    assert not same_orphan_places(alone, other)
    assert not same_orphan_places(alone, with_metadata(alone, owner_references=(owned(controller=True),)))


def ranked_pod(
    name: str,
    *,
    node: str = "n1",
    phase: str = "Running",
    ready: str = "1970-01-01T00:01:40Z",
    cost: str = "",
    restarts: int = 0,
    created: str = "1970-01-01T00:00:01Z",
) -> Pod:
    conditions = [{"type": "Ready", "status": "True", "lastTransitionTime": ready}] if ready else []
    metadata: dict[str, Any] = {"name": name, "creationTimestamp": created}
    if cost:
        metadata["annotations"] = {DELETION_COST: cost}
    containers = [{"name": "c", "restartCount": restarts}]
    status = {"phase": phase, "conditions": conditions, "containerStatuses": containers}
    return from_dict(Pod, {"metadata": metadata, "spec": {"nodeName": node}, "status": status})


NOW = 10_000.0


def names(pods: list[Pod]) -> list[str]:
    return [one.metadata.name for one in pods]


@pytest.mark.parametrize(
    ("goes", "stays"),
    [
        (ranked_pod("a", node=""), ranked_pod("b", phase="Pending", ready="")),
        (ranked_pod("a", phase="Pending", ready=""), ranked_pod("b", ready="")),
        (ranked_pod("a", ready=""), ranked_pod("b", cost="-5")),
        (ranked_pod("a", cost="-5"), ranked_pod("b", cost="not a number")),
        (ranked_pod("a", ready="1970-01-01T02:00:00Z"), ranked_pod("b")),
        (ranked_pod("a", restarts=2), ranked_pod("b", restarts=1)),
        (ranked_pod("a", created="1970-01-01T02:00:00Z"), ranked_pod("b")),
    ],
)
def test_what_matters_most_is_asked_first(goes: Pod, stays: Pod) -> None:
    assert names(surplus_first([stays, goes], (), NOW)) == ["a", "b"]


def test_pods_that_share_their_node_with_many_related_ones_go_first() -> None:
    pods = [ranked_pod("alone", node="n2"), ranked_pod("x", node="n1")]
    assert names(surplus_first(pods, [*pods, ranked_pod("other", node="n1")], NOW)) == ["x", "alone"]
    assert names(surplus_first(pods, [*pods, ranked_pod("one", node="n2"), ranked_pod("two", node="n2")], NOW)) == [
        "alone",
        "x",
    ]


def test_pods_of_about_the_same_age_are_taken_by_their_uids() -> None:
    older = with_metadata(ranked_pod("older", ready="1970-01-01T00:00:10Z"), uid="1")
    younger = with_metadata(ranked_pod("younger", ready="1970-01-01T00:05:00Z"), uid="2")
    assert names(surplus_first([younger, older], (), NOW)) == ["older", "younger"]


def test_the_order_does_not_depend_on_that_of_the_list() -> None:
    pods = [ranked_pod(f"p{n}", cost=str(n)) for n in range(10)]
    shuffled = random.Random(1).sample(pods, len(pods))
    assert surplus_first(shuffled, pods, NOW) == surplus_first(pods, pods, NOW)


@pytest.mark.parametrize(
    ("goes", "stays"),
    [
        (ranked_pod("a", node=""), ranked_pod("b")),
        (ranked_pod("a", ready=""), ranked_pod("b")),
        (ranked_pod("a", ready="1970-01-01T00:00:11Z"), ranked_pod("b", ready="1970-01-01T00:00:10Z", cost="-5")),
        (ranked_pod("a", restarts=2), ranked_pod("b", restarts=1)),
        (ranked_pod("a", created="1970-01-01T00:00:09Z"), ranked_pod("b")),
    ],
)
def test_jobs_ask_neither_for_costs_nor_for_neighbours(goes: Pod, stays: Pod) -> None:
    assert names(least_done_first([stays, goes])) == ["a", "b"]


def sidecar(restarts: int) -> Pod:
    made = ranked_pod(f"r{restarts}")
    init = {"name": "s", "restartPolicy": "Always"}
    return from_dict(
        Pod,
        {
            **to_dict(made),
            "spec": {"nodeName": "n1", "initContainers": [init]},
            "status": {**to_dict(made.status), "initContainerStatuses": [{"name": "s", "restartCount": restarts}]},
        },
    )


def test_restarts_of_sidecars_are_asked_last_of_restarts() -> None:
    assert names(surplus_first([sidecar(1), sidecar(3)], (), NOW)) == ["r3", "r1"]


# Pods are marked as disrupted before they are deleted.


@run_with(with_api)
async def test_a_pod_says_why_it_was_evicted_and_is_evicted_once(api: API) -> None:
    await api.client.resource(NODES).create(node("n1"))
    pods = api.client.resource(PODS, "default")
    created = await pods.create(pod("p", nodeName="n1"))
    assert await evict(api.client, api.clock, created, "DeletionByTaintManager", "because")
    going = await pods.get("p")
    assert going.metadata.deletion_timestamp is not None
    marked = [(one.type, one.status, one.reason) for one in going.status.conditions]
    assert ("DisruptionTarget", "True", "DeletionByTaintManager") in marked
    assert not await evict(api.client, api.clock, created, "DeletionByTaintManager", "because")


@run_with(with_api)
async def test_a_pod_of_the_same_name_is_another_one(api: API) -> None:
    pods = api.client.resource(PODS, "default")
    first = await pods.create(pod("p"))
    await pods.delete("p", uid=first.metadata.uid, grace_period_seconds=0)
    assert not await evict(api.client, api.clock, first, "reason", "message")
    await pods.create(pod("p"))
    assert not await evict(api.client, api.clock, first, "reason", "message")
    assert (await pods.get("p")).metadata.deletion_timestamp is None
