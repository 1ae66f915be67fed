"""Bodies of custom resources."""

from __future__ import annotations

import json
from typing import Any

import pytest

from cathedra.api.status import StatusError
from cathedra.apiserver.custom.bodies import decode_instance
from cathedra.apiserver.custom.objects import content
from tests.unit.apiserver.custom.things import call, kind

KIND = kind()
HEAD = {"apiVersion": "example.com/v1", "kind": "Thing"}
UNRECOGNIZED = "the object provided is unrecognized (must be of type Thing): "


def refusal(raw: bytes, **options: Any) -> StatusError:
    with pytest.raises(StatusError) as raised:
        decode_instance(call(KIND, **options), raw)
    assert raised.value.status.code == 400
    return raised.value


def test_a_body_becomes_an_instance_with_its_metadata() -> None:
    body = {**HEAD, "metadata": {"name": "a", "labels": {"x": "y"}}, "spec": {"size": 3}}
    made = decode_instance(call(KIND), json.dumps(body).encode())
    assert (made.metadata.name, made.metadata.labels, content(made)) == ("a", {"x": "y"}, {"spec": {"size": 3}})


@pytest.mark.parametrize(
    ("raw", "wanted"),
    [
        (b"", UNRECOGNIZED + "couldn't get version/kind; json parse error: "),
        (b"{", UNRECOGNIZED + "couldn't get version/kind; json parse error: "),
        (b"[]", UNRECOGNIZED + "couldn't get version/kind; json parse error: the body is no object"),
        (b"{}", UNRECOGNIZED + "Object 'Kind' is missing in '{}' (7b7d)"),
        (b'{"kind":"Thing"}', UNRECOGNIZED + "Object 'apiVersion' is missing in '{\"kind\":\"Thing\"}' ("),
    ],
)
def test_a_body_says_what_it_is(raw: bytes, wanted: str) -> None:
    assert str(refusal(raw)).startswith(wanted)


def test_a_long_body_is_shown_only_so_far() -> None:
    raw = json.dumps({"spec": {"text": "x" * 5000}}).encode()
    text = str(refusal(raw))
    assert raw[:1024].decode() + "'" in text
    assert len(text) < 4000


def test_a_body_is_of_the_version_and_kind_that_the_url_names() -> None:
    other = json.dumps({**HEAD, "apiVersion": "example.com/v2"}).encode()
    assert str(refusal(other)) == (
        "the API version in the data (example.com/v2) does not match the expected API version (example.com/v1)"
    )
    other = json.dumps({**HEAD, "kind": "Other", "metadata": {"name": "a"}}).encode()
    with pytest.raises(StatusError) as raised:
        decode_instance(call(KIND), other)
    assert str(raised.value) == 'Other.example.com "a" is invalid: kind: Invalid value: "Other": must be Thing'


def test_metadata_of_the_wrong_type_does_not_fit() -> None:
    text = str(refusal(json.dumps({**HEAD, "metadata": {"labels": 1}}).encode()))
    assert text.startswith('Thing in version "v1" cannot be handled as a Thing: ')


ODD = b'{"apiVersion":"example.com/v1","kind":"Thing","spec":{"size":1,"size":2,"odd":1}}'
PROBLEMS = ['duplicate field "spec.size"', 'unknown field "spec.odd"']


def test_unknown_and_repeated_fields_are_warned_of() -> None:
    asked = call(KIND)
    made = decode_instance(asked, ODD)
    assert asked.warnings == PROBLEMS
    assert content(made) == {"spec": {"size": 2}}


def test_strict_validation_refuses_them_and_no_validation_is_silent() -> None:
    assert str(refusal(ODD, field_validation="Strict")) == (
        f'Thing in version "v1" cannot be handled as a Thing: strict decoding error: {", ".join(PROBLEMS)}'
    )
    silent = call(KIND, field_validation="Ignore")
    decode_instance(silent, ODD)
    assert silent.warnings == []


def test_what_was_repeated_in_yaml_is_known_from_before() -> None:
    asked = call(KIND)
    decode_instance(asked, json.dumps(HEAD).encode(), ('duplicate field "spec"',))
    assert asked.warnings == ['duplicate field "spec"']
