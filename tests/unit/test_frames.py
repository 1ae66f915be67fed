"""Frames: what is written is read in order however the bytes are cut; which messages wait for the end of a turn."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable

import pytest
import uvloop

from cathedra.frames import AT_ONCE, FULL_BYTES, FrameError, MessageReader, MessageWriter, write_frame
from cathedra.session.protocol import Cancel, FromClient


class Ends:
    """One end that writes, and the other one, which is read without a loop."""

    def __init__(self, transport: asyncio.Transport, other: socket.socket) -> None:
        self.transport = transport
        self.other = other
        self._reader = MessageReader(Cancel)

    def arrived(self) -> list[int]:
        """The messages that have come until now."""
        found: list[int] = []
        while True:
            try:
                data = self.other.recv(1 << 20, socket.MSG_DONTWAIT)
            except BlockingIOError:
                return found
            found += [message.id for batch in self._reader.feed(data) for message in batch]


Story = Callable[[Ends], Awaitable[None]]


@pytest.fixture(params=[asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])
def tell(request: pytest.FixtureRequest) -> Callable[[Story], None]:
    """Runner of a test with two ends on a loop of its kind."""

    async def told(story: Story) -> None:
        mine, other = socket.socketpair()
        mine.setblocking(False)
        mine.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
        transport, _ = await asyncio.get_running_loop().create_unix_connection(asyncio.Protocol, sock=mine)
        try:
            await story(Ends(transport, other))
        finally:
            transport.abort()
            other.close()

    return lambda story: request.param(told(story))


def test_messages_that_are_large_together_do_not_wait_for_more(tell: Callable[[Story], None]) -> None:
    async def story(ends: Ends) -> None:
        outgoing = MessageWriter(ends.transport)
        outgoing.put(Cancel(1), FULL_BYTES // 2)
        assert ends.arrived() == []
        outgoing.put(Cancel(2), FULL_BYTES // 2)
        assert ends.arrived() == [1, 2]
        outgoing.close()

    tell(story)


def test_a_few_messages_go_out_when_the_turn_has_ended(tell: Callable[[Story], None]) -> None:
    async def story(ends: Ends) -> None:
        outgoing = MessageWriter(ends.transport)
        outgoing.put(Cancel(1), 10)
        outgoing.put(Cancel(2), 10)
        assert ends.arrived() == []
        await asyncio.sleep(0)
        assert ends.arrived() == [1, 2]
        outgoing.close()

    tell(story)


def test_the_other_end_hears_of_many_messages_before_the_turn_has_ended(tell: Callable[[Story], None]) -> None:
    async def story(ends: Ends) -> None:
        outgoing = MessageWriter(ends.transport)
        for number in range(2 * AT_ONCE + 1):
            outgoing.put(Cancel(number), 10)
        assert ends.arrived() == list(range(2 * AT_ONCE))
        await asyncio.sleep(0)
        assert ends.arrived() == [2 * AT_ONCE]
        outgoing.close()

    tell(story)


def test_an_owner_whose_messages_cause_little_work_has_more_of_them_wait(tell: Callable[[Story], None]) -> None:
    async def story(ends: Ends) -> None:
        outgoing = MessageWriter(ends.transport, at_once=2 * AT_ONCE)
        for number in range(2 * AT_ONCE - 1):
            outgoing.put(Cancel(number), 10)
        assert ends.arrived() == []
        outgoing.put(Cancel(2 * AT_ONCE - 1), 10)
        assert ends.arrived() == list(range(2 * AT_ONCE))
        outgoing.close()

    tell(story)


def test_what_is_added_for_the_end_of_the_turn_goes_out_with_it(tell: Callable[[Story], None]) -> None:
    async def story(ends: Ends) -> None:
        events = [7, 8, 9]

        def more() -> None:
            while events:
                outgoing.put(Cancel(events.pop(0)), 10)

        outgoing = MessageWriter(ends.transport, more)
        outgoing.put(Cancel(1), 10)
        await asyncio.sleep(0)
        assert ends.arrived() == [1, 7, 8, 9]
        events.append(10)
        outgoing.schedule()
        await asyncio.sleep(0)
        assert ends.arrived() == [10]
        outgoing.close()

    tell(story)


def test_messages_keep_their_order_where_the_other_end_is_slow(tell: Callable[[Story], None]) -> None:
    async def story(ends: Ends) -> None:
        outgoing = MessageWriter(ends.transport)
        total = 4000
        for number in range(total):
            outgoing.put(Cancel(number), 10)
        outgoing.flush()
        assert ends.transport.get_write_buffer_size() > 0
        found: list[int] = []
        while len(found) < total:
            found += ends.arrived()
            await asyncio.sleep(0)
        assert found == list(range(total))
        outgoing.close()

    tell(story)


def test_what_is_closed_sends_nothing_more(tell: Callable[[Story], None]) -> None:
    async def story(ends: Ends) -> None:
        outgoing = MessageWriter(ends.transport)
        outgoing.put(Cancel(1), 10)
        outgoing.close()
        await asyncio.sleep(0)
        assert ends.arrived() == []

    tell(story)


def test_a_connection_that_has_gone_is_no_error(tell: Callable[[Story], None]) -> None:
    async def story(ends: Ends) -> None:
        outgoing = MessageWriter(ends.transport)
        ends.other.close()
        for number in range(AT_ONCE):
            outgoing.put(Cancel(number), 10)
        outgoing.flush()
        outgoing.close()

    tell(story)


def read(reader: MessageReader, data: bytes) -> list[int]:
    return [message.id for batch in reader.feed(data) for message in batch]


def test_messages_come_in_order_however_the_bytes_are_cut() -> None:
    written = bytes(write_frame([Cancel(1), Cancel(2)]) + write_frame([Cancel(3)]))
    for size in range(1, len(written)):
        reader = MessageReader(FromClient)
        pieces = [written[start : start + size] for start in range(0, len(written), size)]
        assert [number for piece in pieces for number in read(reader, piece)] == [1, 2, 3]


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"\xff\x00\x00\x00", "bytes"),
        (b"\x00\x00\x00\x05\xdd\x00\x01\x00\x00", "messages"),
        (b"\x00\x00\x00\x03\xdc\xff\xff", "messages"),
        (b"\x00\x00\x00\x02{}", "no frame"),
        (b"\x00\x00\x00\x00", "no frame"),
        (b"\x00\x00\x00\x03\x91\x92\x09", "no frame"),
    ],
)
def test_what_breaks_the_protocol_is_told_apart(data: bytes, why: str) -> None:
    with pytest.raises(FrameError, match=why):
        read(MessageReader(FromClient), data)
