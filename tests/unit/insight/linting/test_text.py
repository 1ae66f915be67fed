"""Findings in text: the place, the line, the caret, within the width; and as SARIF."""

from __future__ import annotations

import pytest

from cathedra.insight import lint
from cathedra.insight.linting.rules import RULES
from cathedra.insight.linting.sarif import sarif
from cathedra.insight.linting.text import lint_text
from tests.unit.insight.linting.manifests import claim, selecting, yaml_of

LONG = " && ".join(f'"a{n}" in device.attributes["gpu.example.com"]' for n in range(20))
REPORT = lint(yaml_of(claim(selecting(f'{LONG} && device.attributes["gpu.example.com"].modle == "a100"'))))


@pytest.mark.parametrize("width", [80, 100, 160])
def test_the_caret_stands_under_the_place_and_lines_keep_to_the_width(width: int) -> None:
    lines = lint_text(REPORT, width).splitlines()
    assert max(map(len, lines)) <= width
    (caret,) = [number for number, line in enumerate(lines) if line.strip().startswith("^")]
    begin = lines[caret].index("^")
    assert lines[caret - 1][begin:].startswith("device.attributes")
    assert lines[caret - 1].strip().startswith("…")


def test_the_first_words_are_the_place_as_compilers_write_it() -> None:
    one = REPORT.findings[0]
    assert lint_text(REPORT).startswith(f"text:{one.line}:{one.column}: warning: fails on devices without")


def test_nothing_found_is_said() -> None:
    assert lint_text(lint("")) == "0 objects in 1 file: no findings"


def test_colours_are_put_around_and_not_counted() -> None:
    plain = lint_text(REPORT, 80)
    coloured = lint_text(REPORT, 80, lambda text, what: f"<{text}>")
    assert coloured.replace("<", "").replace(">", "") == plain


def test_sarif_names_each_rule_and_the_place_of_each_result() -> None:
    (run,) = sarif(REPORT)["runs"]
    assert [rule["id"] for rule in run["tool"]["driver"]["rules"]] == list(RULES)
    (result,) = run["results"]
    assert run["tool"]["driver"]["rules"][result["ruleIndex"]]["id"] == result["ruleId"] == "unguarded-attribute"
    region = result["locations"][0]["physicalLocation"]["region"]
    one = REPORT.findings[0]
    assert (region["startLine"], region["startColumn"]) == (one.line, one.column)
    written = r"device.attributes[\"gpu.example.com\"].modle"
    assert region["endColumn"] - region["startColumn"] == len(written)


def test_files_are_addresses_in_sarif() -> None:
    report = lint("kind: Pod\napiVersion: v2\n")
    (run,) = sarif(report)["runs"]
    assert run["results"][0]["locations"][0]["physicalLocation"]["artifactLocation"] == {"uri": "text"}
