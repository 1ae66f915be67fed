"""Tags as data."""

from __future__ import annotations

import msgspec
import pytest

from cathedra.kinds.declarative.tags import FieldTags, TypeTags


def test_a_field_without_tags_may_hold_anything_or_nothing() -> None:
    said = msgspec.structs.asdict(FieldTags())
    assert not any(said.values()), said


def test_a_type_may_be_a_union_and_nothing_else() -> None:
    assert dict(TypeTags(union=("a", "b")).fields) == {}


def test_tags_are_values_that_many_types_share() -> None:
    shared = FieldTags(required=True)
    with pytest.raises(AttributeError):
        shared.required = False  # type: ignore[misc]  # that it cannot be set is what is tested
    assert shared == FieldTags(required=True)
