"""Spellings of types."""

from __future__ import annotations

import pytest

from cathedra.cel.checking import types


@pytest.mark.parametrize(
    ("spelled", "shown"),
    [
        ("map(string, list(int))", "map(string, list(int))"),
        ("google.protobuf.Any", "any"),
        ("null_type", "null"),
        ("duration", "duration"),
        ("wrapper(int)", "wrapper(int)"),
        ("optional(T)", "optional_type(T)"),
        ("Quantity", "kubernetes.Quantity"),
    ],
)
def test_types_are_read_and_shown(spelled: str, shown: str) -> None:
    assert types.parse(spelled).text == shown


def test_half_a_type_is_none() -> None:
    with pytest.raises(ValueError, match="no type"):
        types.parse("int)")


def test_equal_types_have_equal_hashes() -> None:
    one, other = types.parse("list(map(int, T))"), types.parse("list(map(int, T))")
    assert one == other
    assert hash(one) == hash(other)
    assert one.generic


def test_wrappers_have_a_value_of_the_plain_type() -> None:
    fields = types.fields_of("google.protobuf.UInt32Value")
    assert fields == {"value": types.UINT}
    assert fields is not None
    assert not fields["value"].nullable


def test_messages_stand_for_cel_types() -> None:
    assert types.MESSAGES["google.protobuf.Struct"] == types.map_of(types.STRING, types.DYN)
    assert types.MESSAGES["google.protobuf.BoolValue"].nullable


def test_other_messages_are_unknown() -> None:
    assert types.fields_of("google.type.Money") is None
