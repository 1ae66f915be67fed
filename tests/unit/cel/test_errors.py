"""Reports: places, lines, carets."""

from __future__ import annotations

import pytest

from cathedra.cel import errors
from cathedra.cel.errors import Issue


@pytest.mark.parametrize(
    ("source", "offset", "position"),
    [("abc", 0, (1, 1)), ("abc", 2, (1, 3)), ("a\nbc", 3, (2, 2)), ("a\n", 2, (2, 1)), ("abc", -1, (-1, 0))],
)
def test_an_issue_knows_its_line_and_column(source: str, offset: int, position: tuple[int, int]) -> None:
    assert Issue(offset, "wrong").position(source) == position


def test_a_report_points_with_a_caret() -> None:
    assert errors.display("a\n\tb", [Issue(3, "wrong")]) == "ERROR: <input>:2:2: wrong\n |  b\n | .^"


def test_wide_characters_get_wide_marks() -> None:
    assert errors.display("é é", [Issue(2, "wrong")]) == "ERROR: <input>:1:3: wrong\n | é é\n | ．.＾"


def test_an_empty_text_has_no_line_to_show() -> None:
    assert errors.display("", [Issue(0, "wrong")]) == "ERROR: <input>:1:0: wrong"


def test_issues_without_place_come_first() -> None:
    assert errors.display("ab", [Issue(1, "b"), Issue(-1, "all")]).splitlines()[0] == "ERROR: <input>:-1:0: all"


def test_more_than_a_hundred_issues_are_counted_only() -> None:
    report = errors.display("a" * 200, [Issue(n, "x") for n in range(150)])
    assert report.endswith("50 more errors were truncated")


def test_all_errors_of_the_package_have_one_base() -> None:
    assert issubclass(errors.CompileError, errors.CELError)
    assert issubclass(errors.CostLimitExceeded, errors.EvaluationError)
