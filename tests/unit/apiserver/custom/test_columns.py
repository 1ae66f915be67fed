"""Paths into custom resources, and what columns show of them."""

from __future__ import annotations

import re
from typing import Any

import pytest

from cathedra.apiserver.custom.columns import check_field_path, parse_path
from cathedra.apiserver.custom.schema import read_schema

VALUE = {
    "spec": {"replicas": 3, "a.b": "dotted", "on": True, "none": None},
    "status": {"conditions": [{"type": "Ready", "status": "True"}, {"type": "Old", "status": "False", "seen": True}]},
}


@pytest.mark.parametrize(
    ("path", "wanted"),
    [
        (".spec.replicas", [3]),
        ("$.spec.replicas", [3]),
        (".spec['a.b']", ["dotted"]),
        ('.spec["a.b"]', ["dotted"]),
        (r".spec.a\.b", ["dotted"]),
        (".spec.missing", []),
        (".spec.none", []),
        (".spec.replicas.deeper", []),
        (".status.conditions[*].type", ["Ready", "Old"]),
        (".status.conditions[0].type", ["Ready"]),
        (".status.conditions[-1].type", ["Old"]),
        (".status.conditions[-3].type", []),
        (".status.conditions[9].type", []),
        ('.status.conditions[?(@.type=="Ready")].status', ["True"]),
        ('.status.conditions[?(@.type!="Ready")].status', ["False"]),
        (".status.conditions[?(@.seen==true)].type", ["Old"]),
        (".status.conditions[?(@.type == 'Old')].status", ["False"]),
    ],
)
def test_a_path_leads_to_values(path: str, wanted: list[Any]) -> None:
    parsed = parse_path(path)
    assert parsed.all(VALUE) == wanted
    assert parsed.one(VALUE) == (wanted[0] if wanted else None)


@pytest.mark.parametrize("path", ["spec", ".spec[", ".a[?(@.b)]", ".spec..x", ".spec[1"])
def test_what_is_no_path_is_refused(path: str) -> None:
    with pytest.raises(ValueError, match=r"unexpected character|begins with a dot"):
        parse_path(path)


FIELDS = read_schema(
    {
        "type": "object",
        "properties": {
            "a": {"type": "object", "properties": {"b.c": {"type": "string"}, "d": {"type": "integer"}}},
            "m": {"type": "object", "additionalProperties": {"type": "boolean"}},
        },
    }
)


@pytest.mark.parametrize(
    ("path", "kind"), [(".a.d", "integer"), (".a['b.c']", "string"), (".m['any']", "boolean"), (".m.any", "boolean")]
)
def test_a_path_of_fields_has_a_schema(path: str, kind: str) -> None:
    assert check_field_path(path, FIELDS)[1].type == kind


@pytest.mark.parametrize(
    ("path", "problem"),
    [
        (".z", "does not refer to a valid field"),
        (".a.d.e", "does not refer to a valid field"),
        ("a", "expected [ or . but got: a"),
        (".a[0]", "expected single quoted string but got 0"),
        (".a['d'", "unexpected end of JSON path"),
        (".", "unexpected end of JSON path"),
    ],
)
def test_a_path_of_no_field_is_refused(path: str, problem: str) -> None:
    with pytest.raises(ValueError, match=re.escape(problem)):
        check_field_path(path, FIELDS)


def test_selectable_fields_have_no_brackets() -> None:
    with pytest.raises(ValueError, match="array notation is not allowed"):
        check_field_path(".a['d']", FIELDS, brackets=False)
