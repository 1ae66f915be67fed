"""Metadata that the server itself sets."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cathedra.api.core.meta_v1 import ObjectMeta, OwnerReference
from cathedra.api.struct import Time, from_dict, replace
from cathedra.apiserver.authentication.user import UserInfo
from cathedra.apiserver.request import Call
from cathedra.apiserver.verbs.objectmeta import _OF_SERVER, fresh, kept, without_duplicate_owners
from tests.unit.kinds.objects import definition_of

LATER = "2026-01-02T00:00:00Z"
FORGED = {
    "uid": "forged",
    "creationTimestamp": LATER,
    "deletionTimestamp": LATER,
    "deletionGracePeriodSeconds": 5,
    "selfLink": "/forged",
    "resourceVersion": "7",
}


def meta(**values: Any) -> ObjectMeta:
    return from_dict(ObjectMeta, {"name": "a", **values})


def test_a_new_object_has_its_times_and_uid_from_the_server_alone() -> None:
    made = fresh(meta(**FORGED, labels={"a": "b"}), 5.0, random.Random(1))
    assert made.creation_timestamp == Time(5.0)
    assert made.uid not in ("", "forged")
    assert (made.deletion_timestamp, made.deletion_grace_period_seconds) == (None, None)
    assert made.self_link == ""
    assert (made.name, made.labels) == ("a", {"a": "b"})


def test_no_two_objects_have_one_uid() -> None:
    chance = random.Random(1)
    assert len({fresh(meta(), 5.0, chance).uid for _ in range(100)}) == 100


def test_a_change_takes_nothing_away_that_the_server_set() -> None:
    old = meta(uid="u", creationTimestamp="2026-01-01T00:00:00Z", generation=3, resourceVersion="41")
    made = kept(meta(**{**FORGED, "uid": ""}, generation=9, labels={"a": "b"}), old)
    assert (made.uid, made.creation_timestamp, made.generation) == ("u", old.creation_timestamp, 3)
    assert (made.self_link, made.resource_version, made.labels) == ("", "41", {"a": "b"})


def test_metadata_that_keeps_what_the_server_set_is_taken_as_it_is() -> None:
    old = meta(uid="u", creationTimestamp="2026-01-01T00:00:00Z", generation=3, resourceVersion="41")
    new = meta(uid="u", creationTimestamp="2026-01-01T00:00:00Z", generation=3, resourceVersion="41", labels={"a": "b"})
    assert kept(new, old) is new
    assert kept(meta(uid="u", selfLink="/forged"), meta(uid="u")).self_link == ""


def test_another_uid_is_left_for_validation_to_refuse() -> None:
    assert kept(meta(uid="forged"), meta(uid="u")).uid == "forged"


@pytest.mark.parametrize(("old", "new", "seconds"), [(None, 5, 5), (9, 5, 9), (9, None, 9)])
def test_a_deletion_that_has_begun_goes_on(old: int | None, new: int | None, seconds: int) -> None:
    def ending(at: str, grace: int | None) -> ObjectMeta:
        return meta(deletionTimestamp=at, **({} if grace is None else {"deletionGracePeriodSeconds": grace}))

    made = kept(ending(LATER, new), ending("2026-01-01T00:00:00Z", old))
    assert made.deletion_timestamp == ending("2026-01-01T00:00:00Z", old).deletion_timestamp
    assert made.deletion_grace_period_seconds == seconds


@pytest.mark.parametrize("name", _OF_SERVER)
@pytest.mark.parametrize("new", [FORGED, {}])
def test_no_field_that_the_server_sets_is_left_out_of_the_fast_path(name: str, new: dict[str, Any]) -> None:
    changed = replace(meta(), **{name: getattr(meta(**new, generation=9), name)})
    for old in (meta(**{**FORGED, "uid": "u", "selfLink": ""}, generation=3), meta()):
        others = {other: getattr(old, other) for other in _OF_SERVER if other != name}
        wanted = replace(changed, **others)
        assert getattr(kept(wanted, old), name) == _OF_SERVER[name](wanted, old)


DEFINITION = definition_of("configmaps")


def call() -> Call:
    return Call.on(DEFINITION, DEFINITION.versions[0], user=UserInfo("ada"), verb="create")


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
