"""The wrapping of every protobuf body: four magic bytes, then kind, apiVersion and the message
(docs/spec/kubectl.md §8).

A watch is a row of frames, each a length in four bytes and a WatchEvent that holds a wrapped object.
"""

from __future__ import annotations

from typing import Final

import msgspec

from cathedra.api.protobuf.wire import LENGTH, ProtobufError, delimited, fields, tag
from cathedra.api.scheme import GroupVersionKind

__all__ = ["MAGIC", "ProtobufEnvelope", "unwrap", "watch_frame", "wrap"]

MAGIC: Final = b"k8s\0"
_FIRST: Final = tag(1, LENGTH)
_SECOND: Final = tag(2, LENGTH)
_NO_ENCODING: Final = tag(3, LENGTH) + b"\0" + tag(4, LENGTH) + b"\0"
"""contentEncoding and contentType, both empty: that means protobuf, uncompressed."""


class ProtobufEnvelope(msgspec.Struct, frozen=True):
    """What a body claims to be, and the bare message."""

    api_version: str
    kind: str
    message: bytes
    content_encoding: str = ""
    content_type: str = ""


def wrap(gvk: GroupVersionKind, message: bytes) -> bytes:
    """A message as a body of its own."""
    type_meta = _FIRST + delimited(gvk.api_version.encode()) + _SECOND + delimited(gvk.kind.encode())
    return b"".join((MAGIC, _FIRST, delimited(type_meta), _SECOND, delimited(message), _NO_ENCODING))


def unwrap(body: bytes) -> ProtobufEnvelope:
    """The message in a body, and what it claims to be.

    Raises:
        ProtobufError: it does not begin with the magic bytes, or is broken.
    """
    if not body.startswith(MAGIC):
        magic = " ".join(str(byte) for byte in MAGIC)
        raise ProtobufError(f"provided data does not appear to be a protobuf message, expected prefix [{magic}]")
    parts = _texts(body[len(MAGIC) :], "Unknown")
    type_meta = _texts(parts.get(1, b""), "TypeMeta")
    return ProtobufEnvelope(
        api_version=type_meta.get(1, b"").decode("utf-8", "replace"),
        kind=type_meta.get(2, b"").decode("utf-8", "replace"),
        message=parts.get(2, b""),
        content_encoding=parts.get(3, b"").decode("utf-8", "replace"),
        content_type=parts.get(4, b"").decode("utf-8", "replace"),
    )


def watch_frame(kind: str, body: bytes) -> bytes:
    """One event of a watch: its kind (ADDED, MODIFIED, …) and a wrapped object."""
    event = _FIRST + delimited(kind.encode()) + _SECOND + delimited(_FIRST + delimited(body))
    return len(event).to_bytes(4, "big") + event


def _texts(data: bytes, message: str) -> dict[int, bytes]:
    found: dict[int, bytes] = {}
    for key, value in fields(data, message):
        if not isinstance(value, bytes):
            raise ProtobufError(f"proto: wrong wireType = {key & 7} for field {key >> 3} of {message}")
        found[key >> 3] = value
    return found
