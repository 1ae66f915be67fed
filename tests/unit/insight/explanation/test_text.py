"""Lines that keep to the width, and lists that stay short."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from cathedra.insight.explanation.model import Cause, Explanation, Remedy
from cathedra.insight.explanation.text import explanation_text, filled, names_text

WORDS = st.lists(st.text(alphabet="abcdef", min_size=1, max_size=12), max_size=40).map(" ".join)


@given(WORDS, st.integers(40, 120))
def test_lines_are_broken_between_words_and_lose_none(text: str, width: int) -> None:
    lines = filled(text, width, "  ", "    ")
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
