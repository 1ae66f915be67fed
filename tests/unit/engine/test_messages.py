"""The form of questions and answers."""

from __future__ import annotations

import typing

import pytest

from cathedra.engine.messages import Answer, Question, decode_question, identity_of

NAMES = [
    "load",
    "summarize",
    "map",
    "devices",
    "explain",
    "simulate",
    "lint",
    "match",
    "evaluate",
    "complete",
    "object",
]


def test_questions_have_these_names() -> None:
    assert [one.__struct_config__.tag for one in typing.get_args(Question)] == NAMES


def test_fields_have_the_names_of_json() -> None:
    found = decode_question(b'{"question": "devices", "deviceClass": "gpu", "id": "x"}')
    assert (found.id, found.width) == ("x", 0)
    assert getattr(found, "device_class") == "gpu"  # noqa: B009  # of one kind of question alone


def test_an_answer_names_its_version() -> None:
    assert Answer(question="devices", id=1).encode() == (
        b'{"apiVersion":"cathedra.dev/v1","kind":"Answer","question":"devices","id":1,"result":null,"text":"",'
        b'"leftOut":[],"error":null}'
    )


@pytest.mark.parametrize(
    ("body", "identity"),
    [
        (b'{"question": "load", "id": 3, "files": 7}', ("load", 3)),
        (b'{"id": "x"}', ("", "x")),
        (b'{"question": 5}', ("", None)),
        (b"nothing", ("", None)),
    ],
)
def test_a_message_that_cannot_be_decoded_is_still_identified(body: bytes, identity: tuple[str, object]) -> None:
    assert identity_of(body) == identity
