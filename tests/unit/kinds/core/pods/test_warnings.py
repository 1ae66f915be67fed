"""Warnings about pods that are accepted all the same."""

from __future__ import annotations

from typing import Any

import pytest

from cathedra.api.core.apps_v1 import Deployment
from cathedra.api.core.core_v1 import Pod, PodTemplateSpec
from cathedra.api.field import FieldPath
from cathedra.api.struct import from_dict, replace
from cathedra.kinds.core.pods.warnings import (
    app_armor_warnings,
    named_workload_warnings,
    pod_warnings,
    template_warnings,
    workload_warnings,
)

NODE_AFFINITY = {
    "requiredDuringSchedulingIgnoredDuringExecution": {
        "nodeSelectorTerms": [{"matchExpressions": [{"key": "beta.kubernetes.io/os", "operator": "Exists"}]}]
    }
}


def container(name: str = "c", **fields: Any) -> dict[str, Any]:
    return {"name": name, "image": "i", **fields}


def said(
    *containers: dict[str, Any], name: str = "p", annotations: dict[str, str] | None = None, **spec: Any
) -> list[str]:
    """The warnings about a pod."""
    body = {
        "metadata": {"name": name, "annotations": annotations or {}},
        "spec": {"containers": list(containers) or [container()], **spec},
    }
    return list(pod_warnings(from_dict(Pod, body)))


def test_a_plain_pod_is_not_warned_of() -> None:
    assert said() == []


def test_a_name_that_is_no_label_of_hosts() -> None:
    (text,) = said(name="a.b")
    assert text.startswith(
        "metadata.name: this is used in the Pod's hostname, which can result in surprising behavior;"
    )
    assert text.endswith("a DNS label is recommended: [must not contain dots]")


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        (
            {"nodeSelector": {"beta.kubernetes.io/arch": "x"}},
            'spec.nodeSelector[beta.kubernetes.io/arch]: deprecated since v1.14; use "kubernetes.io/arch" instead',
        ),
        (
            {"affinity": {"nodeAffinity": NODE_AFFINITY}},
            "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0]"
            '.matchExpressions[0].key: beta.kubernetes.io/os is deprecated since v1.14; use "kubernetes.io/os" instead',
        ),
        (
            {
                "topologySpreadConstraints": [
                    {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}
                ]
            },
            "spec.topologySpreadConstraints[0].labelSelector: a null labelSelector results in matching no pod",
        ),
        ({"volumes": [{"name": "v", "gitRepo": {"repository": "r"}}]}, "spec.volumes[0].gitRepo: deprecated in v1.11"),
        ({"hostAliases": [{"ip": "1.1.1.1"}, {"ip": "1.1.1.1"}]}, 'spec.hostAliases[1].ip: duplicate ip "1.1.1.1"'),
        ({"imagePullSecrets": [{"name": "s"}, {"name": "s"}]}, 'spec.imagePullSecrets[1].name: duplicate name "s"'),
        ({"imagePullSecrets": [{}]}, 'spec.imagePullSecrets[0].name: invalid empty name ""'),
        (
            {"overhead": {"memory": "1500m"}},
            'spec.overhead[memory]: fractional byte value "1500m" is invalid, must be an integer',
        ),
        (
            {"terminationGracePeriodSeconds": -1},
            "spec.terminationGracePeriodSeconds: must be >= 0; negative values are invalid and will be treated as 1",
        ),
        (
            {"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "z"}]}}},
            "spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].labelSelector: a null "
            "labelSelector results in matching no pod",
        ),
    ],
)
def test_fields_of_pods(spec: dict[str, Any], expected: str) -> None:
    assert said(**spec) == [expected]


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        (
            {"resources": {"limits": {"memory": "100m"}}},
            'spec.containers[0].resources.limits[memory]: fractional byte value "100m" is invalid, must be an integer',
        ),
        (
            {"env": [{"name": "A", "value": "1"}, {"name": "A", "value": "2"}]},
            'spec.containers[0].env[1]: hides previous definition of "A", which may be dropped when using apply',
        ),
        (
            {"ports": [{"containerPort": 80, "protocol": "TCP", "hostIP": "1.1.1.1"}]},
            "spec.containers[0].ports[0]: hostIP set without hostPort: "
            "{Name: HostPort:0 ContainerPort:80 Protocol:TCP HostIP:1.1.1.1}",
        ),
    ],
)
def test_fields_of_containers(fields: dict[str, Any], expected: str) -> None:
    assert said(container(**fields)) == [expected]


def test_a_variable_may_build_upon_another() -> None:
    assert said(container(env=[{"name": "A", "value": "1"}, {"name": "A", "value": "$(A)2"}])) == []


@pytest.mark.parametrize(
    ("first", "second", "word"),
    [
        ({}, {}, "duplicate"),
        ({"hostPort": 1}, {}, "overlapping"),
        ({"hostPort": 1, "hostIP": "1.1.1.1"}, {"hostPort": 1}, "dangerously ambiguous"),
        ({"hostPort": 1}, {"hostPort": 2}, ""),
    ],
)
def test_ports_of_different_containers(first: dict[str, Any], second: dict[str, Any], word: str) -> None:
    ports = [{"containerPort": 80, "protocol": "TCP", **one} for one in (first, second)]
    found = said(container("a", ports=ports[:1]), container("b", ports=ports[1:]))
    path = "spec.containers[1].ports[0]"
    assert found == ([f"{path}: {word} port definition with spec.containers[0].ports[0]"] if word else [])


def test_annotations_that_have_become_fields() -> None:
    names = {
        "scheduler.alpha.kubernetes.io/critical-pod": "",
        "seccomp.security.alpha.kubernetes.io/pod": "x",
    }
    assert said(annotations=names) == [
        "metadata.annotations[scheduler.alpha.kubernetes.io/critical-pod]: non-functional in v1.16+; use the "
        '"priorityClassName" field instead',
        "metadata.annotations[seccomp.security.alpha.kubernetes.io/pod]: non-functional in v1.27+; use the "
        '"seccompProfile" field instead',
    ]


APP_ARMOR = "container.apparmor.security.beta.kubernetes.io/"
APP_ARMOR_TEXT = f'metadata.annotations[{APP_ARMOR}c]: deprecated since v1.30; use the "appArmorProfile" field instead'


@pytest.mark.parametrize(("name", "found"), [("c", [APP_ARMOR_TEXT]), ("other", [])])
def test_annotations_of_app_armor_are_warned_of_apart_and_only_for_containers(name: str, found: list[str]) -> None:
    body = {
        "metadata": {"name": "p", "annotations": {f"{APP_ARMOR}{name}": "x"}},
        "spec": {"containers": [container()]},
    }
    pod = from_dict(Pod, body)
    assert list(app_armor_warnings(pod)) == found
    assert list(pod_warnings(pod)) == []
    template = from_dict(PodTemplateSpec, body)
    assert [text.removeprefix("t.") for text in template_warnings(FieldPath("t"), template)] == found


def test_a_file_where_a_token_lies() -> None:
    sources = [
        {"serviceAccountToken": {"path": "token"}},
        {"configMap": {"name": "m", "items": [{"key": "k", "path": "token"}]}},
    ]
    assert said(volumes=[{"name": "v", "projected": {"sources": sources}}]) == [
        'spec.volumes[0].projected.sources.configMap[0]: has duplicated path with ServiceAccountToken "token"'
    ]


def deployment(name: str = "d", generation: int = 1) -> Deployment:
    """A deployment whose template repeats a variable."""
    twice = container(env=[{"name": "A", "value": "1"}, {"name": "A", "value": "2"}])
    body = {
        "metadata": {"name": name, "generation": generation},
        "spec": {"selector": {}, "template": {"spec": {"containers": [twice]}}},
    }
    return from_dict(Deployment, body)


def test_templates_are_warned_of_where_they_are() -> None:
    template: PodTemplateSpec = deployment().spec.template
    (text,) = template_warnings(FieldPath("spec").child("template"), template)
    assert text.startswith("spec.template.spec.containers[0].env[1]: hides previous definition")


def test_workloads_are_warned_of_when_their_spec_changes() -> None:
    first = deployment()
    assert len(list(workload_warnings(first, None))) == 1
    assert list(workload_warnings(first, first)) == []
    again = replace(first, metadata=replace(first.metadata, generation=2))
    assert len(list(workload_warnings(again, first))) == 1


def test_the_name_of_a_workload_becomes_part_of_its_pods_names() -> None:
    first, *_ = named_workload_warnings(deployment("a.b"), None)
    assert first.startswith("metadata.name: this is used in Pod names and hostnames, which can result in surprising")
