"""Bodies in Kubernetes' protobuf envelope (spec: kubectl.md, section 8)."""

from __future__ import annotations

from typing import Any

from cathedra.api.scheme import GroupVersionKind
from cathedra.api.status import failure

__all__ = ["from_protobuf", "to_protobuf"]


def from_protobuf(raw: bytes, kind: GroupVersionKind, target: type[Any]) -> Any:
    """The object in a protobuf body.

    Raises:
        StatusError: 400, it cannot be understood.
    """
    raise failure(415, "UnsupportedMediaType", f"{kind.kind} in protobuf is not understood")


def to_protobuf(body: bytes) -> bytes | None:
    """An answer's JSON as protobuf; None if its kind has no such form."""
    return None
