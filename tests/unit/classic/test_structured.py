"""Selectors of named resources (docs/spec/cel.md §11)."""

from __future__ import annotations

from typing import Any

import pytest

from cathedra.api.core import resource_v1alpha2 as v1alpha2
from cathedra.api.struct import from_dict
from cathedra.cel.errors import CompileError, EvaluationError
from cathedra.classic.structured import compile_selector, matches

ALL: list[dict[str, Any]] = [
    {"name": "memory", "quantity": "40Gi"},
    {"name": "ecc", "bool": True},
    {"name": "lanes", "int": 16},
    {"name": "ports", "intSlice": {"ints": [1, 2]}},
    {"name": "model", "string": "A100"},
    {"name": "modes", "stringSlice": {"strings": ["fast", "slow"]}},
    {"name": "driver", "version": "1.2.3"},
]


def instance(*attributes: dict[str, Any]) -> v1alpha2.NamedResourcesInstance:
    """An instance with these attributes."""
    return from_dict(v1alpha2.NamedResourcesInstance, {"name": "i", "attributes": list(attributes)})


@pytest.mark.parametrize(
    "expression",
    [
        'attributes.quantity["memory"].isGreaterThan(quantity("16Gi"))',
        'attributes.bool["ecc"]',
        'attributes.int["lanes"] == 16',
        '2 in attributes.intslice["ports"]',
        'attributes.string["model"].startsWith("A")',
        '"slow" in attributes.stringslice["modes"]',
        'attributes.version["driver"].isGreaterThan(semver("1.2.0"))',
        '"ecc" in attributes.bool && !("ecc" in attributes.string)',
    ],
)
def test_each_type_of_value_has_a_map_of_its_own(expression: str) -> None:
    assert matches(expression, instance(*ALL))
    assert not matches(f"!({expression})", instance(*ALL))


def test_an_attribute_that_is_not_there_has_no_value() -> None:
    with pytest.raises(EvaluationError, match="no such key: ecc"):
        matches('attributes.bool["ecc"]', instance())


@pytest.mark.parametrize("expression", ['attributes.int["lanes"]', "device.driver", "attributes.bool[", '"true"'])
def test_what_is_no_bool_about_an_instance_is_refused(expression: str) -> None:
    with pytest.raises(CompileError):
        compile_selector(expression)


def test_the_text_of_a_wrong_type_is_kubernetes() -> None:
    with pytest.raises(CompileError) as refused:
        compile_selector("1")
    assert refused.value.text == "must evaluate to bool"


def test_an_expression_that_costs_too_much_ends() -> None:
    words = [f"w{number}" for number in range(2_000)]
    many = instance({"name": "w", "stringSlice": {"strings": words}})
    crossed = 'attributes.stringslice["w"].all(a, attributes.stringslice["w"].all(b, a != b + "x"))'
    with pytest.raises(EvaluationError, match="cost limit"):
        matches(crossed, many)
