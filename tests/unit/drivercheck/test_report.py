"""Results for people and for CI."""

from __future__ import annotations

from xml.etree import ElementTree

from cathedra.drivercheck.check import PluginCheck, PluginCheckResult
from cathedra.drivercheck.checks import CHECKS
from cathedra.drivercheck.report import junit, line, total

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
