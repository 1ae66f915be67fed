"""The algebra of field sets."""

from __future__ import annotations

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cathedra.api.struct import RawJSON
from cathedra.apiserver.ownership.fieldset import _SHARED, NOTHING, ONE_FIELD, FieldSet, InvalidElement, fields_at
from cathedra.apiserver.ownership.typed import element_of_text
from cathedra.remembering import forget
from tests.requirements import with_memos

PATHS = st.sets(st.lists(st.sampled_from(["f:a", "f:b", 'k:{"n":"x"}', 'v:"y"']), min_size=1, max_size=3).map(tuple))


def made(paths: set[tuple[str, ...]]) -> FieldSet:
    found = FieldSet()
    for path in paths:
        found.insert(path)
    return found


def empty_memos() -> None:
    """Forget what other tests have made: a full memo drops a template between two uses of it."""
    forget()
    _SHARED.clear()


def under(path: tuple[str, ...], roots: set[tuple[str, ...]]) -> bool:
    return any(path[: len(root)] == root for root in roots)


@given(PATHS)
def test_a_set_is_what_was_inserted_in_order(paths: set[tuple[str, ...]]) -> None:
    assert list(made(paths).paths()) == sorted(paths)
    assert made(paths).empty is not bool(paths)


@given(PATHS)
def test_a_set_survives_its_json(paths: set[tuple[str, ...]]) -> None:
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


def test_the_json_marks_members_that_have_members_below() -> None:
    assert made({("f:a",), ("f:a", "f:b")}).to_json() == {"f:a": {".": {}, "f:b": {}}}


@given(PATHS)
def test_blanks_in_the_json_of_a_client_are_no_change(paths: set[tuple[str, ...]]) -> None:
    spelled = made(paths).raw
    assert FieldSet.from_raw(RawJSON(json.dumps(spelled.load()).encode())).raw == spelled


@with_memos
def test_sets_of_equal_parts_share_one_tree() -> None:
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


def owned(uid: str) -> FieldSet:
    owners = FieldSet.of_one(element_of_text("uid", uid), ONE_FIELD)
    return FieldSet.of({"f:a": ONE_FIELD, "f:ownerReferences": owners}, member=False)


@with_memos
@given(st.text(), st.text())
def test_sets_that_differ_in_one_uid_share_a_template(uid: str, another: str) -> None:
    empty_memos()
    one, other = owned(uid), owned(another)
    assert one.template is other.template
    assert one.number == other.number != 0
    assert (one == other) is (uid == another)
    for found, text in ((one, uid), (other, another)):
        plain = made({("f:a",), ("f:ownerReferences",), ("f:ownerReferences", element_of_text("uid", text))})
        assert found == plain
        assert found.raw == plain.raw
        assert FieldSet.of({"f:x": found}, member=False).raw == FieldSet(False, {"f:x": plain}).raw


def test_sets_with_two_uids_or_one_beside_other_elements_are_not_shared() -> None:
    one = FieldSet.of_one('k:{"uid":"1"}', ONE_FIELD)
    assert FieldSet.of({"f:a": one, "f:b": one}, member=False).number == 0
    assert FieldSet.of_one('k:{"uid":"1"}', FieldSet.of({"f:a": one}, member=True)).number == 0
    assert FieldSet.of({'k:{"uid":"1"}': ONE_FIELD}, member=True).number == 0
    assert FieldSet.of({"f:a": FieldSet()}, member=False).number == 0


@with_memos
def test_the_json_of_a_filled_template_has_its_set_without_decoding() -> None:
    empty_memos()
    found = owned("6-f")
    raw = found.expect_reading()
    assert FieldSet.from_own_json(raw) is found
    assert raw == RawJSON(raw.data)
    assert raw.compact() == raw.data == msgspec.json.encode(raw.written)
    assert FieldSet.from_own_json(RawJSON(raw.data)) == found


@with_memos
def test_sets_at_paths_are_shared_as_those_of_their_parts() -> None:
    empty_memos()

    def at_paths(uid: str) -> FieldSet:
        owners = FieldSet.of_one(element_of_text("uid", uid), ONE_FIELD)
        return FieldSet.at_paths({("f:m", "f:a"): ONE_FIELD, ("f:m", "f:ownerReferences"): owners, ("f:s",): ONE_FIELD})

    for uid in ("1-a", "2-b"):
        for found in (at_paths(uid), at_paths(uid)):
            expected = FieldSet.of({"f:m": owned(uid), "f:s": ONE_FIELD}, member=False)
            assert found == expected
            assert (found.number, found.element) == (expected.number, expected.element)
    assert FieldSet.at_paths({}) is fields_at(())


UIDS = st.sampled_from(["1-a", "2-b", "ü", 'x"'])


@given(UIDS, st.lists(UIDS, unique=True, max_size=2), PATHS)
def test_a_set_with_a_uid_is_decoded_as_it_was_encoded(uid: str, uids: list[str], paths: set[tuple[str, ...]]) -> None:
    found = made({*paths, *(("f:a", element_of_text("uid", one)) for one in uids)})
    for spelled in (found, owned(uid)):
        data = spelled.raw.data
        read = FieldSet.from_raw(RawJSON(data))
        assert read == FieldSet.from_json(RawJSON(data).load()) == spelled
        assert read.raw.data == data
    with_blank = FieldSet.from_raw(RawJSON(owned(uid).raw.data.replace(b'":{', b'": {')))
    assert with_blank.raw == owned(uid).raw


@with_memos
def test_decoded_sets_share_the_template_of_those_that_were_made() -> None:
    empty_memos()
    first, other = (FieldSet.from_raw(RawJSON(owned(uid).raw.data)) for uid in ("3-c", "4-d"))
    assert first.number == other.number == owned("5-e").number != 0
    assert (first.element, other.element) == ('k:{"uid":"3-c"}', 'k:{"uid":"4-d"}')


def test_the_sets_of_no_part_outlive_the_shared_ones() -> None:
    empty_memos()
    assert FieldSet.from_json({}).numbered() is NOTHING
    assert FieldSet.from_json({"f:a": {}}).numbered().children["f:a"] is ONE_FIELD


@with_memos
@given(PATHS)
def test_a_set_with_a_number_has_the_same_paths(paths: set[tuple[str, ...]]) -> None:
    empty_memos()
    one, other = made(paths).numbered(), made(paths).numbered()
    assert one == made(paths)
    assert one is other


@given(st.lists(PATHS, min_size=1, max_size=4))
def test_sets_made_of_parts_have_the_same_json_as_any_others(parts: list[set[tuple[str, ...]]]) -> None:
    for _ in range(2):
        children = {f"f:{position}": made(part) for position, part in enumerate(parts) if part}
        together = FieldSet.of(children, member=False)
        assert together.raw.data == FieldSet.from_json(together.to_json()).raw.data


def test_the_parents_of_a_path_are_not_in_the_set() -> None:
    made = fields_at(("metadata.labels", "status"))
    expected = FieldSet()
    expected.insert(["f:metadata", "f:labels"])
    expected.insert(["f:status"])
    assert made == expected
    above = FieldSet()
    above.insert(["f:metadata"])
    assert made != above


def test_equal_paths_share_one_set() -> None:
    assert fields_at(("spec",)) is fields_at(("spec",))
    assert fields_at(()) == FieldSet()


def test_a_member_at_the_root_is_ignored() -> None:
    """Kubernetes drops a "." at the root when it decodes ``fieldsV1``."""
    assert list(FieldSet.from_raw(RawJSON(b'{".":{},"f:a":{}}')).paths()) == [("f:a",)]


@pytest.mark.parametrize("key", ["bogus", "f", "", "k:{", "k:", "k:[1]", "v:no", "i:x"])
def test_a_key_that_is_no_path_element_is_refused(key: str) -> None:
    with pytest.raises(InvalidElement):
        FieldSet.from_json({"f:data": {key: {}}})
    assert FieldSet.from_own_json(RawJSON(json.dumps({"f:data": {key: {}}}).encode())) is None


def test_elements_of_an_unknown_kind_are_left_out() -> None:
    """A later version may know them (structured-merge-diff, ErrUnknownPathElementType)."""
    known = {"f:a": {}, 'k:{"n":"x"}': {}, "v:1": {}, "i:2": {}}
    assert FieldSet.from_json({**known, "x:y": {"f:b": {}}}) == FieldSet.from_json(known)
    assert FieldSet.from_json({"f:a": {"x:y": {}}}) == FieldSet.from_json({"f:a": {}})
