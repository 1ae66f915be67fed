"""Messages of protobuf."""

from __future__ import annotations

import pytest

from tests.unit.cel.asking import shown


@pytest.mark.parametrize(
    ("expression", "result"),
    [
        ("google.protobuf.Int32Value{value: 5} + 1", "6"),
        ("google.protobuf.StringValue{}", ""),
        ("google.protobuf.FloatValue{value: 1.333} == 1.333", "false"),
        ("google.protobuf.Value{list_value: [1, 2]}", "[1, 2]"),
        ("google.protobuf.Value{null_value: google.protobuf.NullValue.NULL_VALUE} == null", "true"),
        ("google.protobuf.Struct{fields: {'a': 1.0}}", "{a: 1}"),
        ("google.protobuf.Timestamp{seconds: 5} == timestamp(5)", "true"),
        ("google.protobuf.BoolValue{?value: optional.none()}", "false"),
        ("google.protobuf.Empty{} == google.protobuf.Empty{}", "true"),
    ],
)
def test_messages_give_the_values_they_stand_for(expression: str, result: str) -> None:
    assert shown(expression) == result
