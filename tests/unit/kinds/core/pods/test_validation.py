"""Rules of pods, as their authors meet them."""

from __future__ import annotations

from typing import Any

import pytest

from cathedra.api.core import core_v1
from cathedra.api.struct import from_dict, replace
from tests.unit.kinds.objects import context, created, definition_of, pod, texts, updated

LABEL = "a lowercase RFC 1123 label must consist of"


def problems(made: core_v1.Pod) -> list[str]:
    return texts(created(definition_of("pods").strategy, made, context())[1])


def stored(made: core_v1.Pod) -> core_v1.Pod:
    found: core_v1.Pod = created(definition_of("pods").strategy, made, context())[0]
    return found


def test_a_plain_pod_is_accepted() -> None:
    assert problems(pod()) == []


@pytest.mark.parametrize(
    ("entry", "wanted"),
    [
        (
            {"name": "a"},
            [
                'spec.resourceClaims[0]: Invalid value: {"Name":"a","ResourceClaimName":null,'
                '"ResourceClaimTemplateName":null}: must specify one of: `resourceClaimName`, '
                "`resourceClaimTemplateName`"
            ],
        ),
        (
            {"name": "a", "resourceClaimName": "x", "resourceClaimTemplateName": "y"},
            [
                'spec.resourceClaims[0]: Invalid value: {"Name":"a","ResourceClaimName":"x",'
                '"ResourceClaimTemplateName":"y"}: at most one of `resourceClaimName` or `resourceClaimTemplateName` '
                "may be specified"
            ],
        ),
        ({"resourceClaimName": "x"}, ["spec.resourceClaims[0].name: Required value"]),
        ({"name": "a", "resourceClaimName": "x"}, []),
    ],
)
def test_an_entry_names_one_claim_or_one_template(entry: dict[str, str], wanted: list[str]) -> None:
    assert problems(pod(resourceClaims=[entry])) == wanted


@pytest.mark.parametrize(
    ("claims", "wanted"),
    [
        ([{"name": "a"}], []),
        ([{"name": "a", "request": "x"}, {"name": "a", "request": "y"}], []),
        ([{"name": "a"}, {"name": "a"}], ['claims[1]: Duplicate value: "a"']),
        ([{"name": "a"}, {"name": "a", "request": "x"}], ['claims[1]: Duplicate value: "a"']),
        ([{"name": "a", "request": "x"}, {"name": "a"}], ['claims[1]: Duplicate value: "a"']),
        ([{"name": "a", "request": "x"}, {"name": "a", "request": "x"}], ['claims[1]: Duplicate value: "a/x"']),
        ([{"name": ""}], ["claims[0]: Required value"]),
        (
            [{"name": "z"}],
            ['claims[0]: Not found: "z": must be one of the names in pod.spec.resourceClaims: a'],
        ),
    ],
)
def test_a_container_uses_each_claim_or_request_once(claims: list[dict[str, str]], wanted: list[str]) -> None:
    made = pod({"resources": {"claims": claims}}, resourceClaims=[{"name": "a", "resourceClaimName": "x"}])
    assert problems(made) == [f"spec.containers[0].resources.{text}" for text in wanted]


def test_without_claims_the_problem_says_so() -> None:
    (text,) = problems(pod({"resources": {"claims": [{"name": "z"}]}}))
    assert text.endswith("must be one of the names in pod.spec.resourceClaims which is empty")


@pytest.mark.parametrize(
    ("resources", "wanted"),
    [
        ({"requests": {"example.com/gpu": "1"}}, ["limits: Required value: Limit must be set for non overcommitable"]),
        (
            {"requests": {"example.com/gpu": "1"}, "limits": {"example.com/gpu": "2"}},
            ['requests: Invalid value: "1": must be equal to example.com/gpu limit of 2'],
        ),
        (
            {"requests": {"cpu": "2"}, "limits": {"cpu": "1"}},
            ['requests: Invalid value: "2": must be less than or equal to cpu limit of 1'],
        ),
        (
            {"requests": {"example.com/gpu": "500m"}, "limits": {"example.com/gpu": "500m"}},
            [
                'limits[example.com/gpu]: Invalid value: "500m": must be an integer',
                'requests[example.com/gpu]: Invalid value: "500m": must be an integer',
            ],
        ),
        ({"requests": {"deviceclass.resource.kubernetes.io/gpu": "1"}}, []),
        (
            {"limits": {"cpu": "-1"}, "requests": {"cpu": "-1"}},
            [
                'limits[cpu]: Invalid value: "-1": must be greater than or equal to 0',
                'requests[cpu]: Invalid value: "-1": must be greater than or equal to 0',
            ],
        ),
    ],
)
def test_requests_and_limits_agree(resources: dict[str, Any], wanted: list[str]) -> None:
    found = problems(pod({"resources": resources}))
    assert len(found) == len(wanted)
    for text, beginning in zip(found, wanted, strict=True):
        assert text.startswith(f"spec.containers[0].resources.{beginning}")


@pytest.mark.parametrize(
    ("spec", "wanted"),
    [
        ({"containers": []}, "spec.containers: Required value"),
        ({"restartPolicy": "Sometimes"}, 'spec.restartPolicy: Unsupported value: "Sometimes"'),
        ({"dnsPolicy": "x"}, 'spec.dnsPolicy: Unsupported value: "x"'),
        ({"nodeName": "A"}, 'spec.nodeName: Invalid value: "A": a lowercase RFC 1123 subdomain'),
        (
            {"activeDeadlineSeconds": 0},
            "spec.activeDeadlineSeconds: Invalid value: 0: must be between 1 and 2147483647",
        ),
        (
            {"tolerations": [{"key": "a", "operator": "Exists", "tolerationSeconds": 1}]},
            "spec.tolerations[0].effect: Invalid value: \"\": effect must be 'NoExecute'",
        ),
        (
            {"tolerations": [{"operator": "Equal"}]},
            'spec.tolerations[0].operator: Invalid value: "Equal": operator must',
        ),
        ({"volumes": [{"name": "v"}, {"name": "v"}]}, 'spec.volumes[1].name: Duplicate value: "v"'),
        ({"resources": {"claims": [{"name": "a"}]}}, "spec.resources.claims: Forbidden: claims may not be set"),
        ({"ephemeralContainers": [{"name": "e", "image": "i"}]}, "spec.ephemeralContainers: Forbidden: cannot be set"),
        ({"nodeName": "n", "schedulingGates": [{"name": "g"}]}, "spec.nodeName: Forbidden: cannot be set until all"),
        ({"initContainers": [{"name": "c", "image": "i"}]}, 'spec.initContainers[0].name: Duplicate value: "c"'),
    ],
)
def test_a_pod_spec_is_checked(spec: dict[str, Any], wanted: str) -> None:
    made = pod(**{name: value for name, value in spec.items() if name != "containers"})
    if "containers" in spec:
        made = replace(made, spec=replace(made.spec, containers=()))
    (text,) = problems(made)
    assert text.startswith(wanted)


@pytest.mark.parametrize(
    ("container", "wanted"),
    [
        ({"name": ""}, "name: Required value"),
        ({"name": "A"}, f'name: Invalid value: "A": {LABEL}'),
        ({"image": ""}, "image: Required value"),
        ({"imagePullPolicy": "x"}, 'imagePullPolicy: Unsupported value: "x"'),
        ({"ports": [{"containerPort": 0}]}, "ports[0].containerPort: Required value"),
        ({"ports": [{"containerPort": 70000}]}, "ports[0].containerPort: Invalid value: 70000: must be between 1"),
        ({"ports": [{"containerPort": 1, "name": "a--b"}]}, 'ports[0].name: Invalid value: "a--b": must not contain'),
        ({"env": [{"name": "a=b"}]}, 'env[0].name: Invalid value: "a=b"'),
        ({"env": [{"name": "a", "valueFrom": {}}]}, 'env[0].valueFrom: Invalid value: "": must specify one of'),
        ({"volumeMounts": [{"name": "v", "mountPath": "/x"}]}, 'volumeMounts[0].name: Not found: "v"'),
        ({"livenessProbe": {}}, "livenessProbe: Required value: must specify a handler type"),
    ],
)
def test_a_container_is_checked(container: dict[str, Any], wanted: str) -> None:
    (text,) = problems(pod(container))
    assert text.startswith(f"spec.containers[0].{wanted}")


def test_static_pods_have_no_claims() -> None:
    mirror = {"annotations": {"kubernetes.io/config.mirror": "x"}}
    made = pod(metadata=mirror, nodeName="n", resourceClaims=[{"name": "a", "resourceClaimName": "x"}])
    assert problems(made) == ["[]: Forbidden: static pods do not support resource claims"]


# --- changes


def change(old: core_v1.Pod, **spec: Any) -> list[str]:
    new = replace(old, spec=replace(old.spec, **spec))
    return texts(updated(definition_of("pods").strategy, new, old, context())[1])


def test_images_tolerations_and_gates_may_change() -> None:
    old = stored(pod(schedulingGates=[{"name": "g"}]))
    other = replace(old.spec.containers[0], image="j")
    more = (core_v1.Toleration(key="k", operator="Exists"),)
    assert change(old, containers=(other,), tolerations=more, scheduling_gates=()) == []


def test_anything_else_is_shown_with_the_difference() -> None:
    old = stored(pod(resourceClaims=[{"name": "a", "resourceClaimName": "x"}]))
    (text,) = change(old, resource_claims=(core_v1.PodResourceClaim(name="a", resource_claim_name="y"),))
    assert text.startswith("spec: Forbidden: pod updates may not change fields other than `spec.containers[*].image`")
    assert '\n-   "ResourceClaimName": "x",\n+   "ResourceClaimName": "y",\n' in text


def test_a_gate_cannot_be_added() -> None:
    (text,) = change(stored(pod()), scheduling_gates=(core_v1.PodSchedulingGate(name="g"),))
    wanted = "spec.schedulingGates[0].name: Forbidden: only deletion is allowed, but found new scheduling gate 'g'"
    assert text == wanted


def test_a_gated_pod_may_become_pickier_and_no_other() -> None:
    assert change(stored(pod(schedulingGates=[{"name": "g"}])), node_selector={"a": "b"}) == []
    assert change(stored(pod()), node_selector={"a": "b"}) != []


def test_containers_are_neither_added_nor_removed() -> None:
    old = stored(pod())
    assert change(old, containers=()) == [
        "spec.containers: Required value",
        "spec.containers: Forbidden: pod updates may not add or remove containers",
    ]


def test_an_ephemeral_container_joins_without_resources() -> None:
    old = stored(pod())
    strategy = definition_of("pods").subresources["ephemeralcontainers"]
    container = from_dict(core_v1.EphemeralContainer, {"name": "e", "image": "i"})
    new = replace(old, spec=replace(old.spec, ephemeral_containers=(container,), node_name="ignored"))
    made, errors = updated(strategy, new, old, context())
    assert errors == []
    assert (made.spec.node_name, made.metadata.generation) == ("", 2)
    greedy = replace(container, resources=from_dict(core_v1.ResourceRequirements, {"requests": {"cpu": "1"}}))
    new = replace(old, spec=replace(old.spec, ephemeral_containers=(greedy,)))
    assert texts(updated(strategy, new, old, context())[1]) == [
        "spec.ephemeralContainers[0].resources: Forbidden: cannot be set for an Ephemeral Container"
    ]
    gone = updated(strategy, old, made, context())[1]
    assert texts(gone) == [
        'spec.ephemeralContainers: Forbidden: existing ephemeral containers "e" may not be removed\n'
    ]


def resized(old: core_v1.Pod, resources: dict[str, Any]) -> list[str]:
    strategy = definition_of("pods").subresources["resize"]
    container = replace(old.spec.containers[0], resources=from_dict(core_v1.ResourceRequirements, resources))
    new = replace(old, spec=replace(old.spec, containers=(container,)))
    return texts(updated(strategy, new, old, context())[1])


def test_cpu_and_memory_may_be_resized_within_the_quality_class() -> None:
    old = stored(pod({"resources": {"requests": {"cpu": "1"}, "limits": {"cpu": "2"}}}))
    assert resized(old, {"requests": {"cpu": "2"}, "limits": {"cpu": "2"}}) == []
    assert resized(old, {"requests": {"cpu": "1"}, "limits": {"cpu": "2", "ephemeral-storage": "1"}}) == [
        "spec: Forbidden: only cpu and memory resources are mutable"
    ]
    assert resized(old, {})[0].endswith("Pod QOS Class may not change as a result of resizing")


def test_a_pod_whose_containers_use_claims_cannot_be_resized() -> None:
    claims = {"claims": [{"name": "a"}], "requests": {"cpu": "1"}}
    old = stored(pod({"resources": claims}, resourceClaims=[{"name": "a", "resourceClaimName": "x"}]))
    assert resized(old, {**claims, "requests": {"cpu": "2"}}) == [
        "spec: Forbidden: only cpu and memory resources are mutable"
    ]
