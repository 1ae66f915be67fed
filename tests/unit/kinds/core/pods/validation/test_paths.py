"""Paths below a folder."""

from __future__ import annotations

import pytest

from cathedra.api.field import ErrorList, FieldPath
from cathedra.kinds.core.pods.validation.paths import validate_descending_path
from tests.unit.kinds.objects import texts


@pytest.mark.parametrize(
    ("path", "wanted"),
    [
        ("a/b..c/..d", []),
        ("/a", ['p: Invalid value: "/a": must be a relative path']),
        ("a/../../b", ["p: Invalid value: \"a/../../b\": must not contain '..'"]),
    ],
)
def test_a_path_leads_down(path: str, wanted: list[str]) -> None:
    errors = ErrorList()
    validate_descending_path(errors, FieldPath("p"), path)
    assert texts(errors) == wanted
