"""Lists that are too long (docs/spec/api.md §3.1, appendix D)."""

from __future__ import annotations

import pytest

from cathedra.api.field import ErrorList, FieldPath
from cathedra.kinds.resource.lists import validate_items
from tests.unit.kinds.objects import gates, texts


def found(items: list[str], release: str) -> list[str]:
    """What is said of a list of at most two items, none of which may be empty."""
    errors = ErrorList()

    def item(path: FieldPath, value: str) -> None:
        if not value:
            errors.required(path)

    validate_items(errors, FieldPath("l"), items, 2, gates(release), item, key=str)
    return texts(errors)


@pytest.mark.parametrize(
    ("release", "wanted"),
    [
        ("1.31", ["l[1]: Required value", "l: Too long: may not be more than 2 bytes", 'l[2]: Duplicate value: "a"']),
        ("1.34", ["l[1]: Required value", "l: Too many: 3: must have at most 2 items", 'l[2]: Duplicate value: "a"']),
        ("1.35", ["l: Too many: 3: must have at most 2 items"]),
    ],
)
def test_items_of_a_list_that_is_too_long_were_looked_at_until_134(release: str, wanted: list[str]) -> None:
    assert found(["a", "", "a"], release) == wanted


@pytest.mark.parametrize("release", ["1.31", "1.34", "1.37"])
def test_a_list_of_the_longest_length_is_looked_at_in_every_release(release: str) -> None:
    assert found(["a", "b"], release) == []
    assert found(["", "a"], release) == ["l[0]: Required value"]
