"""Rules of node selectors."""

from __future__ import annotations

from typing import Any

import pytest

from cathedra.api.core.core_v1 import NodeSelector
from cathedra.api.field import ErrorList, FieldPath
from cathedra.api.struct import from_dict
from cathedra.kinds.nodeselectors import validate_node_selector
from tests.unit.kinds.objects import texts


def problems(*terms: dict[str, Any]) -> list[str]:
    errors = ErrorList()
    selector = from_dict(NodeSelector, {"nodeSelectorTerms": list(terms)})
    validate_node_selector(errors, FieldPath("s"), selector)
    return texts(errors)


def labels(operator: str, *values: str) -> dict[str, Any]:
    return {"matchExpressions": [{"key": "k", "operator": operator, "values": list(values)}]}


WHERE = "s.nodeSelectorTerms[0].matchExpressions[0]"


@pytest.mark.parametrize(
    ("term", "wanted"),
    [
        (labels("In", "a"), []),
        (labels("In"), [f"{WHERE}.values: Required value: must be specified when `operator` is 'In' or 'NotIn'"]),
        (labels("Exists"), []),
        (
            labels("Exists", "a"),
            [f"{WHERE}.values: Forbidden: may not be specified when `operator` is 'Exists' or 'DoesNotExist'"],
        ),
        (
            labels("Gt", "1", "2"),
            [f"{WHERE}.values: Required value: must be specified single value when `operator` is 'Lt' or 'Gt'"],
        ),
        (labels("Like"), [f'{WHERE}.operator: Invalid value: "Like": not a valid selector operator']),
    ],
)
def test_an_operator_has_the_values_that_it_needs(term: dict[str, Any], wanted: list[str]) -> None:
    assert problems(term) == wanted


def test_a_selector_has_terms() -> None:
    assert problems() == ["s.nodeSelectorTerms: Required value: must have at least one node selector term"]
