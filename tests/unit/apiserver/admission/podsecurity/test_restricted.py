"""Checks of the level restricted."""

from __future__ import annotations

from typing import Any

import pytest

from cathedra.apiserver.admission.podsecurity import restricted
from cathedra.apiserver.admission.podsecurity.violations import Check
from tests.unit.apiserver.admission.podsecurity.pods import container, pod, said

BARE = {"name": "a", "image": "i"}


@pytest.mark.parametrize(
    ("check", "made", "text"),
    [
        (restricted.no_escalation, BARE, 'container "a" must set securityContext.allowPrivilegeEscalation=false'),
        (restricted.capabilities, BARE, 'container "a" must set securityContext.capabilities.drop=["ALL"]'),
        (
            restricted.capabilities,
            container("a", {"capabilities": {"add": ["CHOWN", "NET_BIND_SERVICE"]}}),
            'container "a" must set securityContext.capabilities.drop=["ALL"]; '
            'container "a" must not include "CHOWN" in securityContext.capabilities.add',
        ),
        (restricted.run_as_non_root, BARE, 'pod or container "a" must set securityContext.runAsNonRoot=true'),
        (
            restricted.run_as_non_root,
            container("a", {"runAsNonRoot": False}),
            'container "a" must not set securityContext.runAsNonRoot=false',
        ),
        (restricted.run_as_user, container("a", {"runAsUser": 0}), 'container "a" must not set runAsUser=0'),
        (
            restricted.seccomp,
            BARE,
            'pod or container "a" must set securityContext.seccompProfile.type to "RuntimeDefault" or "Localhost"',
        ),
        (
            restricted.seccomp,
            container("a", {"seccompProfile": {"type": "Unconfined"}}),
            'container "a" must not set securityContext.seccompProfile.type to "Unconfined"',
        ),
    ],
)
def test_containers(check: Check, made: dict[str, Any], text: str) -> None:
    assert said(check, pod(made)) == text
    assert said(check, pod(container())) == ""


def test_what_the_pod_says_holds_for_its_containers() -> None:
    context = {"runAsNonRoot": True, "seccompProfile": {"type": "Localhost"}}
    for check in (restricted.run_as_non_root, restricted.seccomp):
        assert said(check, pod(BARE, securityContext=context)) == ""
    assert said(restricted.run_as_user, pod(securityContext={"runAsUser": 0})) == "pod must not set runAsUser=0"


def test_volumes_of_the_node_and_of_networks_are_not_mounted() -> None:
    volumes: list[dict[str, Any]] = [
        {"name": "a", "hostPath": {"path": "/"}},
        {"name": "b", "nfs": {"server": "s", "path": "/"}},
        {"name": "c", "configMap": {"name": "m"}},
    ]
    expected = 'volumes "a", "b" use restricted volume types "hostPath", "nfs"'
    assert said(restricted.volumes, pod(volumes=volumes)) == expected
    assert said(restricted.volumes, pod(volumes=[{"name": "x"}])) == (
        'volume "x" uses restricted volume type "unknown"'
    )


def test_pods_for_windows_cannot_have_the_field() -> None:
    check = restricted.not_on_windows(restricted.no_escalation)
    assert said(check, pod(BARE, os={"name": "windows"})) == ""
    assert said(check, pod(BARE, os={"name": "linux"})) != ""
