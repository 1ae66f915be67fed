"""The workers of a node's pods."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Awaitable, Callable, Sequence
from typing import ClassVar

import msgspec
import pytest

from cathedra.api.core.core_v1 import Pod
from cathedra.api.struct import Time, encode, replace, to_dict
from cathedra.api.undecodable import Undecodable, identify
from cathedra.client.client import Client
from cathedra.client.informer import Informer
from cathedra.client.resources import PODS, RESOURCECLAIMS
from cathedra.node.pods import podmanager
from cathedra.node.pods.podmanager import InformerPods, PodManager
from cathedra.node.pods.worker import PodWorker
from cathedra.node.runtime.runtime import ContainerRun, ContainerSpec, PodIdentity
from tests.running import beside, run_with
from tests.unit.inprocess import API, with_api
from tests.unit.node.fakes import make_claim, make_pod
from tests.unit.node.pods.onepod import OnePod
from tests.unit.node.pods.onepod import play as play_one
from tests.unit.spoiled import SPOILED, SpoiledTransport


class Source:
    """Pods by hand."""

    def __init__(self) -> None:
        self.synced = asyncio.Event()
        self.changed: Callable[[Pod], None] = lambda pod: None
        self.deleted: Callable[[Pod], None] = lambda pod: None
        self.undecodable: Callable[[Undecodable], None] = lambda what: None
        self.resolved: Callable[[Undecodable, Pod | None], None] = lambda what, pod: None

    def follow(
        self,
        on_change: Callable[[Pod], None],
        on_delete: Callable[[Pod], None],
        on_undecodable: Callable[[Undecodable], None],
        on_resolved: Callable[[Undecodable, Pod | None], None],
    ) -> Callable[[], None]:
        self.changed, self.deleted = on_change, on_delete
        self.undecodable, self.resolved = on_undecodable, on_resolved
        return self.stop

    def stop(self) -> None:
        self.changed = self.deleted = lambda pod: None

    async def wait_synced(self) -> None:
        await self.synced.wait()


@dataclasses.dataclass
class Node:
    one: OnePod
    source: Source
    manager: PodManager

    async def bind(self, *pods: Pod) -> None:
        """Create pods, and report them."""
        for pod in pods:
            self.one.object.note_written(pod)
            await self.one.create()
            self.source.changed(self.one.stored())
        await self.one.clock.sleep(1)

    def names(self) -> list[str]:
        return [worker.pod.metadata.name for worker in self.manager.workers()]


def play(story: Callable[[Node], Awaitable[None]], found: Sequence[ContainerRun] = ()) -> None:
    async def body(one: OnePod) -> None:
        source = Source()
        node = Node(one, source, PodManager(one.context, source))
        async with beside(node.manager.run(found)):
            await one.runtime.open(node.manager.container_ended)
            await asyncio.sleep(0)
            await story(node)

    play_one(body)


@run_with(play)
async def test_each_pod_of_the_node_has_one_worker_and_pods_of_others_have_none(node: Node) -> None:
    elsewhere = make_pod("c")
    elsewhere = replace(elsewhere, spec=replace(elsewhere.spec, node_name="n2"))
    await node.bind(make_pod("a"), make_pod("b"), elsewhere)
    node.source.changed(node.one.stored())
    assert node.names() == ["a", "b"]
    assert node.manager.active() == {"uid-a", "uid-b"}


@run_with(play)
async def test_of_two_pods_with_one_name_the_later_is_found(node: Node) -> None:
    await node.bind(make_pod("a"))
    first = node.manager.find("default", "a")
    again = replace(make_pod("a"), metadata=replace(make_pod("a").metadata, uid="another"))
    node.source.changed(again)
    later = node.manager.find("default", "a")
    assert later is not None
    assert (later is first, later.pod.metadata.uid) == (False, "another")
    assert node.manager.find("other", "a") is None


@run_with(play)
async def test_the_end_of_a_container_reaches_the_worker_of_its_pod(node: Node) -> None:
    await node.bind(make_pod("a"), make_pod("b"))
    node.one.runtime.lose_shim()
    await node.one.clock.sleep(1)
    assert node.manager.active() == set()
    node.manager.container_ended(ContainerRun("x", PodIdentity("default", "c", "uid-c"), "c", 0, 0.0, exit_code=0))


@run_with(play)
async def test_a_pod_that_is_gone_has_no_worker_any_more(node: Node) -> None:
    await node.bind(make_pod("a"), make_pod("b"))
    pod = node.manager.workers()[0].pod
    node.source.deleted(pod)
    node.source.deleted(make_pod("unknown"))
    await node.one.clock.sleep(60)
    assert node.names() == ["b"]
    assert len(node.one.runtime.specs) == 1


@run_with(play_one)
async def test_containers_of_pods_that_are_no_more_are_ended_and_others_are_taken_over(one: OnePod) -> None:
    def left(pod: str) -> ContainerSpec:
        return ContainerSpec(pod, PodIdentity("default", pod, f"uid-{pod}"), "c", 0, ("sleep",))

    runs = [await one.runtime.start(left("mine")), await one.runtime.start(left("orphan"))]
    source = Source()
    node = Node(one, source, PodManager(one.context, source))
    async with beside(node.manager.run(runs)):
        await asyncio.sleep(0)
        pod = make_pod("mine")
        await node.bind(replace(pod, status=replace(pod.status, start_time=Time(one.clock.now()))))
        assert set(one.runtime.specs) == {"mine", "orphan"}, "the orphan's pod may only be late"
        source.synced.set()
        await one.clock.sleep(1)
        assert set(one.runtime.specs) == {"mine"}


@run_with(play_one)
async def test_the_end_of_an_earlier_agents_container_is_not_lost_while_its_pod_is_unknown(one: OnePod) -> None:
    pod = make_pod("mine")
    run = await one.runtime.start(
        ContainerSpec("mine", PodIdentity("default", "mine", pod.metadata.uid), "c", 0, ("sleep",))
    )
    node = Node(one, source := Source(), PodManager(one.context, source))
    ended = msgspec.structs.replace(run, finished_at=one.clock.now(), exit_code=0)
    node.manager.container_ended(ended)
    async with beside(node.manager.run([run])):
        await asyncio.sleep(0)
        await node.bind(replace(pod, status=replace(pod.status, start_time=Time(one.clock.now()))))
        source.synced.set()
        await one.clock.sleep(1)
        assert one.stored().status.phase == "Succeeded"


def deleting(pod: Pod) -> Pod:
    """The next version of a pod, which is to be deleted."""
    return replace(pod, metadata=replace(pod.metadata, deletion_timestamp=Time(0), resource_version="9999"))


class Faulty(PodWorker):
    """A worker whose first steps fail for a while, and whose end does later."""

    failures: ClassVar[list[str]] = []
    """The call that fails next: ``run`` or ``end``."""

    async def run(self) -> None:
        if self.pod.metadata.name == "bad" and self.failures[:1] == ["run"]:
            self.failures.pop(0)
            raise OSError(28, "No space left on device")
        await super().run()

    async def _terminate(self) -> None:
        if self.failures[:1] == ["end"]:
            self.failures.pop(0)
            raise OSError(28, "No space left on device")
        await super()._terminate()


@run_with(play_one)
async def test_orphans_that_cannot_be_removed_do_not_end_the_agent(
    one: OnePod, *, monkeypatch: pytest.MonkeyPatch
) -> None:
    orphan = await one.runtime.start(ContainerSpec("o", PodIdentity("default", "o", "gone"), "c", 0, ("sleep",)))
    remove, failures = one.runtime.remove, [OSError(28, "No space left on device")] * 2

    async def remove_later(container_id: str) -> None:
        if failures:
            raise failures.pop()
        await remove(container_id)

    monkeypatch.setattr(one.runtime, "remove", remove_later)
    node = Node(one, source := Source(), PodManager(one.context, source))
    async with beside(node.manager.run([orphan])) as running:
        source.synced.set()
        await one.clock.sleep(1)
        assert not running.done()
        assert node.manager.active() == {"gone"}, "its claims are in use until its containers have ended"
        await one.clock.sleep(10)
        assert one.runtime.specs == {}
        assert node.manager.active() == set()


@run_with(play)
async def test_a_worker_that_fails_takes_no_other_with_it_and_is_replaced_until_it_works(
    node: Node, *, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(podmanager, "PodWorker", Faulty)
    monkeypatch.setattr(Faulty, "failures", ["run"] * 4)
    await node.bind(make_pod("bad"), make_pod("good"))
    assert node.names() == ["bad", "good"]
    assert "pod default/bad: its worker failed" in caplog.text
    assert len(node.one.runtime.specs) == 1
    await node.one.clock.sleep(1 + 2 + 4 + 8)
    assert node.names() == ["bad", "good"]
    assert len(node.one.runtime.specs) == 2


@run_with(play)
async def test_a_deletion_while_a_worker_has_failed_is_not_lost(node: Node, *, monkeypatch: pytest.MonkeyPatch) -> None:
    """The disk was full when the pod was set up, and it was deleted before the next attempt: its claim is released."""
    monkeypatch.setattr(podmanager, "PodWorker", Faulty)
    monkeypatch.setattr(Faulty, "failures", ["end"] * 3)
    await node.one.client.resource(RESOURCECLAIMS, "default").create(make_claim("c1", "a"))
    await node.bind(make_pod("a", claims=["c1"]))
    assert node.one.driver.calls == [("prepare", ("c1",))]
    pod = node.one.stored()
    node.source.changed(deleting(pod))
    await node.one.clock.sleep(0.5)
    node.source.deleted(pod)
    await node.one.clock.sleep(1 + 2 + 4 + 60)
    assert node.one.driver.calls[-1] == ("unprepare", ("c1",))
    assert node.names() == []
    assert node.one.runtime.specs == {}


@run_with(play)
async def test_a_successor_adopts_the_containers_that_run(node: Node, *, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(podmanager, "PodWorker", Faulty)
    monkeypatch.setattr(Faulty, "failures", ["end"])
    await node.bind(make_pod("a"))
    (first,) = node.manager.workers()
    pod = node.one.stored()
    node.source.changed(deleting(pod))
    await node.one.clock.sleep(1.5)
    (second,) = node.manager.workers()
    assert second is not first
    assert [run.id for run in second.runs] == [run.id for run in first.runs]
    assert len(node.one.runtime.specs) == 1


@run_with(play)
async def test_what_waits_for_a_driver_looks_again_when_one_is_there(node: Node) -> None:
    node.one.driver.failures = ["busy"]
    await node.bind(make_pod("a", claims=["c1"]))
    before = len(node.one.events.messages("FailedPrepareDynamicResources"))
    assert before == 1
    node.manager.look_again(["uid-a", "unknown"])
    await asyncio.sleep(0.1)
    node.manager.retry_all()
    await asyncio.sleep(0.1)
    assert len(node.one.events.messages("FailedPrepareDynamicResources")) == 3


def odd(pod: Pod, later: int = 1) -> Undecodable:
    """A later version of a pod, which cannot be decoded."""
    values = to_dict(pod)
    values["spec"]["containers"] = None
    values["metadata"]["resourceVersion"] = str(int(pod.metadata.resource_version or 0) + later)
    return identify(Pod, encode(values), ValueError("Expected `array`, got `null` - at `$.spec.containers`"))


@run_with(play)
async def test_a_pod_that_cannot_be_decoded_any_more_goes_on_and_is_not_taken_for_deleted(node: Node) -> None:
    await node.bind(make_pod("a", restart_policy="Always"))
    pod = node.one.stored()
    node.source.undecodable(odd(pod))
    await node.one.clock.sleep(60)
    assert [spec.attempt for spec in node.one.runtime.specs.values()] == [0]
    assert node.manager.active() == {pod.metadata.uid}
    deleted = deleting(node.one.stored())
    node.one.server.objects["pods", "default", "a"] = deleted
    node.source.undecodable(odd(deleted, later=0))
    await node.one.clock.sleep(60)
    assert not node.one.runtime.specs, "its deletion can be read"


@run_with(play)
async def test_a_pod_that_cannot_be_decoded_any_more_ends_when_it_is_gone(node: Node) -> None:
    await node.bind(make_pod("a", restart_policy="Always"))
    what = odd(node.one.stored())
    node.source.undecodable(what)
    node.source.resolved(what, None)
    await node.one.clock.sleep(60)
    assert not node.one.runtime.specs
    assert node.manager.active() == set()


@pytest.mark.parametrize("gone", [True, False])
@run_with(play_one)
async def test_containers_of_a_pod_that_cannot_be_decoded_are_no_orphans(one: OnePod, *, gone: bool) -> None:
    """They run until the pod is gone, or are taken over once it can be decoded; its claims are held meanwhile."""
    pod = make_pod("mine", restart_policy="Always")
    identity = PodIdentity("default", "mine", pod.metadata.uid)
    run = await one.runtime.start(ContainerSpec("mine", identity, "c", 0, ("sleep",)))
    node = Node(one, source := Source(), PodManager(one.context, source))
    async with beside(node.manager.run([run])):
        await asyncio.sleep(0)
        what = odd(pod)
        source.undecodable(what)
        source.synced.set()
        await one.clock.sleep(60)
        assert set(one.runtime.specs) == {"mine"}
        assert node.manager.active() == {pod.metadata.uid}
        if gone:
            source.resolved(what, None)
        else:
            source.resolved(what, pod)
            await node.bind(replace(pod, status=replace(pod.status, start_time=Time(one.clock.now()))))
        await one.clock.sleep(5)
        assert set(one.runtime.specs) == (set() if gone else {"mine"})
        assert node.names() == ([] if gone else ["mine"])
        assert [spec.attempt for spec in one.runtime.specs.values()] == ([] if gone else [0])


@run_with(play_one)
async def test_the_end_of_a_container_is_not_lost_while_its_pod_cannot_be_decoded(one: OnePod) -> None:
    pod = make_pod("mine")
    identity = PodIdentity("default", "mine", pod.metadata.uid)
    run = await one.runtime.start(ContainerSpec("mine", identity, "c", 0, ("sleep",)))
    node = Node(one, source := Source(), PodManager(one.context, source))
    async with beside(node.manager.run([run])):
        await asyncio.sleep(0)
        source.undecodable(odd(pod))
        source.synced.set()
        await one.clock.sleep(60)
        node.manager.container_ended(msgspec.structs.replace(run, finished_at=one.clock.now(), exit_code=0))
        source.resolved(odd(pod), pod)
        await node.bind(replace(pod, status=replace(pod.status, start_time=Time(one.clock.now()))))
        assert one.stored().status.phase == "Succeeded"


UNHEARD: tuple[Callable[..., None], Callable[..., None]] = (lambda what: None, lambda what, pod: None)
"""Handlers of pods that cannot be decoded."""


@run_with(with_api)
async def test_pods_that_are_there_and_their_changes_are_heard_of(api: API) -> None:
    pods = api.client.resource(PODS, "default")
    first = await pods.create(make_pod("a"))
    source = InformerPods(api.informers.of(PODS))
    changed: list[str] = []
    gone: list[str] = []
    source.follow(lambda pod: changed.append(pod.metadata.name), lambda pod: gone.append(pod.metadata.name), *UNHEARD)
    api.follow()
    await source.wait_synced()
    assert changed == ["a"]
    await pods.create(make_pod("b"))
    await pods.update(replace(first, metadata=replace(first.metadata, labels={"x": "y"})))
    await api.until(lambda: changed == ["a", "b", "a"])
    await pods.delete("a", grace_period_seconds=0)
    await api.until(lambda: gone == ["a"])


@run_with(with_api)
async def test_who_has_stopped_hears_nothing_more(api: API) -> None:
    pods = api.client.resource(PODS, "default")
    source = InformerPods(api.informers.of(PODS))
    heard: list[str] = []
    stop = source.follow(lambda pod: heard.append("changed"), lambda pod: heard.append("gone"), *UNHEARD)
    others: list[str] = []
    InformerPods(api.informers.of(PODS)).follow(lambda pod: others.append("changed"), lambda pod: None, *UNHEARD)
    api.follow()
    await source.wait_synced()
    await pods.create(make_pod("a"))
    await api.until(lambda: heard == ["changed"])
    stop()
    await pods.create(make_pod("b"))
    await api.until(lambda: others == ["changed"] * 2)
    assert heard == ["changed"]


@run_with(with_api)
async def test_a_pod_that_cannot_be_decoded_is_reported_as_such_and_not_as_deleted(api: API) -> None:
    pods = api.client.resource(PODS, "default")
    pod = await pods.create(make_pod("a"))
    informer = Informer(Client(SpoiledTransport(api.transport), clock=api.clock), PODS, clock=api.clock)
    source = InformerPods(informer)
    heard: list[str] = []
    stop = source.follow(
        lambda pod: heard.append("changed"),
        lambda pod: heard.append("gone"),
        lambda what: heard.append(f"undecodable {what.path}"),
        lambda what, pod: heard.append("decodable" if pod else "deleted"),
    )
    running = asyncio.ensure_future(informer.run())
    pod = await pods.update(replace(pod, metadata=replace(pod.metadata, annotations={SPOILED: "spec.x"})))
    await api.until(lambda: len(heard) == 2 or heard == ["undecodable spec.x"])
    pod = await pods.update(replace(pod, metadata=replace(pod.metadata, annotations={})))
    await api.until(lambda: heard[-1] == "changed")
    assert heard[-3:] == ["undecodable spec.x", "decodable", "changed"]
    stop()
    await pods.delete("a", grace_period_seconds=0)
    await api.until(lambda: not informer.store)
    assert heard[-1] == "changed"
    running.cancel()
