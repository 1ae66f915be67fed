"""Names of fields in expressions."""

from __future__ import annotations

import pytest

from cathedra.cel.fieldnames import escaped, is_writable


@pytest.mark.parametrize(
    ("name", "written"),
    [
        ("replicas", "replicas"),
        ("namespace", "__namespace__"),
        ("a.b/c-d", "a__dot__b__slash__c__dash__d"),
        ("a__b", "a__underscores__b"),
    ],
)
def test_what_is_no_identifier_is_spelled_out(name: str, written: str) -> None:
    assert escaped(name) == written
    assert is_writable(name)


@pytest.mark.parametrize("name", ["", "1a", "a b", "ä", "$ref"])
def test_other_names_cannot_be_written(name: str) -> None:
    assert not is_writable(name)
