"""Names with qualifiers: look-ups that fail, are optional, or only test."""

from __future__ import annotations

import pytest

from cathedra.cel.errors import CompileError
from tests.unit.cel.asking import PLAIN, shown
from tests.unit.cel.building import view


@pytest.mark.parametrize(
    ("expression", "result"),
    [
        ("[1, 2][dyn(1.0)]", "2"),
        ("[1, 2][dyn(1.5)]", "error: unsupported index value 1.5 in list"),
        ("[1, 2][dyn('a')]", "error: unsupported index type 'string' in list"),
        ("dyn({1: 'a'})[1u]", "a"),
        ("{'a': [1]}.?a[0]", "optional(1)"),
        ("{'a': [1]}.?a[?5]", "optional.none()"),
        ("(true ? {'a': 1} : {'b': 2}).a", "1"),
        ("{'a': 1}[true ? 'a' : 'b']", "1"),
        ("{'a': 1}[['a'][0]]", "1"),
        ("has(optional.of({'a': 1}).a)", "true"),
    ],
)
def test_qualifiers_apply_one_after_the_other(expression: str, result: str) -> None:
    assert shown(expression) == result


def test_a_key_of_an_impossible_type_is_refused_when_the_program_is_built() -> None:
    from cathedra.cel.program import compile_expression

    with pytest.raises(CompileError, match="invalid qualifier type"):
        _ = compile_expression("dyn({'a': 1})[null]", PLAIN).plan


def test_unknown_domains_are_empty_and_membership_tells_the_truth() -> None:
    from cathedra.cel.selector import compile_selector

    answers = {
        "has(device.attributes.x)": True,
        "device.attributes[?'x'].hasValue()": True,
        "'x' in device.attributes": False,
        "device.attributes['x'].size() == 0": True,
        "has(device.attributes['x'].y)": False,
        "device.attributes.size() == 1": True,
    }
    assert {e: compile_selector(e).matches(view()) for e in answers} == answers
