"""Frames: what is written is read again, however the bytes arrive; what breaks the protocol is told apart."""

from __future__ import annotations

import pytest

from cathedra.client.local import frames
from cathedra.client.local.frames import FrameError, MessageReader, write_frames
from cathedra.client.local.messages import Cancel, FromClient


def read(reader: MessageReader, data: bytes) -> list[int]:
    return [message.id for batch in reader.feed(data) for message in batch]


def test_messages_come_in_order_however_the_bytes_are_cut() -> None:
    written = b"".join(write_frames([Cancel(1), Cancel(2)], [1, 1]) + write_frames([Cancel(3)], [1]))
    for size in range(1, len(written)):
        reader = MessageReader(FromClient)
        pieces = [written[start : start + size] for start in range(0, len(written), size)]
        assert [number for piece in pieces for number in read(reader, piece)] == [1, 2, 3]


def test_messages_that_are_large_together_go_out_in_several_frames() -> None:
    messages = [Cancel(number) for number in range(5)]
    written = write_frames(messages, [frames.FULL_BYTES // 2] * 5)
    assert len(written) == 3 * 2, "two messages each, and a rest"
    assert read(MessageReader(FromClient), b"".join(written)) == [0, 1, 2, 3, 4]


def test_more_messages_than_a_frame_may_have_go_out_in_several() -> None:
    messages = [Cancel(number) for number in range(frames.MOST_MESSAGES + 1)]
    written = write_frames(messages, [1] * len(messages))
    assert len(written) == 2 * 2
    assert len(read(MessageReader(FromClient), b"".join(written))) == frames.MOST_MESSAGES + 1


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
