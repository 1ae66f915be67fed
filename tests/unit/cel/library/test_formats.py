"""Named formats (docs/spec/cel.md §6.8)."""

from __future__ import annotations

import pytest

from tests.unit.cel.asking import shown


@pytest.mark.parametrize(
    ("expression", "result"),
    [
        ("format.dns1123Label().validate('ok')", "optional.none()"),
        ("format.dns1123Label().validate('Not').hasValue()", "true"),
        ("format.named('uuid').hasValue()", "true"),
        ("format.named('nope').hasValue()", "false"),
        ("format.date().validate('2024-02-30').hasValue()", "true"),
    ],
)
def test_formats_validate(expression: str, result: str) -> None:
    assert shown(expression) == result
