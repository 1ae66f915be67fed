"""What is written in one turn of the loop goes out together, and one connection does not keep the others."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from cathedra.asgi.exchange import LARGE
from cathedra.asgi.gathering import GatheringTransport, Turn


class Sink(asyncio.Transport):
    """Notes what it is sent."""

    def __init__(self, *, fails: bool = False) -> None:
        super().__init__()
        self.sent: list[bytes] = []
        self.fails = fails
        self.aborted = False
        self.closed = False

    def write(self, data: Any) -> None:
        if self.fails:
            raise RuntimeError("no way to write")
        self.sent.append(bytes(data))

    def is_closing(self) -> bool:
        return self.closed

    def close(self) -> None:
        self.closed = True

    def abort(self) -> None:
        self.aborted = True


def gathering(sink: Sink, turn: Turn) -> GatheringTransport:
    return GatheringTransport(sink, asyncio.get_running_loop(), turn)


async def test_what_is_written_in_one_turn_is_sent_as_one_piece_in_the_next() -> None:
    sink, turn = Sink(), Turn()
    transport = gathering(sink, turn)
    transport.write(b"head")
    transport.write(b"body")
    assert sink.sent == []
    await asyncio.sleep(0)
    transport.write(b"next")
    assert sink.sent == [b"headbody"]
    await asyncio.sleep(0)
    assert sink.sent == [b"headbody", b"next"]


async def test_large_pieces_and_streams_go_out_at_once_behind_what_waits() -> None:
    sink, turn = Sink(), Turn()
    transport = gathering(sink, turn)
    transport.write(b"a")
    transport.write(b"b" * LARGE)
    assert sink.sent == [b"a", b"b" * LARGE]
    transport.write(b"c")
    transport.send(b"d")
    transport.send(b"e")
    assert sink.sent[2:] == [b"cd", b"e"]
    await asyncio.sleep(0)
    assert len(sink.sent) == 4


async def test_what_waits_is_sent_before_the_end_and_nothing_after_it() -> None:
    sink, turn = Sink(), Turn()
    transport = gathering(sink, turn)
    transport.write(b"last")
    transport.close()
    transport.write(b"more")
    await asyncio.sleep(0)
    assert (sink.sent, sink.closed) == ([b"last"], True)


async def test_a_cut_connection_sends_nothing_more() -> None:
    sink, turn = Sink(), Turn()
    transport = gathering(sink, turn)
    transport.write(b"lost")
    transport.abort()
    await asyncio.sleep(0)
    assert (sink.sent, sink.aborted) == ([], True)


async def test_a_connection_that_fails_is_cut_and_the_others_get_their_answers(
    caplog: pytest.LogCaptureFixture,
) -> None:
    sinks, turn = [Sink(), Sink(fails=True), Sink()], Turn()
    for sink in sinks:
        gathering(sink, turn).write(b"answer")
    await asyncio.sleep(0)
    assert [sink.sent for sink in sinks] == [[b"answer"], [], [b"answer"]]
    assert [sink.aborted for sink in sinks] == [False, True, False]
    assert "could not be sent" in caplog.text


async def test_limits_of_a_transport_that_is_closed_have_no_effect() -> None:
    """uvloop's transports raise then; a watch whose client has gone would end with that error."""

    class Limited(Sink):
        limits: tuple[int | None, int | None] | None = None

        def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
            if self.closed:
                raise RuntimeError("the handler is closed")
            self.limits = high, low

    sink = Limited()
    transport = gathering(sink, Turn())
    transport.set_write_buffer_limits(high=LARGE)
    assert sink.limits == (LARGE, None)
    sink.closed = True
    transport.set_write_buffer_limits()
    assert sink.limits == (LARGE, None)
