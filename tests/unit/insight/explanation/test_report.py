"""The summary of an answer with several parts."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from cathedra.insight.explanation.report import Cause, ClaimReport, Explanation, Remedy, explanation_text
from cathedra.insight.rendering import names_text, wrapped


def answer(verdict: str, *parts: Explanation) -> Explanation:
    return Explanation(subject="pod default/p", verdict=verdict, summary="s", parts=parts)


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


def test_one_of_the_pods_that_run_is_shown_whole_and_the_others_have_a_line() -> None:
    parts = [
        Explanation(
            subject=f"pod default/p{number}",
            verdict="running",
            summary=f"runs on n{number}",
            claims=(ClaimReport(f"default/c{number}", "named", "allocated,reserved"),),
        )
        for number in range(12)
    ]
    waiting = Explanation(subject="pod default/w", verdict="does not fit", summary="fits on none of 2 nodes")
    text = explanation_text(
        Explanation(subject="deployment default/d", verdict="does not fit", summary="s", parts=(waiting, *parts))
    )
    assert "pod default/p0: running" in text
    assert text.count("default/c") == 1
    assert "11 other pods with a node\n  default/p1 runs on n1\n" in text
    assert "default/p8 runs on n8\n  … and 3 more" in text
    assert "pod default/w: does not fit" in text
