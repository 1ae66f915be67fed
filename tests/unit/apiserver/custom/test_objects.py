"""Struct types that are made at run time."""

from __future__ import annotations

from typing import Any

import pytest

from cathedra.api.core.meta_v1 import ObjectMeta
from cathedra.api.decoding import DecodeError
from cathedra.api.parts import FEW, SharedParts
from cathedra.api.struct import decode, encode, to_dict
from cathedra.apiserver.custom.objects import (
    CustomObject,
    content,
    decode_custom,
    is_custom,
    make_stored_type,
    make_type,
    normalized,
    with_content,
)
from cathedra.apiserver.custom.schema import read_schema

SOURCE: dict[str, Any] = {
    "type": "object",
    "description": "A thing.",
    "properties": {
        "spec": {"type": "object", "properties": {"class": {"type": "string", "default": "plain"}}},
        "from": {"type": "string"},
    },
}


def thing() -> type[CustomObject]:
    return make_type("Thing", read_schema(SOURCE))


def test_fields_keep_their_json_names_even_if_python_has_other_uses_for_them() -> None:
    kind = thing()
    made = with_content(kind, ObjectMeta(name="a"), {"from": "here", "spec": {}})
    assert to_dict(made) == {"metadata": {"name": "a"}, "from": "here", "spec": {}}
    assert content(made) == {"from": "here", "spec": {}}
    assert kind.__doc__ == "A thing."
    assert is_custom(kind)
    assert not is_custom(ObjectMeta)


def test_fields_that_a_version_does_not_have_are_dropped() -> None:
    assert content(with_content(thing(), ObjectMeta(), {"gone": 1, "from": "x"})) == {"from": "x"}


def test_normal_objects_are_pruned_and_have_their_defaults() -> None:
    made = with_content(thing(), ObjectMeta(), {"spec": {"odd": 1}})
    assert content(normalized(made)) == {"spec": {"class": "plain"}}


def test_what_is_unknown_in_a_body_is_named_also_in_its_metadata() -> None:
    values = {"kind": "Thing", "metadata": {"name": "a", "odd": 1}, "other": 2}
    made, problems = decode_custom(thing(), values, "1.37")
    assert made.metadata.name == "a"
    assert sorted(problems) == ['unknown field "metadata.odd"', 'unknown field "other"']


def test_metadata_of_another_type_is_no_object() -> None:
    with pytest.raises(DecodeError, match=r"cannot unmarshal into Go value of type v1\.ObjectMeta"):
        decode_custom(thing(), {"metadata": "a"}, "1.37")


@pytest.mark.parametrize("kind", [thing(), make_stored_type(thing(), "example.com/v1")])
def test_objects_of_a_store_share_their_metadata_and_no_plain_values(kind: type[CustomObject]) -> None:
    shared = SharedParts()
    body = encode(with_content(kind, ObjectMeta(name="a", labels={"app": "a"}), {"spec": {"class": "x"}, "from": "y"}))
    one, other = [shared.read(kind, body) for _ in range(FEW + 2)][-2:]
    assert one == other == decode(kind, body)
    assert type(one) is type(other) is kind
    assert encode(one) == body
    assert one.metadata.labels is other.metadata.labels
    assert content(one)["spec"] is not content(other)["spec"]
