"""The form of questions and answers."""

from __future__ import annotations

import re
import typing
from pathlib import Path

import pytest

from cathedra.engine.messages import Answer, Question, decode_question, identity_of

PAGE = Path(__file__).parents[3] / "docs" / "engine.md"


def test_fields_have_the_names_of_json() -> None:
    found = decode_question(b'{"question": "devices", "deviceClass": "gpu", "id": "x"}')
    assert (found.id, found.width) == ("x", 0)
    assert getattr(found, "device_class") == "gpu"  # noqa: B009  # of one kind of question alone


def test_an_answer_names_its_version() -> None:
    assert Answer(question="devices", id=1).encode() == (
        b'{"apiVersion":"cathedra.dev/v1","kind":"Answer","question":"devices","id":1,"result":null,"text":"",'
        b'"leftOut":[],"error":null}'
    )


def test_the_page_lists_the_questions() -> None:
    rows = re.findall(r"^\| `(\w+)` \|", PAGE.read_text().partition("## Messages")[2], re.MULTILINE)
    assert rows == [one.__struct_config__.tag for one in typing.get_args(Question)]


def test_the_example_of_the_page_runs(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(PAGE.parents[1])
    (block,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    exec(block, {})  # the page's own example
    assert capsys.readouterr().out == "does not fit\n"


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
