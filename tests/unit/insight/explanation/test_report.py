"""What a whole answer says of its parts."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from cathedra.insight.explanation.report import Cause, Explanation, Remedy, explanation_text
from cathedra.insight.rendering import names_text, wrapped


def answer(verdict: str, *parts: Explanation) -> Explanation:
    return Explanation(subject="pod default/p", verdict=verdict, summary="s", parts=parts)  # type: ignore[arg-type]  # any word


def test_it_fits_if_all_parts_do() -> None:
    assert answer("fits", answer("running"), answer("finished")).fits
    assert not answer("fits", answer("fits", answer("does not fit"))).fits


def test_the_parts_come_one_by_one() -> None:
    assert [one.verdict for one in answer("fits", answer("running", answer("finished"))).flat()] == [
        "fits",
        "running",
        "finished",
    ]


def test_plain_values_are_json_without_the_objects_of_changes() -> None:
    change = Remedy("add node", "add a node", ("n2",))
    found = Explanation(subject="pod default/p", verdict="does not fit", summary="s", changes=(change,)).to_dict()
    assert json.loads(json.dumps(found))["fitsOn"] == []
    assert (found["apiVersion"], found["kind"], found["fits"]) == ("cathedra.dev/v1", "Explanation", False)
    assert found["changes"] == [
        {"kind": "add node", "text": "add a node", "fitsOn": ["n2"], "edits": (), "commands": []}
    ]


WORDS = st.lists(st.text(alphabet="abcdef", min_size=1, max_size=12), max_size=40).map(" ".join)


@given(WORDS, st.integers(40, 120))
def test_lines_are_broken_between_words_and_lose_none(text: str, width: int) -> None:
    lines = wrapped(text, width, "  ", "    ")
    assert all(len(line) <= width for line in lines)
    assert " ".join(" ".join(lines).split()) == text


def test_long_lists_of_names_are_cut() -> None:
    assert names_text(["a", "b"]) == "a, b"
    assert names_text([f"n{number}" for number in range(3000)]).endswith("more")


def test_causes_and_changes_have_headings_and_styles() -> None:
    answer = Explanation(
        subject="pod default/p",
        verdict="does not fit",
        summary="fits on none of 2 nodes",
        causes=(Cause("missing class", "class gpu does not exist", 2),),
        changes=(Remedy("add class", "create the class gpu", ("n1",)),),
        nodes=2,
    )
    text = explanation_text(answer, 80, lambda part, what: f"<{what}>{part}" if what else part)
    assert "<bad>" in text
    assert "class gpu does not exist" in text
    assert "1. create the class gpu → fits on n1" in text
