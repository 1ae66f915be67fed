"""Paths into custom resources, and what columns show of them."""

from __future__ import annotations

from typing import Any

import pytest

from cathedra.apiserver.custom.columns import parse_path

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
