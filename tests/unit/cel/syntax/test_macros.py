"""The expansion of macros, and their results."""

from __future__ import annotations

import pytest

from cathedra.cel.syntax.tree import Comprehension
from tests.unit.cel.asking import PLAIN, shown


@pytest.mark.parametrize(
    ("expression", "result"),
    [
        ("[1, 2].all(x, x > 0)", "true"),
        ("[1, 2].exists(x, x > 1)", "true"),
        ("[1, 2].exists_one(x, x > 0)", "false"),
        ("[1, 2].map(x, x * 2)", "[2, 4]"),
        ("[1, 2].map(x, x > 1, x * 2)", "[4]"),
        ("[1, 2].filter(x, x > 1)", "[2]"),
        ("{'a': 1}.all(k, v, k == 'a' && v == 1)", "true"),
        ("[5, 6].exists(i, v, i == 1 && v == 6)", "true"),
        ("[5, 6].existsOne(i, v, v > 4)", "false"),
        ("[5, 6].transformList(i, v, i > 0, v + i)", "[7]"),
        ("{'a': 1}.transformMap(k, v, v + 1)", "{a: 2}"),
        ("{'a': 1}.transformMapEntry(k, v, {v: k})", "{1: a}"),
        ("cel.bind(x, 1 + 1, x * x)", "4"),
        ("cel.bind(x, 1 / 0, true)", "true"),
        ("optional.of(1).optMap(x, x + 1)", "optional(2)"),
        ("optional.of(1).optFlatMap(x, optional.none())", "optional.none()"),
        ("[3, 1, 2].sortBy(x, -x)", "[3, 2, 1]"),
        ("[1, 0].exists(x, 1 / x > 0)", "true"),
        ("[0, 1].all(x, 1 / x > 0)", "error: division by zero"),
        ("[1, 2].exists_one(x, 1 / 0 > 0)", "error: division by zero"),
    ],
)
def test_macros_give_what_the_language_says(expression: str, result: str) -> None:
    assert shown(expression) == result


def test_expansions_have_kubernetes_shape() -> None:
    from cathedra.cel.syntax import parser

    root = parser.parse("[1].exists(x, true)", PLAIN.macros)
    assert isinstance(root, Comprehension)
    assert (root.accu, root.macro, root.var2) == ("@result", "exists", "")


def test_a_function_named_like_a_macro_of_other_arity_is_a_call() -> None:
    from tests.unit.cel.asking import refusal

    assert "undeclared reference to 'all'" in refusal("[1].all(x)") or "undeclared reference to 'x'" in refusal(
        "[1].all(x)"
    )
