"""Informers follow the server through everything that can go wrong."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from cathedra.api.core.core_v1 import Pod, PodSpec
from cathedra.api.core.meta_v1 import ObjectMeta
from cathedra.api.scheme import GroupResource
from cathedra.api.status import internal_error, not_found
from cathedra.api.struct import replace
from cathedra.client.client import Client
from cathedra.client.informer import Informer, SharedInformers
from cathedra.client.resources import NODES, PODS
from cathedra.clock import run_virtual
from tests.unit.client.fake_transport import FakeTransport


class Setting:
    """A server, a client and an informer on pods whose events are written down."""

    def __init__(self) -> None:
        self.server = FakeTransport()
        self.client = Client(self.server, clock=self.server.clock())
        self.pods = self.client.resource(PODS, "default")
        self.informer = Informer(self.client, PODS, clock=self.server.clock())
        self.heard: list[str] = []
        self.informer.add_handler(
            on_add=lambda pod: self.heard.append(f"+{pod.metadata.name}"),
            on_update=lambda _, pod: self.heard.append(f"~{pod.metadata.name}"),
            on_delete=lambda pod: self.heard.append(f"-{pod.metadata.name}"),
        )

    async def create(self, name: str) -> Pod:
        return await self.pods.create(Pod(metadata=ObjectMeta(name=name)))


def play(body: Callable[[Setting], Awaitable[None]]) -> Setting:
    async def main() -> Setting:
        setting = Setting()
        task = asyncio.ensure_future(setting.informer.run())
        try:
            await body(setting)
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        return setting

    return run_virtual(main())


def test_lists_then_follows() -> None:
    async def body(s: Setting) -> None:
        pod = await s.create("a")
        await s.informer.wait_synced()
        await s.create("b")
        await s.pods.update(replace(pod, spec=PodSpec(node_name="n1")))
        await s.pods.delete("b")
        await asyncio.sleep(1)
        assert [p.spec.node_name for p in s.informer.store] == ["n1"]

    assert play(body).heard == ["+a", "+b", "~a", "-b"]


def test_a_cut_watch_goes_on_where_it_was() -> None:
    async def body(s: Setting) -> None:
        await s.informer.wait_synced()
        await s.create("a")
        await asyncio.sleep(1)
        await s.server.cut_watches()
        await s.create("b")
        await asyncio.sleep(10)
        assert [r for r in s.server.requests if r[0] == "list"] == [("list", "pods", "")]

    assert play(body).heard == ["+a", "+b"]


def test_lost_history_is_made_up_for_by_a_new_list() -> None:
    async def body(s: Setting) -> None:
        await s.informer.wait_synced()
        await s.create("a")
        kept = await s.create("b")
        await asyncio.sleep(5)
        s.server.failures += [ConnectionError("down")] * 1
        await s.server.cut_watches()
        await s.server.cut_watches()
        del s.server.objects["pods", "default", "a"]
        s.server.objects["pods", "default", "b"] = replace(kept, metadata=replace(kept.metadata, resource_version="90"))
        s.server.revision = 100
        s.server.forget_history()
        await asyncio.sleep(60)

    assert play(body).heard == ["+a", "+b", "-a", "~b"]


def test_a_namesake_with_another_uid_is_another_object() -> None:
    async def body(s: Setting) -> None:
        await s.create("a")
        await s.informer.wait_synced()
        await asyncio.sleep(5)
        old = s.server.objects["pods", "default", "a"]
        assert isinstance(old, Pod)
        s.server.revision = 50
        s.server.objects["pods", "default", "a"] = replace(
            old, metadata=replace(old.metadata, uid="other", resource_version="50")
        )
        s.server.forget_history()
        await s.server.cut_watches()
        await asyncio.sleep(60)

    assert play(body).heard == ["+a", "-a", "+a"]


def test_a_server_that_refuses_is_asked_again_with_growing_pauses() -> None:
    async def body(s: Setting) -> None:
        s.server.failures += [internal_error("not yet") for _ in range(4)]
        started = asyncio.get_running_loop().time()
        await s.informer.wait_synced()
        assert asyncio.get_running_loop().time() - started == 0.8 + 1.6 + 3.2 + 6.4

    play(body)


def test_a_late_handler_hears_of_what_is_there() -> None:
    async def body(s: Setting) -> None:
        await s.create("a")
        await s.informer.wait_synced()
        late: list[str] = []
        s.informer.add_handler(on_add=lambda pod: late.append(pod.metadata.name))
        assert late == ["a"]

    play(body)


def test_shared_informers_are_one_per_resource_and_start_late_ones_too() -> None:
    async def main() -> None:
        server = FakeTransport()
        client = Client(server, clock=server.clock())
        shared = SharedInformers(client, server.clock())
        pods = shared.of(PODS)
        assert shared.of(PODS) is pods
        assert shared.of(PODS, field_selector="spec.nodeName=n1") is not pods
        task = asyncio.ensure_future(shared.run())
        await shared.wait_synced()
        nodes = shared.of(NODES)
        await nodes.wait_synced()
        assert nodes.synced
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert server.watches == 0

    run_virtual(main())


def test_a_resource_that_is_not_served_is_empty_until_it_comes() -> None:
    async def body(s: Setting) -> None:
        missing = not_found(GroupResource("", "pods"), "")
        s.server.failures.append(missing)
        await s.informer.wait_synced()
        assert s.informer.store.list() == ()
        await s.create("a")
        await asyncio.sleep(10)

    assert play(body).heard == ["+a"]
