"""The algebra of field sets."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from cathedra.api.struct import RawJSON
from cathedra.apiserver.ownership.fieldset import ONE_FIELD, FieldSet

PATHS = st.sets(st.lists(st.sampled_from(["f:a", "f:b", 'k:{"n":"x"}', 'v:"y"']), min_size=1, max_size=3).map(tuple))


def made(paths: set[tuple[str, ...]]) -> FieldSet:
    found = FieldSet()
    for path in paths:
        found.insert(path)
    return found


def under(path: tuple[str, ...], roots: set[tuple[str, ...]]) -> bool:
    return any(path[: len(root)] == root for root in roots)


@given(PATHS)
def test_a_set_is_what_was_inserted_in_order(paths: set[tuple[str, ...]]) -> None:
    assert list(made(paths).paths()) == sorted(paths)
    assert made(paths).empty is not bool(paths)


@given(PATHS)
def test_a_set_survives_its_spelling(paths: set[tuple[str, ...]]) -> None:
    assert FieldSet.from_json(made(paths).to_json()) == made(paths)
    assert FieldSet.from_raw(RawJSON(made(paths).raw.data)) == made(paths)


@given(PATHS, PATHS)
def test_sets_of_fields_are_sets_of_paths(one: set[tuple[str, ...]], other: set[tuple[str, ...]]) -> None:
    assert set(made(one).union(made(other)).paths()) == one | other
    assert set(made(one).intersection(made(other)).paths()) == one & other
    assert set(made(one).difference(made(other)).paths()) == one - other


@given(PATHS, PATHS)
def test_without_subtrees_leaves_nothing_at_or_below(one: set[tuple[str, ...]], other: set[tuple[str, ...]]) -> None:
    assert set(made(one).without_subtrees(made(other)).paths()) == {path for path in one if not under(path, other)}


@given(PATHS, PATHS)
def test_operations_leave_their_operands_as_they_were(one: set[tuple[str, ...]], other: set[tuple[str, ...]]) -> None:
    left, right = made(one), made(other)
    left.union(right), left.intersection(right), left.difference(right), left.without_subtrees(right)
    left.with_named_parents()
    assert (set(left.paths()), set(right.paths())) == (one, other)


def test_fields_on_the_way_become_members_and_elements_of_lists_do_not() -> None:
    named = made({("f:a", 'k:{"n":"x"}', "f:b", "f:c")}).with_named_parents()
    assert set(named.paths()) == {
        ("f:a",),
        ("f:a", 'k:{"n":"x"}', "f:b"),
        ("f:a", 'k:{"n":"x"}', "f:b", "f:c"),
    }


def test_the_spelling_marks_members_that_have_members_below() -> None:
    assert made({("f:a",), ("f:a", "f:b")}).to_json() == {"f:a": {".": {}, "f:b": {}}}


@given(PATHS)
def test_blanks_that_a_client_put_in_are_no_change(paths: set[tuple[str, ...]]) -> None:
    spelled = made(paths).raw
    assert FieldSet.from_raw(RawJSON(json.dumps(spelled.load()).encode())).raw == spelled


def test_sets_of_the_same_parts_are_the_very_same_one() -> None:
    one, other = (FieldSet.of({"f:a": ONE_FIELD, "f:b": ONE_FIELD}, member=True) for _ in range(2))
    assert one is other
    assert FieldSet.of({"f:x": one}, member=False) is FieldSet.of({"f:x": other}, member=False)
    assert FieldSet.of({"f:x": one}, member=True) is not FieldSet.of({"f:x": one}, member=False)


def test_a_set_with_a_part_of_its_own_is_its_own() -> None:
    own = FieldSet(True, {'k:{"uid":"1"}': ONE_FIELD})
    one, other = (FieldSet.of({"f:ownerReferences": own}, member=False) for _ in range(2))
    assert one is not other
    assert one == other
    assert one.raw.data == b'{"f:ownerReferences":{".":{},"k:{\\"uid\\":\\"1\\"}":{}}}'


@given(st.lists(PATHS, min_size=1, max_size=4))
def test_sets_put_together_of_parts_are_spelled_as_any_others(parts: list[set[tuple[str, ...]]]) -> None:
    for _ in range(2):
        children = {f"f:{position}": made(part) for position, part in enumerate(parts) if part}
        together = FieldSet.of(children, member=False)
        assert together.raw.data == FieldSet.from_json(together.to_json()).raw.data
