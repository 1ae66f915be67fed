"""Reports of a driver check: lines, JUnit, page and badge."""

from __future__ import annotations

from dataclasses import replace
from xml.etree import ElementTree

import pytest

from cathedra.drivercheck.check import PluginCheck, PluginCheckResult
from cathedra.drivercheck.checks import CHECKS
from cathedra.drivercheck.report import badge, junit, level_lines, line, page, total

CHECK = PluginCheck("prepares", "it prepares", "docs/spec/protocols.md §4", CHECKS[0].run)
RESULTS = [
    PluginCheckResult(CHECK, "passed", 0.25),
    PluginCheckResult(CHECK, "failed", 1.0, "two\nlines & <signs>"),
    PluginCheckResult(CHECK, "skipped", 0.0, "no device"),
]


def test_a_result_is_one_line_with_rule_and_source() -> None:
    assert [line(one) for one in RESULTS] == [
        "ok   prepares – it prepares (docs/spec/protocols.md §4)",
        "FAIL prepares – it prepares (docs/spec/protocols.md §4): two lines & <signs>",
        "skip prepares – it prepares (docs/spec/protocols.md §4): no device",
    ]


def test_the_total_counts_each_outcome() -> None:
    assert total(RESULTS) == "1 passed, 1 failed, 1 skipped"


def test_junit_says_what_failed_and_why_others_were_left_out() -> None:
    suite = ElementTree.fromstring(junit("lamps.example.com", RESULTS))
    assert suite.attrib == {
        "name": "lamps.example.com",
        "tests": "3",
        "failures": "1",
        "skipped": "1",
        "time": "1.250",
    }
    failure, skipped = suite.find("testcase/failure"), suite.find("testcase/skipped")
    assert failure is not None
    assert skipped is not None
    assert (failure.get("message"), failure.text) == ("two\nlines & <signs>", "it prepares (docs/spec/protocols.md §4)")
    assert skipped.get("message") == "no device"


HEALTH = [replace(one, check=replace(CHECK, level="health")) for one in RESULTS]
NOT_OFFERED = [PluginCheckResult(replace(CHECK, level="metadata"), "skipped", 0.0, "no metadata")]


def test_a_level_is_failed_passed_or_not_offered() -> None:
    assert level_lines([RESULTS[0], RESULTS[2], *HEALTH, *NOT_OFFERED]) == [
        "level core: passed (1, 1 skipped)",
        "level metadata: not offered",
        "level health: failed (1 of 2)",
    ]


def test_a_page_holds_what_a_driver_answers_as_text_and_loads_nothing() -> None:
    evil = replace(RESULTS[1], reason="<script>alert(1)</script>")
    text = page("lamps.example.com", ["v1.DRAPlugin"], [RESULTS[0], evil]).decode()
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in text
    assert not any(word in text for word in ("<script", "http://", "https://", "src=", "href="))
    assert "1 passed, 1 failed, 0 skipped" in text


def test_the_same_results_make_the_same_page() -> None:
    slower = [replace(one, seconds=one.seconds + 1) for one in RESULTS]
    assert page("d", ["v1.DRAPlugin"], RESULTS) == page("d", ["v1.DRAPlugin"], slower)


@pytest.mark.parametrize(
    ("results", "text"),
    [
        ([RESULTS[0], HEALTH[0], *NOT_OFFERED], "DRA driver: core, health"),
        ([RESULTS[0], HEALTH[1]], "DRA driver: failed: health"),
        (NOT_OFFERED, "DRA driver: nothing checked"),
    ],
)
def test_a_badge_names_the_levels(results: list[PluginCheckResult], text: str) -> None:
    image = ElementTree.fromstring(badge(results))
    assert (image.tag.endswith("svg"), image.get("aria-label")) == (True, text)
