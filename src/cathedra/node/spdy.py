"""SPDY/3.1 frames, as far as commands and ports need them: kubectl speaks it to nodes, and nodes to runtimes.

docs/spec/kubectl.md §6.3. Bytes in, frames out, and back; no input or output of its own. Flow control is left
out, as kubectl's own library does. Header blocks are compressed with one zlib stream per direction and a dictionary
that the protocol prescribes.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator, Mapping
from typing import Final

import msgspec

_WORDS: Final = (
    "options head post put delete trace accept accept-charset accept-encoding accept-language accept-ranges age allow "
    "authorization cache-control connection content-base content-encoding content-language content-length "
    "content-location content-md5 content-range content-type date etag expect expires from host if-match "
    "if-modified-since if-none-match if-range if-unmodified-since last-modified location max-forwards pragma "
    "proxy-authenticate proxy-authorization range referer retry-after server te trailer transfer-encoding upgrade "
    "user-agent vary via warning www-authenticate method get status"
)
_TAIL: Final = (
    "100101201202205206300302303304305306307402405406407408409410411412413414415416417502504505"
    "203 Non-Authoritative Information204 No Content301 Moved Permanently400 Bad Request401 Unauthorized403 Forbidden"
    "404 Not Found500 Internal Server Error501 Not Implemented503 Service Unavailable"
    "Jan Feb Mar Apr May Jun Jul Aug Sept Oct Nov Dec 00:00:00 Mon, Tue, Wed, Thu, Fri, Sat, Sun, GMT"
    "chunked,text/html,image/png,image/jpg,image/gif,application/xml,application/xhtml+xml,text/plain,text/javascript,"
    "publicprivatemax-age=gzip,deflate,sdchcharset=utf-8charset=iso-8859-1,utf-,*,enq=0."
)
_LENGTH: Final = struct.Struct(">I")


def _dictionary() -> bytes:
    words = (*_WORDS.split(), "200 OK", "version", "HTTP/1.1", "url", "public", "set-cookie", "keep-alive", "origin")
    return b"".join(_LENGTH.pack(len(word)) + word.encode() for word in words) + _TAIL.encode()


DICTIONARY: Final = _dictionary()

_HEAD: Final = struct.Struct(">II")
_CONTROL: Final = 0x8000_0000
_VERSION: Final = 3 << 16
_ID: Final = 0x7FFF_FFFF
_FIN: Final = 1
_SYN_STREAM, _SYN_REPLY, _RST_STREAM, _PING, _GOAWAY = 1, 2, 3, 6, 7
_MOST: Final = 1 << 24
_LONGEST_BLOCK: Final = 1 << 16
_PIECE: Final = 1 << 16


class SpdyError(Exception):
    """The other side does not speak the protocol."""


class OpenStream(msgspec.Struct, frozen=True):
    """The other side opens a stream; with ``fin`` it will send nothing on it."""

    stream: int
    headers: Mapping[str, str]
    fin: bool


class Data(msgspec.Struct, frozen=True):
    """Bytes of a stream; with ``fin`` the last ones."""

    stream: int
    data: bytes
    fin: bool


class Reset(msgspec.Struct, frozen=True):
    """A stream is broken off."""

    stream: int


class Ping(msgspec.Struct, frozen=True):
    """To be sent back as it is."""

    number: int


class GoAway(msgspec.Struct, frozen=True):
    """The peer opens no more streams."""


Frame = OpenStream | Data | Reset | Ping | GoAway


class FrameReader:
    """Makes frames of bytes that come in pieces; kinds that mean nothing here are passed over."""

    def __init__(self) -> None:
        self._rest = bytearray()
        self._headers = zlib.decompressobj(zdict=DICTIONARY)

    def feed(self, data: bytes) -> Iterator[Frame]:
        """Yield the frames that are complete now.

        Raises:
            SpdyError: these are no frames.
        """
        self._rest += data
        while len(self._rest) >= _HEAD.size:
            first, second = _HEAD.unpack_from(self._rest)
            end = _HEAD.size + (second & (_MOST - 1))
            if len(self._rest) < end:
                return
            payload = bytes(self._rest[_HEAD.size : end])
            del self._rest[:end]
            frame = self._frame(first, second >> 24, payload)
            if frame is not None:
                yield frame

    def _frame(self, first: int, flags: int, payload: bytes) -> Frame | None:
        if not first & _CONTROL:
            return Data(first, payload, bool(flags & _FIN))
        if first & 0x7FFF_0000 != _VERSION:
            raise SpdyError(f"version {first >> 16 & 0x7FFF} is not spoken here")
        kind = first & 0xFFFF
        if kind == _GOAWAY:
            return GoAway()
        if kind not in {_SYN_STREAM, _RST_STREAM, _PING}:
            return None
        try:
            (number,) = _LENGTH.unpack_from(payload)
            if kind == _PING:
                return Ping(number)
            if kind == _RST_STREAM:
                return Reset(number & _ID)
            return OpenStream(number & _ID, self._block(payload[10:]), bool(flags & _FIN))
        except (struct.error, zlib.error, UnicodeDecodeError) as error:
            raise SpdyError(f"a frame of kind {kind} makes no sense: {error}") from error

    def _block(self, compressed: bytes) -> dict[str, str]:
        block = self._headers.decompress(compressed, _LONGEST_BLOCK)
        if self._headers.unconsumed_tail:
            raise SpdyError(f"a header block is longer than {_LONGEST_BLOCK} bytes")
        (count,) = _LENGTH.unpack_from(block)
        texts: list[str] = []
        position = _LENGTH.size
        for _ in range(2 * count):
            (length,) = _LENGTH.unpack_from(block, position)
            position += _LENGTH.size
            texts.append(block[position : position + length].decode())
            position += length
        return dict(zip(texts[::2], texts[1::2], strict=True))


class Writer:
    """Makes the bytes of frames."""

    def __init__(self) -> None:
        self._headers = zlib.compressobj(zdict=DICTIONARY)

    def reply(self, stream: int) -> bytes:
        """Return the frame that accepts a stream which the other side has opened."""
        block = self._headers.compress(_LENGTH.pack(0)) + self._headers.flush(zlib.Z_SYNC_FLUSH)
        return _control(_SYN_REPLY, _LENGTH.pack(stream) + block)

    def open(self, stream: int, headers: Mapping[str, str]) -> bytes:
        """Return the frame that opens a stream."""
        block = _LENGTH.pack(len(headers))
        for text in (text for pair in headers.items() for text in pair):
            block += _LENGTH.pack(len(text.encode())) + text.encode()
        compressed = self._headers.compress(block) + self._headers.flush(zlib.Z_SYNC_FLUSH)
        return _control(_SYN_STREAM, _LENGTH.pack(stream) + bytes(6) + compressed)

    def data(self, stream: int, data: bytes, *, fin: bool = False) -> Iterator[bytes]:
        """Yield bytes of a stream, in frames of a bearable size."""
        pieces = [data[start : start + _PIECE] for start in range(0, len(data), _PIECE)] or [b""]
        for number, piece in enumerate(pieces, 1):
            flags = _FIN if fin and number == len(pieces) else 0
            yield _HEAD.pack(stream, flags << 24 | len(piece)) + piece

    def reset(self, stream: int) -> bytes:
        """Break a stream off."""
        return _control(_RST_STREAM, _HEAD.pack(stream, 5))

    def ping(self, number: int) -> bytes:
        """Return the answer to a ping."""
        return _control(_PING, _LENGTH.pack(number))


def _control(kind: int, payload: bytes) -> bytes:
    return _HEAD.pack(_CONTROL | _VERSION | kind, len(payload)) + payload
