"""The messages of protobuf that can be named."""

from __future__ import annotations

from cathedra.cel.checking import types, wellknown


def test_wrappers_have_a_value_of_the_plain_type() -> None:
    fields = wellknown.fields_of("google.protobuf.UInt32Value")
    assert fields == {"value": types.UINT}
    assert fields is not None
    assert not fields["value"].nullable


def test_messages_stand_for_cel_types() -> None:
    assert wellknown.MESSAGES["google.protobuf.Struct"] == types.map_of(types.STRING, types.DYN)
    assert wellknown.MESSAGES["google.protobuf.BoolValue"].nullable


def test_other_messages_are_unknown() -> None:
    assert wellknown.fields_of("google.type.Money") is None
