"""Checks that tags name, in the words of declarative validation."""

from __future__ import annotations

import pytest

from cathedra.api.field import ErrorList, FieldPath
from cathedra.kinds.declarative import formats
from cathedra.kinds.declarative.formats import Check
from tests.unit.kinds.objects import texts


def found(check: Check, value: object) -> list[str]:
    errors = ErrorList()
    check(errors, FieldPath("f"), value)
    return [text.removeprefix("f: ") for text in texts(errors)]


@pytest.mark.parametrize(
    ("check", "value"),
    [
        (formats.short_name, "a-b"),
        (formats.long_name, "a.b"),
        (formats.long_name_caseless, "A.b"),
        (formats.label_key, "a.b/C_d"),
        (formats.uuid, "01234567-89ab-cdef-0123-456789abcdef"),
        (formats.pool_name, "a/b.c"),
        (formats.extended_resource_name, "example.com/gpu"),
        (formats.fully_qualified_name, "a.b/c_d"),
        (formats.fully_qualified_name, "a/b/c"),
        (formats.max_length(2), "äö"),
        (formats.max_bytes(4), "äö"),
        (formats.minimum(0), 0),
        (formats.one_of("a", "b"), "b"),
    ],
)
def test_what_is_well_formed_passes(check: Check, value: object) -> None:
    assert found(check, value) == []


@pytest.mark.parametrize(
    ("check", "value", "wanted"),
    [
        (formats.short_name, "a" * 64, "must be no more than 63 bytes"),
        (formats.short_name, "a.b", "must not contain dots"),
        (formats.long_name, "a" * 254, "must be no more than 253 bytes"),
        (formats.uuid, "{01234567-89ab-cdef-0123-456789abcdef}", "must be a lowercase UUID in 8-4-4-4-12 format"),
        (formats.pool_name, "a/", "segment 1: must not be empty"),
        (formats.extended_resource_name, "a/kubernetes.io/b", 'must not have "kubernetes.io/" domain'),
        (formats.minimum(1), 0, "must be greater than or equal to 1"),
    ],
)
def test_what_is_not_is_invalid(check: Check, value: object, wanted: str) -> None:
    assert any(text.endswith(wanted) for text in found(check, value)), found(check, value)


def test_an_extended_resource_is_no_quota_and_fits_into_one() -> None:
    assert [
        text.partition(": ")[2].partition(": ")[2][:44] for text in found(formats.extended_resource_name, "requests.a")
    ] == [
        "a name must be a domain-prefixed path, such ",
        'must not have "requests." prefix',
    ]
    assert found(formats.extended_resource_name, f"{'a' * 250}/b")[-1].endswith("must be no more than 253 bytes")


def test_sizes_are_in_characters_or_bytes() -> None:
    assert found(formats.max_length(1), "äö") == ["Too long: may not be more than 1 characters"]
    assert found(formats.max_bytes(3), "äö") == ["Too long: may not be more than 3 bytes"]


def test_what_is_forbidden_needs_no_words() -> None:
    assert found(formats.forbidden, "x") == ["Forbidden"]
