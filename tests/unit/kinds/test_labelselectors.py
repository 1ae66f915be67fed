"""Label selectors: keys, values and operators."""

from __future__ import annotations

from typing import Any

import pytest

from cathedra.api.core.meta_v1 import LabelSelector
from cathedra.api.field import ErrorList, FieldPath
from cathedra.api.struct import from_dict
from cathedra.kinds.labelselectors import validate_label_selector


@pytest.mark.parametrize(
    ("selector", "wanted"),
    [
        ({}, []),
        ({"matchLabels": {"a": "b"}, "matchExpressions": [{"key": "c", "operator": "In", "values": ["d"]}]}, []),
        ({"matchLabels": {"a b": "c d"}}, ["s.matchLabels", "s.matchLabels"]),
        ({"matchExpressions": [{"key": "a", "operator": "In"}]}, ["s.matchExpressions[0].values"]),
        ({"matchExpressions": [{"key": "a", "operator": "Exists", "values": ["b"]}]}, ["s.matchExpressions[0].values"]),
        ({"matchExpressions": [{"key": "a", "operator": "Gt"}]}, ["s.matchExpressions[0].operator"]),
        (
            {"matchExpressions": [{"key": "a b", "operator": "NotIn", "values": ["c", "d e"]}]},
            ["s.matchExpressions[0].key", "s.matchExpressions[0].values[1]"],
        ),
    ],
)
def test_each_part_of_a_selector_is_checked(selector: dict[str, Any], wanted: list[str]) -> None:
    errors = ErrorList()
    validate_label_selector(errors, FieldPath("s"), from_dict(LabelSelector, selector))
    assert [error.field for error in errors] == wanted
