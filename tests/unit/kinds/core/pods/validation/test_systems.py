"""Rules of the operating system that a pod names."""

from __future__ import annotations

from typing import Any

import pytest

from cathedra.api.core import core_v1
from cathedra.api.field import ErrorList, FieldPath
from cathedra.api.struct import from_dict
from cathedra.kinds.core.pods.validation.systems import validate_system
from tests.unit.kinds.objects import texts

NOT_WINDOWS = "Forbidden: cannot be set for a windows pod"
NOT_LINUX = "Forbidden: windows options cannot be set for a linux pod"


def said(system: str | None, **spec: Any) -> list[str]:
    errors = ErrorList()
    given = {"containers": [], **spec} | ({} if system is None else {"os": {"name": system}})
    validate_system(errors, FieldPath("s"), from_dict(core_v1.PodSpec, given))
    return texts(errors)


def test_a_pod_may_name_no_system_or_one_that_there_is() -> None:
    assert said(None, hostPID=True) == said("linux", hostPID=True) == said("windows", hostPID=False) == []
    assert said("") == ["s.os.name: Required value"]
    assert said("plan9") == ['s.os: Unsupported value: "plan9": supported values: "linux", "windows"']


def test_linux_has_no_options_of_windows() -> None:
    context = {"windowsOptions": {"runAsUserName": "u"}}
    found = said("linux", securityContext=context, containers=[{"name": "c", "securityContext": context}])
    assert found == [
        f"s.securityContext.windowsOptions: {NOT_LINUX}",
        f"s.containers[0].securityContext.windowsOptions: {NOT_LINUX}",
    ]


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"hostUsers": False}, "hostUsers"),
        ({"hostPID": True}, "hostPID"),
        ({"shareProcessNamespace": False}, "shareProcessNamespace"),
        ({"securityContext": {"runAsUser": 0}}, "securityContext.runAsUser"),
        ({"securityContext": {"sysctls": [{"name": "a", "value": "b"}]}}, "securityContext.sysctls"),
        ({"securityContext": {"seLinuxChangePolicy": "Recursive"}}, "securityContext.seLinuxChangePolicy"),
        (
            {"initContainers": [{"name": "c", "securityContext": {"privileged": False}}]},
            "initContainers[0].securityContext.privileged",
        ),
        (
            {"ephemeralContainers": [{"name": "c", "securityContext": {"capabilities": {}}}]},
            "ephemeralContainers[0].securityContext.capabilities",
        ),
    ],
)
def test_windows_has_none_of_what_linux_has(spec: dict[str, Any], field: str) -> None:
    assert said("windows", **spec) == [f"s.{field}: {NOT_WINDOWS}"]
    assert not said("windows")
