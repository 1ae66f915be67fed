"""Messages of a session that have arrived, and how many of them are begun in a turn of the loop."""

from __future__ import annotations

import pytest

from cathedra.frames import FrameError, write_frame
from cathedra.session.protocol import PROTOCOL, Attach, Cancel, RequestMessage, RequestOptions
from cathedra.session.serversession import MOST_BEGUN, TURN_SECONDS, Backlog, cost


def request(number: int, verb: str = "get", body: bytes = b"") -> RequestMessage:
    return RequestMessage(number, 1, verb, "", "v1", "pods", "default", "p", "", 0, RequestOptions(), body)


def test_messages_come_in_their_order_however_their_bytes_arrive() -> None:
    sent = [Attach(PROTOCOL, 1, "token"), request(1), Cancel(1), request(2)]
    data = bytes(write_frame(sent[:2])) + bytes(write_frame(sent[2:]))
    backlog = Backlog()
    found = []
    for position in range(0, len(data), 7):
        backlog.add(data[position : position + 7])
        while (message := backlog.next()) is not None:
            found.append(message)
    assert found == sent


def test_messages_that_are_read_wait_until_they_are_taken_or_dropped() -> None:
    backlog = Backlog()
    backlog.add(bytes(write_frame([request(1), request(2), request(3)])))
    assert backlog.next() == request(1)
    assert len(backlog) == 2
    backlog.clear()
    assert (len(backlog), backlog.next()) == (0, None)


def test_what_is_no_message_is_an_error() -> None:
    backlog = Backlog()
    backlog.add(b"\x00\x00\x00\x02{}")
    with pytest.raises(FrameError):
        backlog.next()


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (Cancel(1), 1),
        (request(1), 1),
        (request(1, "list"), 16),
        (request(1, "watch"), 16),
        (request(1, "create", b"x" * 64 * 1024), 5),
    ],
)
def test_lists_watches_and_large_bodies_cost_more(message: RequestMessage | Cancel, expected: int) -> None:
    assert cost(message) == expected


def test_the_allowance_of_a_turn_follows_how_long_turns_take() -> None:
    backlog = Backlog()
    now = 0.0
    for _ in range(10):
        backlog.end_turn(now)
        backlog.begin_turn(now)
    assert backlog.allowance == MOST_BEGUN
    for _ in range(10):
        backlog.end_turn(now)
        now += TURN_SECONDS * 2
        backlog.begin_turn(now)
    assert backlog.allowance == 1
