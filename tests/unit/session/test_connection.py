"""The client's end of the binary protocol, on messages that a test makes up."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest

from cathedra.api.core.core_v1 import Pod
from cathedra.api.parts import FEW
from cathedra.api.status import StatusError, failure
from cathedra.api.struct import decode, encode
from cathedra.api.undecodable import UndecodableObject
from cathedra.client.resources import PODS
from cathedra.client.transport import APICall, EventType, MalformedAnswer, in_batches
from cathedra.clock import run_virtual
from cathedra.frames import MessageReader, write_frame
from cathedra.session.connection import CHECK_SECONDS, MOST_SILENT, ConnectionRetired, SessionConnection
from cathedra.session.protocol import (
    EventMessage,
    FailureMessage,
    FromClient,
    ListMessage,
    NotBegun,
    ObjectMessage,
    Payload,
    PlainMessage,
    RequestMessage,
    ServedOverHTTP,
    UseHTTP,
)
from cathedra.session.transport import SessionTransport
from tests.running import on_virtual_clock

GOOD = json.dumps({"metadata": {"name": "good", "resourceVersion": "3"}}).encode()
BAD = json.dumps({"metadata": {"name": "bad", "resourceVersion": "4"}, "spec": {"volumes": [{"name": 5}]}}).encode()


class Wire(asyncio.Transport):
    """A server that answers each request with the messages of ``answer``."""

    def __init__(self, connection: SessionConnection, answer: Callable[[RequestMessage], list[Any]]) -> None:
        super().__init__({"ssl_object": self})  # so that nothing is written past it
        self.closed = False
        self._connection, self._answer = connection, answer
        self._reader = MessageReader(FromClient)

    def write(self, data: Any) -> None:
        for batch in self._reader.feed(bytes(data)):
            for message in batch:
                if isinstance(message, RequestMessage) and (answers := self._answer(message)):
                    frame = bytes(write_frame(answers))
                    asyncio.get_running_loop().call_soon(self._connection.data_received, frame)

    def writelines(self, data: Any) -> None:
        self.write(b"".join(data))

    def close(self) -> None:
        self.closed = True

    def abort(self) -> None:
        self.closed = True

    def is_closing(self) -> bool:
        return self.closed

    def get_write_buffer_size(self) -> int:
        return 0


class Wired(SessionConnection):
    """A connection over a `Wire`."""

    def __init__(self, answer: Callable[[RequestMessage], list[Any]]) -> None:
        super().__init__("here")
        self.wire = Wire(self, answer)

    async def dial(self) -> None:
        self.connection_made(self.wire)


async def test_a_list_leaves_out_what_cannot_be_decoded_and_goes_on_counting_objects() -> None:
    def answer(request: RequestMessage) -> list[Any]:
        if request.verb == "list":
            return [ListMessage(request.id, [Payload(0, BAD), Payload(0, GOOD)], "9")]
        return [ObjectMessage(request.id, Payload(1 if request.name == "bad" else 2))]

    connection = Wired(answer)
    api = SessionTransport(connection, "")
    page = await api.call(APICall("list", PODS, ""))
    assert [pod.metadata.name for pod in page.items] == ["good"]
    assert [(what.kind, what.name, what.path) for what in page.undecodable] == [("Pod", "bad", "spec.volumes[0].name")]
    assert await api.call(APICall("get", PODS, "", "good")) is page.items[0]
    with pytest.raises(UndecodableObject, match=r"^Pod bad cannot be decoded: .* at spec\.volumes\[0\]\.name$"):
        await api.call(APICall("get", PODS, "", "bad"))
    assert not connection.wire.closed


async def test_the_pods_of_a_list_share_equal_parts() -> None:
    bodies = [
        json.dumps({"metadata": {"name": name}, "spec": {"containers": [{"name": "main"}], "nodeName": name}}).encode()
        for name in (f"p{number}" for number in range(FEW + 2))
    ]
    payloads = [Payload(0, body) for body in bodies]
    connection = Wired(lambda request: [ListMessage(request.id, payloads, "9")])
    page = await SessionTransport(connection, "").call(APICall("list", PODS, ""))
    assert page.items == tuple(decode(Pod, body) for body in bodies)
    first, second = page.items[-2:]
    assert first.spec.containers is second.spec.containers


async def test_events_that_have_arrived_are_one_batch() -> None:
    connection = Wired(lambda request: [EventMessage(request.id, EventType.ADDED, Payload(0, GOOD)) for _ in range(3)])
    async with SessionTransport(connection, "").watch(APICall("watch", PODS, "")) as events:
        assert len(await anext(in_batches(events))) == 3


async def test_a_watch_shows_what_cannot_be_decoded_as_such() -> None:
    def answer(request: RequestMessage) -> list[Any]:
        changes = [(EventType.ADDED, BAD), (EventType.DELETED, BAD), (EventType.MODIFIED, GOOD)]
        return [EventMessage(request.id, change, Payload(0, body)) for change, body in changes]

    connection = Wired(answer)
    async with SessionTransport(connection, "").watch(APICall("watch", PODS, "")) as events:
        seen = [await anext(events) for _ in range(3)]
    assert [(one.type, one.object.metadata.name, one.object.metadata.resource_version) for one in seen] == [
        (EventType.BOOKMARK, "", "4"),
        (EventType.DELETED, "bad", "4"),
        (EventType.MODIFIED, "good", "3"),
    ]
    assert [one.undecodable is not None for one in seen] == [True, True, False]
    assert not connection.wire.closed


@pytest.mark.parametrize(
    "answer",
    [
        lambda number: PlainMessage(number, "v9", "Unheard", b"{}"),
        lambda number: PlainMessage(number, "v1", "Status", b"[]"),
        lambda number: FailureMessage(number, b"no JSON"),
    ],
)
async def test_an_answer_that_cannot_be_decoded_fails_its_request_alone(answer: Callable[[int], Any]) -> None:
    connection = Wired(lambda request: [answer(request.id)])
    with pytest.raises(MalformedAnswer):
        await SessionTransport(connection, "").call(APICall("create", PODS, "", "p", "binding", body=Pod()))
    assert not connection.wire.closed


@pytest.mark.parametrize(
    ("message", "error"), [(UseHTTP, ServedOverHTTP), (NotBegun, ConnectionRetired)], ids=["use HTTP", "not begun"]
)
async def test_a_request_that_was_not_carried_out_fails_with_the_reason(
    message: Callable[[int], Any], error: type[Exception]
) -> None:
    connection = Wired(lambda request: [message(request.id)])
    api = SessionTransport(connection, "")
    with pytest.raises(error):
        await api.call(APICall("get", PODS, "", "p"))
    with pytest.raises(error):
        async with api.watch(APICall("watch", PODS, "")) as events:
            await anext(events)
    assert not connection.wire.closed


async def test_a_refusal_is_no_reason_to_use_http_whatever_its_code() -> None:
    """A 404 without details meant that once; an object that is missing must not be looked for over HTTP again."""
    missing = encode(failure(404, "NotFound", "no such thing").status)
    connection = Wired(lambda request: [FailureMessage(request.id, missing)])
    with pytest.raises(StatusError) as refused:
        await SessionTransport(connection, "").call(APICall("get", PODS, "", "p"))
    assert not isinstance(refused.value, ServedOverHTTP)


async def test_a_connection_that_is_lost_by_an_error_without_a_text_names_its_type() -> None:
    def lose(_: Any) -> list[Any]:
        asyncio.get_running_loop().call_soon(connection.connection_lost, MemoryError())
        return []

    connection = Wired(lose)
    with pytest.raises(ConnectionError, match="MemoryError"):
        await SessionTransport(connection, "").call(APICall("get", PODS, "", "p"))


def test_a_server_that_is_silent_while_something_is_under_way_is_lost() -> None:
    async def main() -> float:
        connection = Wired(lambda request: [])
        api, loop = SessionTransport(connection, ""), asyncio.get_running_loop()

        async def watch() -> None:
            async with api.watch(APICall("watch", PODS, "")) as events:
                async for _ in events:
                    pass

        watching = asyncio.create_task(watch())
        with pytest.raises(ConnectionError, match="has been silent for 90 s"):
            await api.call(APICall("get", PODS, "", "good"))
        with pytest.raises(ConnectionError, match="has been silent for 90 s"):
            await watching
        assert connection.wire.closed
        return loop.time()

    assert MOST_SILENT * CHECK_SECONDS <= run_virtual(main()) <= (MOST_SILENT + 1) * CHECK_SECONDS


@on_virtual_clock
async def test_a_connection_without_requests_may_be_silent_and_bookmarks_are_enough_for_a_watch() -> None:
    connection = Wired(lambda request: [] if request.verb == "watch" else [ObjectMessage(request.id, Payload(0, GOOD))])
    api = SessionTransport(connection, "")
    await api.call(APICall("get", PODS, "", "good"))
    await asyncio.sleep(3600)
    assert not connection.wire.closed
    async with api.watch(APICall("watch", PODS, "")) as events:
        for _ in range(60):
            await asyncio.sleep(60)
            bookmark = EventMessage(2, EventType.BOOKMARK, Payload(0, GOOD))
            connection.data_received(bytes(write_frame([bookmark])))
        assert (await anext(events)).type is EventType.BOOKMARK
    assert not connection.wire.closed
    connection.close()
