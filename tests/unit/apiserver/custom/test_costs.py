"""Largest sizes of values by their schema, and cost limits of rules."""

from __future__ import annotations

from typing import Any

import pytest

from cathedra.api.field import ErrorType
from cathedra.apiserver.custom.costs import Cardinality, Extent, TotalCost, excess, extent_of
from cathedra.apiserver.custom.rules import RuleFault, compile_rules, escaped
from cathedra.apiserver.custom.schema import read_schema

REQUEST = 3 * 1024 * 1024
STRING = {"type": "string"}


def extent(source: dict[str, Any]) -> Extent:
    found = extent_of(read_schema(source), escaped)
    assert found is not None
    return found


def faults(**properties: Any) -> list[RuleFault]:
    return compile_rules(read_schema({"type": "object", "properties": properties}))[1]


def ruled(rule: str, source: dict[str, Any]) -> dict[str, Any]:
    return source | {"x-kubernetes-validations": [{"rule": rule}]}


@pytest.mark.parametrize(
    ("source", "most", "fewest"),
    [
        (STRING, REQUEST - 2, 2),
        (STRING | {"maxLength": 10}, 40, 2),
        (STRING | {"maxLength": -1}, 0, 2),
        (STRING | {"enum": ["a", "abcd"]}, 4, 2),
        (STRING | {"format": "byte", "maxLength": 10}, 10, 2),
        (STRING | {"format": "duration"}, 32, 3),
        (STRING | {"format": "date"}, 12, 12),
        (STRING | {"format": "date-time"}, 32, 21),
        ({"type": "boolean"}, 0, 4),
        ({"type": "integer"}, 0, 1),
        ({"x-kubernetes-int-or-string": True}, REQUEST - 2, 1),
        ({"type": "array", "items": {"type": "integer"}}, (REQUEST - 2) // 2, 2),
        ({"type": "array", "items": STRING, "maxItems": 7}, 7, 2),
        ({"type": "object", "additionalProperties": STRING}, (REQUEST - 2) // 8, 2),
        ({"type": "object", "additionalProperties": STRING, "maxProperties": 5}, 5, 2),
        ({"type": "object", "properties": {"ab": STRING, "c": STRING}, "required": ["ab"]}, 0, 2 + 2 + 2 + 4),
        ({"type": "object", "properties": {"ab": STRING | {"default": ""}}, "required": ["ab"]}, 0, 2),
    ],
)
def test_the_schema_or_the_largest_request_bounds_a_value(source: dict[str, Any], most: int, fewest: int) -> None:
    assert (extent(source).most, extent(source).fewest) == (most, fewest)


def test_a_path_leads_to_the_size_of_what_is_there() -> None:
    items = {"type": "object", "properties": {"my-name": STRING | {"maxLength": 3}}}
    source = {"type": "object", "properties": {"l": {"type": "array", "maxItems": 9, "items": items}}}
    found = extent(source)
    assert found.at(("self", "l")) == 9
    assert found.at(("self", "l", "@items", "my__dash__name")) == 12
    assert found.at(("self", "gone")) is None
    assert found.at(("self", "l", "@keys")) is None


def test_containers_multiply_how_often_a_rule_is_asked() -> None:
    listed = read_schema({"type": "array", "maxItems": 10, "items": STRING})
    unbounded = read_schema({"type": "array", "items": STRING})
    assert Cardinality().below(listed).below(listed).most == 100
    assert Cardinality().below(unbounded).below(listed).most is None
    assert Cardinality(100).cost(5, Extent()) == 500
    assert Cardinality(None).cost(5, Extent(0, 2)) == 5 * (REQUEST // 3)
    assert Cardinality(2**63).cost(4, Extent()) == 2**64 - 1


def test_the_four_most_expensive_rules_are_named() -> None:
    total = TotalCost()
    for number in range(6):
        total.add(f"r{number}", 1_000_000 * (number + 1))
    total.add("cheap", 999_999)
    assert [path for _, path in total.most_expensive] == ["r5", "r4", "r3", "r2"]
    assert total.total == 21_999_999


@pytest.mark.parametrize(
    ("cost", "factor"), [(2**64 - 1, "more than 100x"), (11_000_000, "1.100000x"), (31_000_000, "3.1x")]
)
def test_a_refusal_says_by_how_much(cost: int, factor: str) -> None:
    assert f"estimated rule cost exceeds budget by factor of {factor} (try " in excess(
        "estimated rule cost", cost, 10**7
    )


def test_a_rule_that_walks_over_an_unbounded_list_of_lists_is_refused() -> None:
    lists = {"type": "array", "items": {"type": "array", "items": STRING}}
    (first, *_, last) = faults(l=ruled("self.all(x, x.all(y, y == 'a'))", lists))
    assert first.type is ErrorType.FORBIDDEN
    assert first.path == ".properties[l].x-kubernetes-validations[0].rule"
    assert first.detail.startswith("estimated rule cost exceeds budget by factor of more than 100x")
    assert last.path == ""
    assert last.detail.startswith("x-kubernetes-validations estimated rule & messageExpression cost total")


def test_bounds_make_the_same_rule_acceptable() -> None:
    inner = {"type": "array", "maxItems": 10, "items": STRING | {"maxLength": 20}}
    lists = {"type": "array", "maxItems": 100, "items": inner}
    assert faults(l=ruled("self.all(x, x.all(y, y == 'a'))", lists)) == []


def test_a_cheap_rule_inside_of_an_unbounded_list_is_counted_for_every_item() -> None:
    items = ruled("self.a == 'x'", {"type": "object", "properties": {"a": STRING | {"maxLength": 5}}})
    assert faults(l={"type": "array", "items": items}) == []
    items = ruled("self.a.contains('x') && self.a.contains('y') && self.a.contains('z')", items)
    assert faults(l={"type": "array", "items": items})[0].type is ErrorType.FORBIDDEN


def test_affordable_rules_may_be_too_much_together() -> None:
    source = {"type": "array", "maxItems": 500_000, "items": {"type": "integer"}}
    rules = [{"rule": "self.all(x, x > 0)"}] * 50
    found = faults(l=source | {"x-kubernetes-validations": rules})
    assert [one.detail[:11] for one in found] == ["contributed"] * 4 + ["x-kubernete"]


def test_a_message_expression_has_its_own_cost_and_type() -> None:
    dear = {"rule": "self.size() > 0", "messageExpression": "self.all(x, self.all(y, x == y)) ? 'a' : 'b'"}
    source = {"type": "array", "items": STRING, "x-kubernetes-validations": [dear]}
    assert faults(l=source)[0].detail.startswith("estimated messageExpression cost exceeds budget")
    source = source | {"x-kubernetes-validations": [{"rule": "true", "messageExpression": "1"}]}
    assert faults(l=source)[0].detail == "messageExpression must evaluate to a string"
