"""Writes of one turn of the loop are sent together, and a slow connection does not delay the others."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from cathedra.asgi import batching as batching_module
from cathedra.asgi.batching import LARGE, BatchingTransport, WriteBatch


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


def batching(sink: Sink, turn: WriteBatch) -> BatchingTransport:
    return BatchingTransport(sink, asyncio.get_running_loop(), turn)


async def test_what_is_written_in_one_turn_is_sent_as_one_piece_in_the_next() -> None:
    sink, turn = Sink(), WriteBatch()
    transport = batching(sink, turn)
    transport.write(b"head")
    transport.write(b"body")
    assert sink.sent == []
    await asyncio.sleep(0)
    transport.write(b"next")
    assert sink.sent == [b"headbody"]
    await asyncio.sleep(0)
    assert sink.sent == [b"headbody", b"next"]


async def test_large_pieces_and_streams_go_out_at_once_behind_what_waits() -> None:
    sink, turn = Sink(), WriteBatch()
    transport = batching(sink, turn)
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
    sink, turn = Sink(), WriteBatch()
    transport = batching(sink, turn)
    transport.write(b"last")
    transport.close()
    transport.write(b"more")
    await asyncio.sleep(0)
    assert (sink.sent, sink.closed) == ([b"last"], True)


async def test_a_cut_connection_sends_nothing_more() -> None:
    sink, turn = Sink(), WriteBatch()
    transport = batching(sink, turn)
    transport.write(b"lost")
    transport.abort()
    await asyncio.sleep(0)
    assert (sink.sent, sink.aborted) == ([], True)


async def test_a_connection_that_fails_is_cut_and_the_others_get_their_answers(
    caplog: pytest.LogCaptureFixture,
) -> None:
    sinks, turn = [Sink(), Sink(fails=True), Sink()], WriteBatch()
    for sink in sinks:
        batching(sink, turn).write(b"answer")
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
    transport = batching(sink, WriteBatch())
    transport.set_write_buffer_limits(high=LARGE)
    assert sink.limits == (LARGE, None)
    sink.closed = True
    transport.set_write_buffer_limits()
    assert sink.limits == (LARGE, None)


class Slow(Sink):
    """A client that reads one piece, and more when the test calls it."""

    def __init__(self) -> None:
        super().__init__()
        self.batching: BatchingTransport | None = None

    def write(self, data: Any) -> None:
        super().write(data)
        assert self.batching is not None
        self.batching.pause()


async def test_a_large_answer_goes_out_as_its_client_takes_it_and_nothing_overtakes_it() -> None:
    sink, turn = Slow(), WriteBatch()
    transport = sink.batching = batching(sink, turn)
    transport.write(b"head")
    transport.write(b"x" * (3 * LARGE + 1))
    assert sink.sent == [b"head"]
    transport.write(b"next")
    transport.send(b"event")
    await asyncio.sleep(0)
    transport.close()
    assert transport.is_closing()
    assert not sink.closed
    while transport.has_rest:
        before = len(sink.sent)
        transport.resume()
        assert len(sink.sent) == before + 1
        assert len(sink.sent[-1]) <= LARGE
    assert b"".join(sink.sent) == b"head" + b"x" * (3 * LARGE + 1) + b"nextevent"
    transport.resume()
    assert sink.closed


async def test_what_waits_is_written_before_the_connection_leaves_http_and_dropped_when_it_is_aborted() -> None:
    sink, turn = Slow(), WriteBatch()
    transport = sink.batching = batching(sink, turn)
    transport.write(b"x" * (3 * LARGE))
    assert transport.detached() is sink
    assert b"".join(sink.sent) == b"x" * (3 * LARGE)
    transport.write(b"y" * (3 * LARGE))
    transport.abort()
    assert not transport.has_rest
    assert sink.aborted


async def test_those_who_are_behind_for_longest_are_cut_when_too_much_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batching_module, "MOST_UNREAD", 10 * LARGE)
    turn = WriteBatch()
    sinks = [Slow() for _ in range(6)]
    transports = []
    for sink in sinks:
        transport = sink.batching = batching(sink, turn)
        transport.write(bytes([len(transports)]) * (3 * LARGE))
        transports.append(transport)
    assert [sink.aborted for sink in sinks] == [True, True, True, False, False, False]
    while transports[3].has_rest:
        transports[3].resume()
    late = Slow()
    another = late.batching = batching(late, turn)
    another.write(b"x" * (3 * LARGE))
    assert [sink.aborted for sink in (*sinks[3:], late)] == [False] * 4


async def test_an_answer_that_many_clients_share_counts_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batching_module, "MOST_UNREAD", 10 * LARGE)
    turn, shared = WriteBatch(), b"x" * (9 * LARGE)
    sinks = [Slow() for _ in range(6)]
    for sink in sinks:
        sink.batching = batching(sink, turn)
        sink.batching.write(shared)
    assert not any(sink.aborted for sink in sinks)
    for sink in sinks:
        assert sink.batching is not None
        sink.batching.abort()
    assert (turn._unread_bytes, turn._holders, turn._unread) == (0, {}, {})


async def test_one_client_may_be_slow_with_an_answer_of_any_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batching_module, "MOST_UNREAD", LARGE)
    sink = Slow()
    sink.batching = batching(sink, WriteBatch())
    sink.batching.write(b"x" * (9 * LARGE))
    assert not sink.aborted
