"""Versions (docs/spec/cel.md §6.7)."""

from __future__ import annotations

import pytest

from tests.unit.cel.asking import shown


@pytest.mark.parametrize(
    ("expression", "result"),
    [
        ("semver('1.2.3').isLessThan(semver('1.10.0'))", "true"),
        ("semver('1.0.0-rc.1').compareTo(semver('1.0.0'))", "-1"),
        ("semver('1.0.0+a') == semver('1.0.0+b')", "true"),
        ("isSemver('v1.0.0')", "false"),
        ("string(semver('v1', true).major())", "1"),
        ("semver('01.2.3')", 'error: Major number must not contain leading zeroes "01"'),
        ("semver('1.2')", "error: No Major.Minor.Patch elements found"),
        ("semver('é', true)", 'error: Invalid character(s) found in major number "0é"'),
        ("semver('1.2-rc', true)", "error: short version cannot contain PreRelease/Build meta data"),
    ],
)
def test_versions_follow_semver(expression: str, result: str) -> None:
    assert shown(expression) == result
