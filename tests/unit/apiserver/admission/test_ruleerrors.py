"""Errors in rules of webhooks and policies."""

from __future__ import annotations

from typing import Any

import pytest

from cathedra.api.core.admissionregistration_v1 import NamedRuleWithOperations
from cathedra.api.field import ErrorList, FieldPath
from cathedra.apiserver.admission.ruleerrors import check_named_rule

SOUND: dict[str, Any] = {
    "operations": ("CREATE",),
    "api_groups": ("",),
    "api_versions": ("v1",),
    "resources": ("pods", "pods/status"),
}


def problems(**changes: Any) -> list[str]:
    errors = ErrorList()
    check_named_rule(errors, FieldPath("rule"), NamedRuleWithOperations(**{**SOUND, **changes}))
    return [str(error) for error in errors]


def test_a_rule_that_says_everything_once_is_right() -> None:
    assert problems() == []
    assert problems(resources=("*/*",), operations=("*",), api_groups=("*",), api_versions=("*",), scope="*") == []


@pytest.mark.parametrize(
    ("changes", "wanted"),
    [
        ({"operations": ()}, "rule.operations: Required value"),
        ({"operations": ("*", "CREATE")}, 'rule.operations: Invalid value: ["*","CREATE"]: if \'*\' is present, must'),
        ({"operations": ("BUY",)}, 'rule.operations[0]: Unsupported value: "BUY": supported values: "*", "CONNECT", '),
        ({"api_groups": ()}, "rule.apiGroups: Required value"),
        ({"api_versions": ("v1", "")}, "rule.apiVersions[1]: Required value"),
        ({"resources": ("pods", "")}, "rule.resources[1]: Required value"),
        (
            {"resources": ("pods/*", "pods/log")},
            "rule.resources[1]: Invalid value: \"pods/log\": if 'pods/*' is present",
        ),
        ({"resources": ("*/log", "pods/log")}, "rule.resources[1]: Invalid value: \"pods/log\": if '*/log' is present"),
        (
            {"resources": ("*/*", "a/b")},
            'rule.resources: Invalid value: ["*/*","a/b"]: if \'*/*\' is present, must not',
        ),
        ({"resources": ("*", "a")}, 'rule.resources: Invalid value: ["*","a"]: if \'*\' is present, must not specify '),
        ({"scope": "Some"}, 'rule.scope: Unsupported value: "Some": supported values: "*", "Cluster", "Namespaced"'),
        ({"resource_names": ("a", "a")}, 'rule.resourceNames[1]: Duplicate value: "a"'),
        ({"resource_names": ("a/b",)}, "rule.resourceNames[0]: Invalid value: \"a/b\": may not contain '/'"),
    ],
)
def test_each_fault_is_told_once(changes: dict[str, Any], wanted: str) -> None:
    (text,) = problems(**changes)
    assert text.startswith(wanted)
