"""Fields that some releases lack."""

from __future__ import annotations

import pytest

from cathedra.api import facts
from cathedra.releases import RELEASES
from cathedra.releases.fields import ONLY_IN, REQUIRED_FROM, REQUIRED_UNTIL, is_known, is_new_in_v1, is_required


@pytest.mark.parametrize(
    ("kind", "field", "first", "last"),
    [("DeviceRequest", "firstAvailable", "1.33", RELEASES[-1]), ("AllocationResult", "controller", "1.31", "1.31")],
)
def test_a_field_is_known_from_its_first_release_to_its_last(kind: str, field: str, first: str, last: str) -> None:
    known = [release for release in RELEASES if is_known(kind, field, release)]
    assert (known[0], known[-1]) == (first, last)


def test_a_field_that_is_not_listed_is_known_to_every_release() -> None:
    assert all(is_known("ObjectMeta", "name", release) for release in RELEASES)


def test_listed_fields_exist_among_the_wire_facts() -> None:
    existing = {
        (kind, field)
        for types in facts.load().values()
        for kind, fact in types.items()
        for field in fact.get("fields", ())
    }
    listed = [*ONLY_IN, *REQUIRED_FROM, *REQUIRED_UNTIL]
    missing = {(kind, field) for kind, field in listed if field} - existing
    assert missing == set()


def test_a_field_is_new_in_v1_if_a_release_that_serves_v1_lacks_it() -> None:
    assert is_new_in_v1("DeviceAttribute", "ints")
    assert not is_new_in_v1("DeviceCapacity", "requestPolicy")
    assert not is_new_in_v1("ObjectMeta", "name")


@pytest.mark.parametrize(
    ("kind", "field"),
    [("JobSpec", "scheduling"), ("EmptyDirVolumeSource", "mode"), ("HTTPGetAction", "protocol"), ("KeyToPath", "user")],
)
def test_fields_of_137_outside_devices_are_unknown_to_136(kind: str, field: str) -> None:
    assert (is_known(kind, field, "1.36"), is_known(kind, field, "1.37")) == (False, True)


@pytest.mark.parametrize(
    ("kind", "field", "newest", "older", "newer"),
    [("Deployment", "spec", True, False, True), ("EndpointSlice", "endpoints", False, True, False)],
)
def test_a_field_is_required_by_release(kind: str, field: str, *, newest: bool, older: bool, newer: bool) -> None:
    assert is_required(kind, field, "1.35", newest=newest) is older
    assert is_required(kind, field, "1.37", newest=newest) is newer


def test_a_field_that_is_not_listed_is_required_as_in_the_newest_release() -> None:
    assert is_required("Role", "kind", "1.34", newest=True)
    assert not is_required("Role", "kind", "1.34", newest=False)
