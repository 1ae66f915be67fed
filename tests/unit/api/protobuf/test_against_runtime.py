"""Google's protobuf runtime reads what we write, understands all of it, and writes the same bytes again."""

from __future__ import annotations

from functools import cache
from typing import Any

from google.protobuf.message import Message
from google.protobuf.unknown_fields import UnknownFieldSet
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cathedra.api.core.index import KINDS, MODULES
from cathedra.api.protobuf import decode_message, encode_message
from cathedra.api.scheme import GroupVersionKind, type_of
from cathedra.api.typeinfo import package_of
from cathedra.releases import NEWEST
from tests.unit.api.protobuf.descriptors import NEWEST_OF, Descriptors
from tests.unit.api.protobuf.objects import objects

MIXED = "resource.k8s.io/v1alpha3"
"""1.31 and later releases have other fields of this version, so that none knows all fields of its structs."""
ALL = [(version, kind) for version in MODULES for kind in KINDS[version] if version != MIXED]


@cache
def descriptors() -> Descriptors:
    made = Descriptors()
    for version, kind in ALL:
        made.add(package_of(version), kind)
    return made


def of_kind(version: str, kind: str) -> Any:
    return objects(type_of(GroupVersionKind.parse(version, kind))).map(lambda obj: (version, kind, obj))


def understood(message: Any) -> bool:
    if len(UnknownFieldSet(message)):
        return False
    for field, value in message.ListFields():
        if field.message_type is None:
            continue
        if field.message_type.GetOptions().map_entry:
            parts = list(value.values()) if field.message_type.fields_by_name["value"].message_type else []
        else:
            parts = [value] if isinstance(value, Message) else list(value)
        if not all(understood(part) for part in parts):
            return False
    return True


@settings(max_examples=50, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.sampled_from(ALL).flatmap(lambda kind: of_kind(*kind)))
def test_the_runtime_understands_every_byte_and_writes_it_again(case: tuple[str, str, Any]) -> None:
    version, kind, obj = case
    written = encode_message(obj)
    message = descriptors().message(package_of(version), kind)()
    message.ParseFromString(written)
    assert understood(message)
    again = message.SerializeToString(deterministic=True)
    # The runtime sorts a key behind longer ones that begin with it; Go does not. Apart from that, byte for byte:
    assert sorted(again) == sorted(written)
    release = NEWEST_OF.get(package_of(version), NEWEST)
    # A release that is gone does not know what later ones added to types that all versions share, such as ListMeta.
    expected = obj if release == NEWEST else decode_message(type(obj), written, release)
    assert decode_message(type(obj), again, release) == expected


def test_what_the_runtime_packs_or_reorders_is_read_all_the_same() -> None:
    """Field order and repeated scalars are free on the wire; a decoder takes them as they come."""
    for version, kind in (("v1", "Pod"), ("resource.k8s.io/v1", "ResourceSlice"), ("batch/v1", "Job")):
        of = type_of(GroupVersionKind.parse(version, kind))
        written = encode_message(of())
        message = descriptors().message(package_of(version), kind)()
        message.ParseFromString(written)
        assert decode_message(of, message.SerializeToString()) == of()
