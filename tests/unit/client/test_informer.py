"""Informers follow the server through everything that can go wrong."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from cathedra.api.core.core_v1 import Pod, PodSpec
from cathedra.api.core.meta_v1 import ObjectMeta
from cathedra.api.scheme import GroupResource
from cathedra.api.status import expired, internal_error, not_found
from cathedra.api.struct import replace
from cathedra.api.undecodable import Undecodable
from cathedra.client.client import Client
from cathedra.client.informer import Informer, SharedInformers
from cathedra.client.queuemetrics import InformerMetrics
from cathedra.client.resources import NODES, PODS
from cathedra.client.transport import APICall, EventType, MalformedAnswer, Page, WatchEvent, undecodable_event
from cathedra.clock import run_virtual
from tests.running import beside, on_virtual_clock, run_with
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
        async with beside(setting.informer.run()):
            await body(setting)
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


@run_with(play)
async def test_a_server_that_refuses_is_asked_again_with_growing_pauses(s: Setting) -> None:
    s.server.failures += [internal_error("not yet") for _ in range(4)]
    started = asyncio.get_running_loop().time()
    await s.informer.wait_synced()
    assert asyncio.get_running_loop().time() - started == 0.8 + 1.6 + 3.2 + 6.4


@run_with(play)
async def test_a_late_handler_hears_of_what_is_there(s: Setting) -> None:
    await s.create("a")
    await s.informer.wait_synced()
    late: list[str] = []
    s.informer.add_handler(on_add=lambda pod: late.append(pod.metadata.name))
    assert late == ["a"]


def test_a_transform_applies_before_objects_are_stored_and_handlers_called() -> None:
    seen: list[str] = []

    async def body(setting: Setting) -> None:
        await setting.create("before")
        setting.informer.set_transform(lambda pod: replace(pod, spec=PodSpec(node_name="x")))
        setting.informer.add_handler(on_add=lambda pod: seen.append(f"{pod.metadata.name} {pod.spec.node_name}"))
        await setting.informer.wait_synced()
        await setting.create("after")
        await asyncio.sleep(1)
        assert {pod.spec.node_name for pod in setting.informer.store} == {"x"}

    play(body)
    assert seen == ["before x", "after x"]


@on_virtual_clock
async def test_shared_informers_are_one_per_resource_and_start_late_ones_too() -> None:
    server = FakeTransport()
    client = Client(server, clock=server.clock())
    shared = SharedInformers(client, server.clock())
    pods = shared.of(PODS)
    assert shared.of(PODS) is pods
    assert shared.of(PODS, field_selector="spec.nodeName=n1") is not pods
    async with beside(shared.run()):
        await shared.wait_synced()
        nodes = shared.of(NODES)
        await nodes.wait_synced()
        assert nodes.synced
    assert server.watches == 0


def test_a_resource_that_is_not_served_is_empty_until_it_comes() -> None:
    async def body(s: Setting) -> None:
        missing = not_found(GroupResource("", "pods"), "")
        s.server.failures.append(missing)
        await s.informer.wait_synced()
        assert s.informer.store.list() == ()
        await s.create("a")
        await asyncio.sleep(10)

    assert play(body).heard == ["+a"]


def pod(name: str, version: int, uid: str = "") -> Pod:
    return Pod(metadata=ObjectMeta(name=name, uid=uid or f"uid-{name}", resource_version=str(version)))


def bad(name: str, version: int, uid: str = "") -> Undecodable:
    return Undecodable(
        "Pod", "", name, uid or f"uid-{name}", str(version), "spec.volumes[0].name", "Expected `str`, got `int`", b"{}"
    )


class Script:
    """A server whose lists and watch events the test sets."""

    def __init__(self, *pages: Page[Pod] | Exception) -> None:
        self.pages = list(pages)
        self.lists = 0
        self.watched_from: list[str] = []
        self.events: asyncio.Queue[WatchEvent[Pod] | Exception] = asyncio.Queue()

    async def call(self, call: APICall) -> Page[Pod]:
        self.lists += 1
        page = self.pages.pop(0) if len(self.pages) > 1 else self.pages[0]
        if isinstance(page, Exception):
            raise page
        return page

    @asynccontextmanager
    async def watch(self, call: APICall) -> AsyncIterator[Any]:
        self.watched_from.append(call.selection.resource_version)
        yield self._events()

    async def _events(self) -> AsyncIterator[WatchEvent[Pod]]:
        while True:
            event = await self.events.get()
            if isinstance(event, Exception):
                raise event
            yield event

    def shows(self, *events: WatchEvent[Pod] | Exception) -> None:
        for event in events:
            self.events.put_nowait(event)

    def spoils(self, change: EventType, what: Undecodable) -> None:
        self.shows(undecodable_event(Pod, change, what))


class Following:
    """An informer on a `Script`, with a handler of each kind."""

    def __init__(self, script: Script) -> None:
        clock = FakeTransport().clock()
        self.script = script
        self.registry = CollectorRegistry()
        transport: Any = script
        self.informer = Informer(
            Client(transport, clock=clock), PODS, clock=clock, observer=InformerMetrics(self.registry)
        )
        self.plain: list[str] = []
        self.careful: list[str] = []
        self._listen(self.plain)
        self._listen(
            self.careful,
            on_undecodable=lambda what: self.careful.append(f"?{what.name}"),
            on_resolved=lambda what, now: self.careful.append(f"{'!' if now else 'x'}{what.name}"),
        )

    def _listen(self, heard: list[str], **more: Any) -> None:
        self.informer.add_handler(
            on_add=lambda one: heard.append(f"+{one.metadata.name}"),
            on_update=lambda _, one: heard.append(f"~{one.metadata.name}"),
            on_delete=lambda one: heard.append(f"-{one.metadata.name}"),
            **more,
        )

    def counted(self, **labels: str) -> float | None:
        name = "cathedra_informer_failures_total" if "reason" in labels else "cathedra_undecodable_objects_total"
        return self.registry.get_sample_value(name, {"resource": "pods", **labels})


def follow(script_of: Callable[[], Script], body: Callable[[Following], Awaitable[None]]) -> Following:
    async def main() -> Following:
        following = Following(script_of())
        async with beside(following.informer.run()) as task:
            await following.informer.wait_synced()
            await body(following)
            await asyncio.sleep(1)
            assert not task.done(), "the informer must outlive everything"
        return following

    return run_virtual(main())


async def nothing_more(_: Following) -> None:
    return None


def test_an_object_of_a_list_that_cannot_be_decoded_is_left_out_alone(caplog: pytest.LogCaptureFixture) -> None:
    page = Page((pod("a", 1),), "5", undecodable=(bad("b", 2),))
    followed = follow(lambda: Script(page), nothing_more)
    assert (followed.plain, followed.careful) == (["+a"], ["?b", "+a"])
    assert list(followed.informer.store.undecodable) == [("", "b")]
    assert followed.script.watched_from == ["5"]
    assert followed.counted(kind="Pod") == 1
    told = [record.message for record in caplog.records if record.levelno == logging.ERROR]
    assert told == [
        "Pod b cannot be decoded: Expected `str`, got `int` at spec.volumes[0].name; "
        "it is left out until it changes (resource version 2)"
    ]


def test_an_object_that_cannot_be_decoded_any_more_is_deleted_unless_a_handler_knows_better() -> None:
    async def body(f: Following) -> None:
        f.script.spoils(EventType.MODIFIED, bad("a", 6))
        f.script.shows(WatchEvent(EventType.MODIFIED, pod("b", 7)))
        await asyncio.sleep(1)
        assert [one.metadata.name for one in f.informer.store] == ["b"]
        assert f.informer.has_reached("7")

    followed = follow(lambda: Script(Page((pod("a", 1), pod("b", 2)), "5")), body)
    assert followed.plain == ["+a", "+b", "-a", "~b"]
    assert followed.careful == ["+a", "+b", "?a", "~b"]


def test_it_is_looked_at_again_when_it_changes() -> None:
    async def body(f: Following) -> None:
        f.script.spoils(EventType.MODIFIED, bad("a", 6))
        f.script.spoils(EventType.MODIFIED, bad("a", 7))
        f.script.shows(WatchEvent(EventType.MODIFIED, pod("a", 8)))

    followed = follow(lambda: Script(Page((pod("a", 1),), "5")), body)
    assert followed.plain == ["+a", "-a", "+a"]
    assert followed.careful == ["+a", "?a", "?a", "!a", "+a"]
    assert not followed.informer.store.undecodable
    assert followed.counted(kind="Pod") == 2


@pytest.mark.parametrize("decodable", [True, False])
def test_its_deletion_is_heard_of(decodable: bool) -> None:
    """Whether or not its last state can be decoded."""

    async def body(f: Following) -> None:
        f.script.spoils(EventType.ADDED, bad("b", 6))
        if decodable:
            f.script.shows(WatchEvent(EventType.DELETED, pod("b", 7)))
        else:
            f.script.spoils(EventType.DELETED, bad("b", 7))

    followed = follow(lambda: Script(Page((), "5")), body)
    assert (followed.plain, followed.careful) == ([], ["?b", "xb"])
    assert not followed.informer.store.undecodable


def test_a_deletion_whose_last_state_cannot_be_decoded_shows_the_last_known_one() -> None:
    seen: list[Pod] = []

    async def body(f: Following) -> None:
        f.informer.add_handler(on_delete=seen.append)
        f.script.spoils(EventType.DELETED, bad("a", 7))

    assert follow(lambda: Script(Page((pod("a", 1),), "5")), body).careful == ["+a", "-a"]
    assert [one.metadata.resource_version for one in seen] == ["1"]


def test_another_list_counts_a_known_one_once_and_finds_out_what_has_gone() -> None:
    again = Page((pod("a", 1),), "9", undecodable=(bad("b", 2), bad("a", 1, uid="other")))
    script = Page((pod("a", 1), pod("c", 3)), "5", undecodable=(bad("b", 2), bad("d", 4)))

    async def body(f: Following) -> None:
        f.script.shows(MalformedAnswer("no event"))
        await asyncio.sleep(60)

    followed = follow(lambda: Script(script, replace(again, undecodable=(bad("b", 2),))), body)
    assert followed.careful == ["?b", "?d", "+a", "+c", "-c", "xd"]
    assert followed.counted(kind="Pod") == 2
    assert followed.counted(reason="malformed") == 1
    followed = follow(lambda: Script(Page((pod("a", 1),), "5"), replace(again, items=())), body)
    assert followed.careful == ["+a", "?b", "-a", "?a"], "another pod of that name is another object"


@pytest.mark.parametrize(
    ("failure", "reason"), [(MalformedAnswer("<html>"), "malformed"), (TypeError("odd"), "defect")]
)
def test_a_broken_list_or_watch_is_tried_again_with_a_list(failure: Exception, reason: str) -> None:
    async def body(f: Following) -> None:
        f.script.shows(failure, WatchEvent(EventType.ADDED, pod("b", 6)))
        await asyncio.sleep(30)

    followed = follow(lambda: Script(failure, Page((pod("a", 1),), "5")), body)
    assert followed.plain == ["+a", "+b"]
    assert followed.script.lists == 3
    assert followed.counted(reason=reason) == 2


def test_an_event_without_a_version_leaves_the_watch_where_it_was() -> None:
    async def body(f: Following) -> None:
        f.script.shows(WatchEvent(EventType.BOOKMARK, Pod()), ConnectionError("lost"))
        await asyncio.sleep(30)

    followed = follow(lambda: Script(Page((), "5")), body)
    assert (followed.script.lists, followed.script.watched_from) == (1, ["5", "5"])


def test_a_handler_that_raises_keeps_nothing_from_the_others_nor_from_later_events() -> None:
    def raises(*_: object) -> None:
        raise AttributeError("an odd pod")

    async def body(f: Following) -> None:
        f.informer._handlers.reverse()  # the one that raises comes first
        f.script.shows(*(WatchEvent(change, pod("b", version)) for version, change in enumerate(EVERY_CHANGE, 6)))
        f.script.spoils(EventType.ADDED, bad("c", 9))
        f.script.shows(WatchEvent(EventType.ADDED, pod("c", 10)))

    def script() -> Script:
        return Script(Page((pod("a", 1),), "5"))

    async def broken(f: Following) -> None:
        f.informer.add_handler(raises, raises, raises, on_undecodable=raises, on_resolved=raises)
        f.informer._on_update.reverse()
        await body(f)

    followed = follow(script, broken)
    assert followed.careful == ["+a", "+b", "~b", "-b", "?c", "!c", "+c"]
    assert followed.counted(reason="handler") == 7


EVERY_CHANGE = (EventType.ADDED, EventType.MODIFIED, EventType.DELETED)


def test_an_object_that_an_index_function_fails_on_is_in_the_store_nevertheless() -> None:
    def first_container(one: Pod) -> list[str]:
        return [one.spec.containers[0].name]

    async def body(f: Following) -> None:
        f.informer.store.add_index("first", first_container)
        f.script.shows(WatchEvent(EventType.ADDED, pod("b", 6)))

    followed = follow(lambda: Script(Page((pod("a", 1),), "5")), body)
    assert followed.plain == ["+a", "+b"]
    assert not followed.informer.store.index_values("first")


class PagingTransport(FakeTransport):
    """A server that answers lists in pages, each with the writes until then, as one without a history would."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[tuple[int, str]] = []
        self.expires = False

    async def call(self, call: APICall) -> Any:
        answer = await super().call(call)
        if call.verb != "list":
            return answer
        limit, start = call.selection.limit, int(call.selection.continue_ or 0)
        self.asked.append((limit, call.selection.continue_))
        if self.expires and start:
            raise expired("The provided continue parameter is too old")
        end = start + limit if limit else len(answer.items)
        more = str(end) if end < len(answer.items) else ""
        return Page(answer.items[start:end], answer.resource_version, more)


def following(server: PagingTransport, count: int) -> Informer[Pod]:
    """An informer that has followed a server with some pods."""

    async def main() -> Informer[Pod]:
        client = Client(server, clock=server.clock())
        for number in range(count):
            await client.resource(PODS, "default").create(Pod(metadata=ObjectMeta(name=f"p{number:04}")))
        informer = Informer(client, PODS, clock=server.clock())
        async with asyncio.TaskGroup() as group:
            running = group.create_task(informer.run())
            await informer.wait_synced()
            running.cancel()
        return informer

    return run_virtual(main())


def test_a_long_list_is_read_in_pages_as_client_go_reads_it() -> None:
    server = PagingTransport()
    assert len(following(server, 1201).store) == 1201
    assert server.asked == [(500, ""), (500, "500"), (500, "1000")]


def test_a_list_whose_pages_expire_is_read_as_a_whole() -> None:
    server = PagingTransport()
    server.expires = True
    assert len(following(server, 501).store) == 501
    assert server.asked == [(500, ""), (500, "500"), (0, "")]


def seen_until_synced(server: FakeTransport, pods: int, measure: Callable[[Informer[Pod]], int]) -> list[int]:
    """The values that another task sees while an informer reads its first list."""

    async def main() -> list[int]:
        client = Client(server, clock=server.clock())
        for number in range(pods):
            await client.resource(PODS, "default").create(Pod(metadata=ObjectMeta(name=f"p{number:04}")))
        informer, seen = Informer(client, PODS, clock=server.clock()), [0]
        async with asyncio.TaskGroup() as group:
            running = group.create_task(informer.run())
            while not informer.synced:
                if seen[-1] != measure(informer):
                    seen.append(measure(informer))
                await asyncio.sleep(0)
            running.cancel()
        return seen

    return run_virtual(main())


def test_other_tasks_run_while_a_long_list_is_handed_to_handlers() -> None:
    assert seen_until_synced(FakeTransport(), 450, lambda one: len(one.store)) == [0, 100, 200, 300, 400]


def test_other_tasks_run_between_the_pages_of_a_long_list() -> None:
    server = PagingTransport()
    assert seen_until_synced(server, 1201, lambda _: len(server.asked)) == [0, 1, 2, 3]
