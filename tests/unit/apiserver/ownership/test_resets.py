"""Sets of the fields that a write cannot change."""

from __future__ import annotations

from cathedra.apiserver.ownership.fieldset import FieldSet
from cathedra.apiserver.ownership.resets import field_set


def test_a_path_names_a_field_and_what_is_above_it_is_no_member() -> None:
    made = field_set(("metadata.labels", "status"))
    expected = FieldSet()
    expected.insert(["f:metadata", "f:labels"])
    expected.insert(["f:status"])
    assert made == expected
    above = FieldSet()
    above.insert(["f:metadata"])
    assert made != above


def test_the_same_paths_are_one_set() -> None:
    assert field_set(("spec",)) is field_set(("spec",))
    assert field_set(()) == FieldSet()
