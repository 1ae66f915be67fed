"""The CEL rules of a schema."""

from __future__ import annotations

from typing import Any

import pytest

from cathedra.apiserver.custom.rules import ValidationRules, compile_rules, escaped
from cathedra.apiserver.custom.schema import read_schema

INTEGER = {"type": "integer"}


def rules(*given: dict[str, Any], **properties: Any) -> ValidationRules:
    source = {"type": "object", "properties": properties, "x-kubernetes-validations": list(given)}
    compiled, faults = compile_rules(read_schema(source))
    assert faults == []
    return compiled


def test_a_broken_rule_says_its_message_and_never_the_value() -> None:
    found = rules({"rule": "self.a < self.b", "message": "a must be below b"}, a=INTEGER, b=INTEGER)
    (error,) = found.broken({"a": 2, "b": 1}, None)
    assert error.message == "Invalid value: a must be below b"
    assert found.broken({"a": 1, "b": 2}, None) == []


def test_a_message_may_be_computed() -> None:
    rule = {"rule": "self.a < 5", "messageExpression": "self.name + ' is too large'"}
    found = rules(rule, a=INTEGER, name={"type": "string", "maxLength": 20})
    (error,) = found.broken({"a": 7, "name": "x"}, None)
    assert error.detail == "x is too large"


def test_a_rule_about_a_change_needs_an_old_value() -> None:
    found = rules(a=INTEGER | {"x-kubernetes-validations": [{"rule": "self >= oldSelf"}]})
    assert found.broken({"a": 1}, None) == []
    assert found.broken({"a": 1}, {}) == []
    assert [error.field for error in found.broken({"a": 1}, {"a": 2})] == ["a"]


def test_items_of_a_keyed_list_are_compared_by_their_keys() -> None:
    item = {
        "type": "object",
        "properties": {"name": {"type": "string", "maxLength": 9}, "size": INTEGER},
        "required": ["name"],
        "x-kubernetes-validations": [{"rule": "self.size >= oldSelf.size"}],
    }
    keyed = {"type": "array", "maxItems": 5, "items": item}
    keyed |= {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]}
    found = rules(l=keyed)
    old = {"l": [{"name": "a", "size": 1}, {"name": "b", "size": 5}]}
    assert found.broken({"l": [{"name": "b", "size": 5}, {"name": "c", "size": 0}]}, old) == []
    assert [error.field for error in found.broken({"l": [{"name": "b", "size": 4}]}, old)] == ["l[0]"]


def test_a_schema_without_rules_has_none() -> None:
    assert not rules(a=INTEGER).any
    assert rules(a=INTEGER | {"x-kubernetes-validations": [{"rule": "self > 0"}]}).any


def test_a_rule_that_does_not_compile_is_a_fault_at_its_place() -> None:
    source = {"type": "object", "x-kubernetes-validations": [{"rule": "self.nope > 0"}]}
    _, (fault,) = compile_rules(read_schema(source))
    assert fault.path == ".x-kubernetes-validations[0].rule"
    assert "undefined field 'nope'" in fault.detail


@pytest.mark.parametrize(
    ("name", "in_cel"), [("plain", "plain"), ("my-name", "my__dash__name"), ("a.b", "a__dot__b"), ("in", "__in__")]
)
def test_names_that_cel_does_not_take_are_escaped(name: str, in_cel: str) -> None:
    assert escaped(name) == in_cel
