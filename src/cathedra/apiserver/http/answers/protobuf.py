"""Bodies in Kubernetes' protobuf envelope (docs/spec/kubectl.md §8)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import msgspec

from cathedra.api.core import meta_v1
from cathedra.api.decoding import DecodeError
from cathedra.api.decoding.envelope import Envelope, shown_body
from cathedra.api.protobuf import ProtobufError, decode_message, encode_message, unwrap, wrap
from cathedra.api.protobuf.wire import LENGTH, delimited, tag
from cathedra.api.scheme import GroupVersionKind, UnknownKind, is_registered, type_of
from cathedra.api.status import StatusError, bad_request, failure
from cathedra.api.struct import KubeStruct, decode

_META: Final = "meta.k8s.io"
_META_TYPES: Final[dict[str, type[KubeStruct]]] = {
    "DeleteOptions": meta_v1.DeleteOptions,
    "PartialObjectMetadata": meta_v1.PartialObjectMetadata,
    "PartialObjectMetadataList": meta_v1.PartialObjectMetadataList,
    "Status": meta_v1.Status,
}


def from_protobuf(raw: bytes, kind: GroupVersionKind, target: type[Any], release: str) -> Any:
    """Return the object of a protobuf body.

    Raises:
        StatusError: 400, it cannot be understood.
    """
    try:
        if not raw:
            raise ProtobufError("empty data")
        found = unwrap(raw)
    except ProtobufError as error:
        raise bad_request(
            f"the object provided is unrecognized (must be of type {kind.kind}): {error} ({shown_body(raw)})"
        ) from None
    envelope = Envelope(found.api_version, found.kind)
    # Options are registered in every group version: the version only shows which client sent them.
    expected = kind if kind.kind != "DeleteOptions" else GroupVersionKind.parse(found.api_version or "v1", kind.kind)
    try:
        envelope.check(expected, is_registered)
    except DecodeError as error:
        raise bad_request(str(error)) from None
    try:
        return decode_message(target, found.message, release)
    except ProtobufError as error:
        raise bad_request(
            f'{kind.kind} in version "{expected.version}" cannot be handled as a {kind.kind}: {error}'
        ) from None


def to_protobuf(body: bytes) -> bytes:
    """Return the JSON of an answer, kind and apiVersion included, as protobuf.

    Raises:
        StatusError: 406, its kind has no such form.
    """
    head = msgspec.json.decode(body, type=_AnswerHead)
    gvk = GroupVersionKind.parse(head.api_version, head.kind)
    try:
        target = _META_TYPES[gvk.kind] if gvk.group == _META or gvk.kind == "Status" else type_of(gvk)
    except (KeyError, UnknownKind):
        raise not_marshalable(f"{gvk.version}.{gvk.kind}") from None
    obj: Any = decode(target, body)
    if isinstance(obj, meta_v1.PartialObjectMetadataList) and gvk.version == "v1beta1":
        return wrap(gvk, _older_partial_list(obj))
    return wrap(gvk, encode_message(obj))


def list_to_protobuf(gvk: GroupVersionKind, metadata: meta_v1.ListMeta, items: Iterable[bytes]) -> bytes:
    """Return a list of objects that are encoded already; ``gvk`` is the kind of one object."""
    parts = [tag(1, LENGTH), delimited(encode_message(metadata))]
    item = tag(2, LENGTH)
    # Messages are cached with their objects; a list only joins them.
    for message in items:
        parts += (item, delimited(message))
    return wrap(gvk._replace(kind=f"{gvk.kind}List"), b"".join(parts))


def _older_partial_list(found: meta_v1.PartialObjectMetadataList) -> bytes:
    """Return the list with its two fields swapped: meta.k8s.io/v1beta1 numbers them the other way round."""
    parts = [tag(1, LENGTH) + delimited(encode_message(item)) for item in found.items]
    return b"".join(parts) + tag(2, LENGTH) + delimited(encode_message(found.metadata))


def not_marshalable(go_type: str) -> StatusError:
    """Return the 406 of a type without a protobuf form, as tables."""
    return failure(
        406,
        "NotAcceptable",
        f"object *{go_type} does not implement the protobuf marshalling interface and cannot be encoded to a "
        "protobuf message",
    )


class _AnswerHead(msgspec.Struct, rename={"api_version": "apiVersion"}):
    api_version: str = ""
    kind: str = ""
