"""Owner references as a set."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from cathedra.api.core.meta_v1 import ObjectMeta, OwnerReference
from cathedra.api.struct import replace
from cathedra.apiserver.authentication.user import UserInfo
from cathedra.apiserver.request import Call
from cathedra.apiserver.verbs.owners import without_duplicate_owners
from tests.unit.kinds.objects import definition_of

DEFINITION = definition_of("configmaps")


def call() -> Call:
    return Call(user=UserInfo("ada"), verb="create", definition=DEFINITION, version=DEFINITION.versions[0])


def owned(*uids: str) -> ObjectMeta:
    owners = (OwnerReference(api_version="v1", kind="Pod", name=f"p{uid}", uid=uid) for uid in uids)
    return ObjectMeta(name="a", owner_references=tuple(owners))


def test_an_owner_that_is_said_twice_is_kept_once_where_it_first_stood() -> None:
    asked = call()
    made = without_duplicate_owners(asked, owned("1", "2", "1", "3", "2"))
    assert [(owner.uid, owner.name) for owner in made.owner_references] == [("1", "p1"), ("2", "p2"), ("3", "p3")]
    (warning,) = asked.warnings
    assert warning.startswith(
        ".metadata.ownerReferences contains duplicate entries; API server dedups owner references"
    )
    assert warning.endswith("duplicate UID(s) observed: 1, 2")


def test_references_with_one_uid_that_differ_in_something_else_are_two() -> None:
    asked = call()
    before = owned("1", "2")
    one, two = before.owner_references
    before = replace(before, owner_references=(one, replace(two, uid="1")))
    assert without_duplicate_owners(asked, before) is before
    assert asked.warnings == []


def test_each_repetition_is_named() -> None:
    asked = call()
    without_duplicate_owners(asked, owned("1", "1", "1"))
    assert asked.warnings[0].endswith("duplicate UID(s) observed: 1, 1")


@given(st.lists(st.sampled_from("abc"), max_size=5))
def test_each_owner_is_left_once_and_only_repetitions_are_warned_of(uids: list[str]) -> None:
    asked, before = call(), owned(*uids)
    made = without_duplicate_owners(asked, before)
    assert [owner.uid for owner in made.owner_references] == list(dict.fromkeys(uids))
    repeated = len(set(uids)) < len(uids)
    assert bool(asked.warnings) is repeated
    assert (made is before) is not repeated
