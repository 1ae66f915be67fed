"""Known ways from a container to its node are closed."""

from __future__ import annotations

from typing import Any

import pytest

from cathedra.apiserver.admission.podsecurity import baseline
from cathedra.apiserver.admission.podsecurity.violations import Check
from tests.unit.apiserver.admission.podsecurity.pods import container, pod, said

HOST = {"httpGet": {"host": "10.0.0.1", "port": 80}}


@pytest.mark.parametrize(
    ("check", "spec", "text"),
    [
        (baseline.host_namespaces, {"hostNetwork": True, "hostIPC": True}, "hostNetwork=true, hostIPC=true"),
        (
            baseline.host_path_volumes,
            {"volumes": [{"name": "v", "hostPath": {"path": "/"}}, {"name": "w", "emptyDir": {}}]},
            'volume "v"',
        ),
        (baseline.sysctls(), {"securityContext": {"sysctls": [{"name": "a", "value": "1"}]}}, "a"),
        (baseline.sysctls("a"), {"securityContext": {"sysctls": [{"name": "a", "value": "1"}]}}, ""),
        (
            baseline.windows_host_process,
            {"securityContext": {"windowsOptions": {"hostProcess": True}}},
            "pod must not set securityContext.windowsOptions.hostProcess=true",
        ),
        (
            baseline.seccomp,
            {"securityContext": {"seccompProfile": {"type": "Unconfined"}}},
            'pod must not set securityContext.seccompProfile.type to "Unconfined"',
        ),
        (
            baseline.se_linux(),
            {"securityContext": {"seLinuxOptions": {"type": "spc_t", "user": "u", "role": "r"}}},
            'pod set forbidden securityContext.seLinuxOptions: type "spc_t"; user may not be set; role may not be set',
        ),
        (baseline.se_linux("spc_t"), {"securityContext": {"seLinuxOptions": {"type": "spc_t"}}}, ""),
        (
            baseline.app_armor,
            {"securityContext": {"appArmorProfile": {"type": "Unconfined"}}},
            'pod must not set AppArmor profile type to "Unconfined"',
        ),
    ],
)
def test_fields_of_pods(check: Check, spec: dict[str, Any], text: str) -> None:
    assert said(check, pod(**spec)) == text
    assert said(check, pod()) == ""


@pytest.mark.parametrize(
    ("check", "context", "text"),
    [
        (baseline.privileged, {"privileged": True}, "must not set securityContext.privileged=true"),
        (
            baseline.capabilities,
            {"capabilities": {"add": ["NET_ADMIN", "CHOWN", "BPF"]}},
            'must not include "BPF", "NET_ADMIN" in securityContext.capabilities.add',
        ),
        (baseline.proc_mount, {"procMount": "Unmasked"}, 'must not set securityContext.procMount to "Unmasked"'),
        (
            baseline.seccomp,
            {"seccompProfile": {"type": "Unconfined"}},
            'must not set securityContext.seccompProfile.type to "Unconfined"',
        ),
        (
            baseline.windows_host_process,
            {"windowsOptions": {"hostProcess": True}},
            "must not set securityContext.windowsOptions.hostProcess=true",
        ),
    ],
)
def test_security_contexts_of_containers(check: Check, context: dict[str, Any], text: str) -> None:
    assert said(check, pod(container("a", context))) == f'container "a" {text}'
    assert said(check, pod(container("a", context), container("b", context))) == f'containers "a", "b" {text}'
    assert said(check, pod(container("a"))) == ""


def test_ports_of_the_node() -> None:
    made = pod(container(ports=[{"containerPort": 1, "hostPort": 80}, {"containerPort": 2, "hostPort": 443}]))
    assert said(baseline.host_ports, made) == 'container "a" uses hostPorts 443, 80'
    assert said(baseline.host_ports, pod(container(ports=[{"containerPort": 1}]))) == ""


def test_hosts_of_probes_and_lifecycle_handlers() -> None:
    made = pod(container("b", livenessProbe=HOST), container("a", lifecycle={"preStop": HOST}))
    assert said(baseline.host_probes, made) == 'containers "a", "b" use probe or lifecycle host "10.0.0.1"'
    assert said(baseline.host_probes, pod(container(readinessProbe={"httpGet": {"port": 80}}))) == ""


def test_annotations_of_older_releases() -> None:
    seccomp = {"container.seccomp.security.alpha.kubernetes.io/a": "unconfined"}
    expected = 'forbidden annotation container.seccomp.security.alpha.kubernetes.io/a="unconfined"'
    assert said(baseline.seccomp_annotations, pod(annotations=seccomp)) == expected
    assert said(baseline.seccomp_annotations, pod(annotations=dict.fromkeys(seccomp, "localhost/x"))) == ""
    armor = {"container.apparmor.security.beta.kubernetes.io/a": "unconfined"}
    assert "annotation must not set AppArmor profile type to" in said(baseline.app_armor, pod(annotations=armor))


def test_a_user_namespace_relaxes_what_it_makes_harmless() -> None:
    context = {"procMount": "Unmasked"}
    assert said(baseline.relaxed(baseline.proc_mount), pod(container("a", context), hostUsers=False)) == ""
    assert said(baseline.relaxed(baseline.proc_mount), pod(container("a", context))) != ""
