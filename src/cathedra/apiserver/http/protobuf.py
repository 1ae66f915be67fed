"""Bodies in Kubernetes' protobuf envelope (spec: kubectl.md, section 8)."""

from __future__ import annotations

from typing import Any, Final

from cathedra.api.decoding.envelope import shown_body
from cathedra.api.scheme import GroupVersionKind
from cathedra.api.status import bad_request, failure

MAGIC: Final = b"k8s\x00"

__all__ = ["from_protobuf", "to_protobuf"]


def from_protobuf(raw: bytes, kind: GroupVersionKind, target: type[Any]) -> Any:
    """The object in a protobuf body.

    Raises:
        StatusError: 400, it cannot be understood.
    """
    if not raw.startswith(MAGIC):
        raise bad_request(
            f"the object provided is unrecognized (must be of type {kind.kind}): provided data does not appear to be a "
            f"protobuf message, expected prefix [{' '.join(str(byte) for byte in MAGIC)}] ({shown_body(raw)})"
        )
    raise failure(415, "UnsupportedMediaType", f"{kind.kind} in protobuf is not understood")


def to_protobuf(body: bytes) -> bytes | None:
    """An answer's JSON as protobuf; None if its kind has no such form."""
    return None
