"""Kind and apiVersion of a body."""

from __future__ import annotations

import pytest

from cathedra.api.decoding.envelope import Envelope, read_envelope
from cathedra.api.decoding.reader import DecodeError
from cathedra.api.scheme import GroupVersionKind

POD = GroupVersionKind.parse("v1", "Pod")
KNOWN = {POD, GroupVersionKind.parse("v1", "Node"), GroupVersionKind.parse("apps/v1", "Deployment")}


def check(api_version: str, kind: str, expected: GroupVersionKind = POD) -> None:
    Envelope(api_version, kind).check(expected, KNOWN.__contains__)


@pytest.mark.parametrize(("api_version", "kind"), [("v1", "Pod"), ("", "Pod"), ("v1", ""), ("", "")])
def test_what_is_left_out_is_taken_from_the_address(api_version: str, kind: str) -> None:
    check(api_version, kind)


@pytest.mark.parametrize(
    ("api_version", "kind", "wanted"),
    [
        ("v1", "Node", 'Node in version "v1" cannot be handled as a Pod: converting (v1.Node) to (core.Pod)'),
        ("v9", "Pod", 'no kind "Pod" is registered for version "v9"'),
        ("apps/v1", "Deployment", 'Deployment in version "v1" cannot be handled as a Pod: converting'),
    ],
)
def test_another_kind_is_refused_by_name(api_version: str, kind: str, wanted: str) -> None:
    with pytest.raises(DecodeError) as caught:
        check(api_version, kind)
    assert wanted in str(caught.value)


def test_another_version_of_the_kind_is_told_apart_from_another_kind() -> None:
    expected = GroupVersionKind.parse("apps/v2", "Deployment")
    with pytest.raises(DecodeError) as caught:
        check("apps/v1", "Deployment", expected)
    assert str(caught.value) == (
        "the API version in the data (apps/v1) does not match the expected API version (apps/v2)"
    )


def test_the_body_says_what_it_is() -> None:
    assert read_envelope(b'{"kind":"Pod","apiVersion":"v1","spec":{"kind":7}}', "Pod") == Envelope("v1", "Pod")
    assert read_envelope(b"null", "Pod") == Envelope("", "")


@pytest.mark.parametrize(
    ("body", "wanted"),
    [
        (b"", "(<empty>)"),
        (b"[]", "json: cannot unmarshal array into Go value of type struct {"),
        (b'{"kind":7}', 'json: cannot unmarshal number into Go struct field .kind of type string ({"kind":7})'),
        (b'{"apiVersion":"a/b/c"}', "unexpected GroupVersion string: a/b/c"),
        (b"\xff\xfe", "(fffe)"),
        (b'{"kind":"' + b"x" * 40, " ...)"),
        (b"[" * 100_000, "exceeded max depth"),
    ],
)
def test_what_is_no_object_is_shown_by_its_beginning(body: bytes, wanted: str) -> None:
    with pytest.raises(DecodeError) as caught:
        read_envelope(body, "Pod")
    assert str(caught.value).startswith("the object provided is unrecognized (must be of type Pod): ")
    assert wanted in str(caught.value)
