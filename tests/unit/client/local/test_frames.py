"""Frames: what is written is read again, however the bytes arrive; what breaks the protocol is told apart."""

from __future__ import annotations

import pytest

from cathedra.client.local.frames import FrameError, MessageReader, write_frame
from cathedra.client.local.messages import Cancel, FromClient


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
