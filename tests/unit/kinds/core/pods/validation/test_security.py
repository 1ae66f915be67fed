"""Rules of security contexts."""

from __future__ import annotations

from typing import Any

import pytest

from cathedra.api.core import core_v1
from cathedra.api.field import ErrorList, FieldPath
from cathedra.api.struct import from_dict
from cathedra.kinds.core.pods.validation._security import (
    validate_container_security,
    validate_pod_security,
    validate_system,
)
from tests.unit.kinds.objects import texts

RANGE = "must be between 0 and 2147483647, inclusive"


def of_pod(context: dict[str, Any], **spec: Any) -> list[str]:
    errors = ErrorList()
    made = from_dict(core_v1.PodSpec, {"containers": [], "securityContext": context, **spec})
    validate_pod_security(errors, FieldPath("s"), made)
    return texts(errors)


def of_container(*, own_users: bool = False, **context: Any) -> list[str]:
    errors = ErrorList()
    made = from_dict(core_v1.SecurityContext, context)
    validate_container_security(errors, FieldPath("s"), made, own_users=own_users)
    return texts(errors)


@pytest.mark.parametrize(
    ("context", "expected"),
    [
        ({"runAsUser": 0, "fsGroup": 5, "supplementalGroups": [1], "fsGroupChangePolicy": "Always"}, []),
        ({"runAsUser": -1}, [f"s.runAsUser: Invalid value: -1: {RANGE}"]),
        ({"supplementalGroups": [1, 2147483648]}, [f"s.supplementalGroups[1]: Invalid value: 2147483648: {RANGE}"]),
        (
            {"fsGroupChangePolicy": "Never"},
            ['s.fsGroupChangePolicy: Unsupported value: "Never": supported values: "Always", "OnRootMismatch"'],
        ),
        ({"seLinuxChangePolicy": "MountOption"}, []),
        (
            {"seLinuxChangePolicy": "Never"},
            ['s.seLinuxChangePolicy: Unsupported value: "Never": supported values: "MountOption", "Recursive"'],
        ),
        ({"sysctls": [{"name": "", "value": ""}]}, ["s.sysctls[0].name: Required value"]),
        (
            {"sysctls": [{"name": "net.a", "value": ""}, {"name": "net.a", "value": ""}]},
            ['s.sysctls[1].name: Duplicate value: "net.a"'],
        ),
    ],
)
def test_contexts_of_pods(context: dict[str, Any], expected: list[str]) -> None:
    assert of_pod(context) == expected


def test_sysctls_of_the_nodes_namespaces_are_not_the_pods_to_set() -> None:
    sysctls = [{"name": "net.ipv4.x", "value": "1"}, {"name": "kernel/shm_x", "value": "1"}]
    assert of_pod({"sysctls": sysctls}, hostNetwork=True, hostIPC=True) == [
        "s.sysctls[0].name: Invalid value: \"net.ipv4.x\": may not be set with 'hostNetwork' enabled",
        "s.sysctls[1].name: Invalid value: \"kernel/shm_x\": may not be set with 'hostIPC' enabled",
    ]
    (text,) = of_pod({"sysctls": [{"name": "A", "value": "1"}]})
    assert "must have at most 253 characters and match regex ^([a-z0-9]" in text


def test_users_of_its_own_and_the_nodes_namespaces_exclude_each_other() -> None:
    assert of_pod({}, hostUsers=False, hostPID=True) == ["s.hostPID: Forbidden: when `hostUsers` is false"]
    shared = of_pod({}, shareProcessNamespace=True, hostPID=True)
    assert shared == [
        "s.shareProcessNamespace: Invalid value: true: ShareProcessNamespace and HostPID cannot both be enabled"
    ]


@pytest.mark.parametrize("kind", ["seccomp", "appArmor"])
def test_profiles_have_a_type_and_local_ones_a_name(kind: str) -> None:
    word = {"seccomp": "seccomp", "appArmor": "AppArmor"}[kind]
    field = f"{kind}Profile"

    def problems(**profile: Any) -> list[str]:
        return of_container(**{field: profile})

    assert problems(type="RuntimeDefault") == problems(type="Localhost", localhostProfile="a/b") == []
    assert problems() == [f"s.{field}.type: Required value: type is required when {field} is set"]
    (unknown,) = problems(type="X")
    assert unknown.startswith(f's.{field}.type: Unsupported value: "X": supported values: "Localhost"')
    assert problems(type="Localhost") == [
        f"s.{field}.localhostProfile: Required value: must be set when {word} type is Localhost"
    ]
    (extra,) = problems(type="Unconfined", localhostProfile="a")
    assert extra.endswith(f"can only be set when {word} type is Localhost")


def test_a_seccomp_profile_lies_below_the_folder_of_profiles() -> None:
    for path, text in (("/a", "must be a relative path"), ("a/../b", "must not contain '..'")):
        assert of_container(seccompProfile={"type": "Localhost", "localhostProfile": path}) == [
            f's.seccompProfile.localhostProfile: Invalid value: "{path}": {text}'
        ]


def test_what_is_privileged_cannot_be_kept_from_more_rights() -> None:
    (text,) = of_container(allowPrivilegeEscalation=False, privileged=True)
    assert text.endswith("cannot set `allowPrivilegeEscalation` to false and `privileged` to true")
    (text,) = of_container(allowPrivilegeEscalation=False, capabilities={"add": ["CAP_SYS_ADMIN"]})
    assert text.endswith("cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN")


def test_proc_is_unmasked_for_own_users_only() -> None:
    assert of_container(own_users=True, procMount="Unmasked") == []
    assert of_container(procMount="Unmasked") == [
        's.procMount: Invalid value: "Unmasked": `hostUsers` must be false to use `Unmasked`'
    ]
    (text,) = of_container(procMount="X")
    assert text == 's.procMount: Unsupported value: "X": supported values: "Default", "Unmasked"'


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
