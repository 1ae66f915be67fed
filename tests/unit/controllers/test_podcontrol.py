"""Pods are created, deleted, adopted and released in the name of their owner."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from cathedra.api.core.apps_v1 import ReplicaSet
from cathedra.api.core.core_v1 import PodTemplateSpec
from cathedra.api.core.meta_v1 import ObjectMeta
from cathedra.client.events import EventRecorder
from cathedra.client.resources import PODS
from cathedra.controllers.expectations import Expectations
from cathedra.controllers.podcontrol import PodControl, pod_from_template
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
