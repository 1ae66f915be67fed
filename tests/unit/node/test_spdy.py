"""SPDY frames, as far as port forwarding needs them (docs/spec/kubectl.md §6.3)."""

from __future__ import annotations

import zlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cathedra.node.spdy import DICTIONARY, Data, FrameReader, GoAway, OpenStream, Ping, Reset, SpdyError, Writer

HEADERS = {"streamtype": "error", "port": "8080", "requestid": "0"}


def test_the_dictionary_is_the_one_of_the_protocol() -> None:
    assert (len(DICTIONARY), zlib.adler32(DICTIONARY)) == (1423, 0xE3C6A7C2)


def test_streams_are_opened_with_their_headers_again_and_again() -> None:
    writer, reader = Writer(), FrameReader()
    sent = writer.open(1, HEADERS) + writer.open(3, HEADERS | {"streamtype": "data"})
    assert list(reader.feed(sent)) == [
        OpenStream(1, HEADERS, False),
        OpenStream(3, HEADERS | {"streamtype": "data"}, False),
    ]


@settings(max_examples=40)
@given(st.lists(st.binary(max_size=200)), st.integers(min_value=1, max_value=50))
def test_frames_survive_any_cut(payloads: list[bytes], step: int) -> None:
    writer, reader = Writer(), FrameReader()
    sent = writer.open(1, HEADERS) + b"".join(b"".join(writer.data(1, payload)) for payload in payloads)
    pieces = [sent[start : start + step] for start in range(0, len(sent), step)]
    frames = [frame for piece in pieces for frame in reader.feed(piece)]
    assert frames[0] == OpenStream(1, HEADERS, False)
    assert frames[1:] == [Data(1, payload, False) for payload in payloads]


def test_long_data_is_cut_and_only_the_last_frame_ends_the_stream() -> None:
    frames = list(FrameReader().feed(b"".join(Writer().data(5, b"x" * 100_000, fin=True))))
    assert [(len(frame.data), frame.fin) for frame in frames if isinstance(frame, Data)] == [
        (65536, False),
        (34464, True),
    ]


def test_pings_resets_and_good_byes_are_understood() -> None:
    writer = Writer()
    good_bye = b"\x80\x03\x00\x07\x00\x00\x00\x08" + bytes(8)
    assert list(FrameReader().feed(writer.ping(7) + writer.reset(9) + good_bye)) == [Ping(7), Reset(9), GoAway()]


def test_a_reply_and_settings_mean_nothing_to_the_side_that_opens_no_streams() -> None:
    settings_frame = b"\x80\x03\x00\x04\x00\x00\x00\x04" + bytes(4)
    assert list(FrameReader().feed(Writer().reply(1) + settings_frame)) == []


@pytest.mark.parametrize(
    "nonsense", [b"\x80\x02\x00\x06\x00\x00\x00\x00", b"\x80\x03\x00\x01\x00\x00\x00\x0c" + bytes(12)]
)
def test_nonsense_is_refused(nonsense: bytes) -> None:
    with pytest.raises(SpdyError):
        list(FrameReader().feed(nonsense))


def test_a_header_block_that_swells_is_refused() -> None:
    bomb = Writer().open(1, {"a": "0" * (1 << 24)})
    assert len(bomb) < 1 << 16
    with pytest.raises(SpdyError, match="longer than"):
        list(FrameReader().feed(bomb))
