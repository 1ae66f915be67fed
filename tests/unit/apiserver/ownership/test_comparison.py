"""How values differ: what was added, modified and removed."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from cathedra.apiserver.ownership.comparison import Comparison, compare
from cathedra.apiserver.ownership.fieldset import FieldSet
from cathedra.apiserver.patches.schema import LEAF, NUMERIC, STRING, DocumentShape, ListShape, MapShape

ELEMENT = DocumentShape({"n": STRING, "v": NUMERIC})
SHAPE = DocumentShape(
    {
        "a": STRING,
        "labels": MapShape(STRING),
        "keyed": ListShape(ELEMENT, list_type="map", keys=("n",)),
        "tags": ListShape(STRING, list_type="set"),
        "whole": ListShape(LEAF, list_type="atomic"),
    }
)
NAMES = st.sampled_from(["x", "y", "z"])
VALUES = st.fixed_dictionaries(
    {},
    optional={
        "a": NAMES,
        "labels": st.dictionaries(NAMES, NAMES),
        "keyed": st.lists(st.fixed_dictionaries({"n": NAMES, "v": st.integers(0, 2)}), unique_by=lambda e: e["n"]),
        "tags": st.lists(NAMES, unique=True),
        "whole": st.lists(st.integers(0, 2)),
    },
)


def paths(found: FieldSet) -> list[tuple[str, ...]]:
    return list(found.paths())


@given(VALUES)
def test_a_value_does_not_differ_from_itself(value: dict[str, Any]) -> None:
    assert compare(value, dict(value), SHAPE).same


@given(VALUES, VALUES)
def test_what_one_direction_adds_the_other_removes(old: dict[str, Any], new: dict[str, Any]) -> None:
    there, back = compare(old, new, SHAPE), compare(new, old, SHAPE)
    assert there.modified == back.modified
    assert set(paths(there.added)) == set(paths(back.removed))


def test_an_element_of_a_keyed_list_is_known_by_its_key() -> None:
    old = {"keyed": [{"n": "x", "v": 1}, {"n": "y", "v": 1}]}
    found = compare(old, {"keyed": [{"n": "y", "v": 2}]}, SHAPE)
    assert paths(found.modified) == [("f:keyed", 'k:{"n":"y"}', "f:v")]
    assert ("f:keyed", 'k:{"n":"x"}') in paths(found.removed)
    assert found.added.empty


def test_an_atomic_list_changes_as_a_whole() -> None:
    found = compare({"whole": [1, 2]}, {"whole": [1, 3]}, SHAPE)
    assert (paths(found.modified), found.added.empty, found.removed.empty) == ([("f:whole",)], True, True)


def test_a_number_that_becomes_a_truth_is_modified() -> None:
    assert paths(compare(1, True, LEAF).modified) == [()]
    found = compare({"x": {"y": [1]}}, {"x": {"y": [True]}}, DocumentShape({"x": MapShape(LEAF)}))
    assert paths(found.modified) == [("f:x", "f:y")]
    assert compare({"x": 1}, {"x": 1.0}, MapShape(LEAF)).same


def test_ignored_fields_are_left_out_with_all_below() -> None:
    found = compare({}, {"a": "x", "labels": {"y": "z"}}, SHAPE)
    ignored = FieldSet()
    ignored.insert(("f:labels",))
    assert paths(found.without(ignored).added) == [("f:a",)]


def test_no_outline_is_no_difference() -> None:
    assert Comparison.of(None).same


@given(st.dictionaries(NAMES, NAMES), st.dictionaries(NAMES, NAMES))
def test_of_a_map_those_fields_differ_whose_values_do(old: dict[str, str], new: dict[str, str]) -> None:
    found = compare({"labels": {**old, "k": "v"}}, {"labels": {**new, "k": "v"}}, SHAPE)
    modified = {key for key in old.keys() & new.keys() if old[key] != new[key]}
    for fields, names in ((found.added, new.keys() - old.keys()), (found.modified, modified)):
        assert set(paths(fields)) == {("f:labels", f"f:{name}") for name in names}
    assert set(paths(found.removed)) == {("f:labels", f"f:{name}") for name in old.keys() - new.keys()}
