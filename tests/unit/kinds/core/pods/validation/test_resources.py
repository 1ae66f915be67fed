"""Rules of requests and limits."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cathedra.api.core import core_v1
from cathedra.api.field import ErrorList, FieldPath
from cathedra.api.struct import EMPTY_LIST, replace
from cathedra.kinds.core.pods.validation._resources import claim_names, validate_pod_resources
from tests.unit.kinds.objects import context, created, definition_of, pod, texts


def problems(made: core_v1.Pod) -> list[str]:
    return texts(created(definition_of("pods").strategy, made, context())[1])


@pytest.mark.parametrize(
    ("resources", "wanted"),
    [
        ({"limits": {"example.com/gpu": "2" * 30}}, ["limits[example.com/gpu]", "requests[example.com/gpu]"]),
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
    ("name", "wanted"),
    [
        ("cpu", []),
        ("ephemeral-storage", []),
        ("example.com/gpu", []),
        ("pods", ["must be a standard resource for containers"]),
        (
            "gpu",
            [
                "must be a standard resource type or fully qualified",
                "must be a standard resource for containers",
            ],
        ),
        ("requests.example.com/gpu", ["doesn't follow extended resource name standard"]),
    ],
)
def test_a_container_asks_for_what_it_may_be_given(name: str, wanted: list[str]) -> None:
    found = problems(pod({"resources": {"limits": {name: "1"}}}))
    path = f'spec.containers[0].resources.limits[{name}]: Invalid value: "{name}": '
    assert [text for text in found if ".limits[" in text] == [path + text for text in wanted]


def test_huge_pages_need_cpu_or_memory_beside_them() -> None:
    pages = {"hugepages-2Mi": "2Mi"}
    assert problems(pod({"resources": {"limits": pages}})) == [
        "spec.containers[0].resources: Forbidden: HugePages require cpu or memory"
    ]
    assert problems(pod({"resources": {"limits": {**pages, "memory": "1Mi"}}})) == []


# --- resources of the pod as a whole


def whole(resources: dict[str, Any], *requests: str) -> list[str]:
    containers = [{"name": f"c{n}", "resources": {"requests": {"cpu": cpu}}} for n, cpu in enumerate(requests)]
    errors = ErrorList()
    validate_pod_resources(errors, FieldPath("r"), pod(*containers, resources=resources).spec, frozenset())
    return texts(errors)


@pytest.mark.parametrize(
    ("resources", "wanted"),
    [
        ({"requests": {"cpu": "3"}, "limits": {"cpu": "3"}}, []),
        ({"requests": {"cpu": "2999m"}}, ['r.requests[cpu]: Invalid value: "2999m": must be greater than or equal to']),
        (
            {"requests": {"cpu": "4"}, "limits": {"cpu": "3"}},
            ['r.requests: Invalid value: "4": must be less than or equal to cpu limit of 3'],
        ),
        (
            {"limits": {"ephemeral-storage": "1"}},
            ['r.limits[ephemeral-storage]: Unsupported value: "ephemeral-storage"'],
        ),
        ({"limits": {"hugepages-2Mi": "2Mi"}}, []),
        ({"limits": {"memory": "-1"}}, ['r.limits[memory]: Invalid value: "-1": must be greater than or equal to 0']),
        (
            {"claims": [{"name": "a"}]},
            ["r.claims: Forbidden: claims may not be set for Resources at pod-level", 'r.claims[0]: Not found: "a"'],
        ),
    ],
)
def test_a_pod_asks_for_no_less_than_its_containers_together(resources: dict[str, Any], wanted: list[str]) -> None:
    found = whole(resources, "1", "2")
    assert len(found) == len(wanted), found
    assert all(text.startswith(beginning) for text, beginning in zip(found, wanted, strict=True)), found


@given(st.lists(st.integers(0, 5), max_size=4), st.integers(0, 20))
def test_the_pods_request_is_compared_with_the_sum(requests: list[int], asked: int) -> None:
    found = whole({"requests": {"cpu": str(asked)}}, *map(str, requests))
    assert bool(found) is (asked < sum(requests))


def test_claims_that_are_spelled_out_are_forbidden_even_if_there_are_none() -> None:
    errors = ErrorList()
    spelled = core_v1.ResourceRequirements(claims=EMPTY_LIST)
    validate_pod_resources(errors, FieldPath("r"), replace(pod().spec, resources=spelled), frozenset())
    assert texts(errors) == ["r.claims: Forbidden: claims may not be set for Resources at pod-level"]


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


def test_static_pods_have_no_claims() -> None:
    mirror = {"annotations": {"kubernetes.io/config.mirror": "x"}}
    made = pod(metadata=mirror, nodeName="n", resourceClaims=[{"name": "a", "resourceClaimName": "x"}])
    assert problems(made) == ["[]: Forbidden: static pods do not support resource claims"]
    unsound = pod(metadata=mirror, nodeName="n", resourceClaims=[{"name": "a"}])
    assert problems(unsound) == ["[]: Forbidden: static pods do not support resource claims"]


def test_entries_have_names_of_their_own() -> None:
    entry = {"name": "a", "resourceClaimName": "x"}
    assert problems(pod(resourceClaims=[entry, entry])) == ['spec.resourceClaims[1].name: Duplicate value: "a"']
    (text,) = problems(pod(resourceClaims=[{**entry, "name": "a.b"}]))
    assert text.startswith('spec.resourceClaims[0].name: Invalid value: "a.b": must not contain dots')


@pytest.mark.parametrize("field", ["resourceClaimName", "resourceClaimTemplateName"])
def test_an_entry_names_what_could_be_an_object(field: str) -> None:
    assert problems(pod(resourceClaims=[{"name": "a", field: "b.c"}])) == []
    (text,) = problems(pod(resourceClaims=[{"name": "a", field: "B_c"}]))
    assert text.startswith(f'spec.resourceClaims[0].{field}: Invalid value: "B_c": a lowercase RFC 1123 subdomain')


def test_the_request_of_a_claim_is_a_label() -> None:
    entry = {"name": "a", "resourceClaimName": "x"}
    (text,) = problems(pod({"resources": {"claims": [{"name": "a", "request": "r/s"}]}}, resourceClaims=[entry]))
    assert text.startswith('spec.containers[0].resources.claims[0].request: Invalid value: "r/s"')


def test_containers_refer_to_entries_that_have_names() -> None:
    entries = [{"name": "b", "resourceClaimName": "x"}, {"resourceClaimName": "y"}, {"name": "a"}]
    assert claim_names(pod(resourceClaims=entries).spec) == {"a", "b"}


def test_an_unknown_claim_is_refused_with_a_hundred_names_of_known_ones() -> None:
    known = [{"name": f"c{number:04}", "resourceClaimName": "x"} for number in range(8000)]
    used = [{"name": f"u{number}"} for number in range(8000)]
    found = created(
        definition_of("pods").strategy, pod({"resources": {"claims": used}}, resourceClaims=known), context()
    )[1]
    assert len(found) == 8000
    names = ", ".join(f"c{number:04}" for number in range(100))
    assert str(found[0]) == (
        'spec.containers[0].resources.claims[0]: Not found: "u0": must be one of the names in pod.spec.resourceClaims: '
        f"{names}, and 7900 more"
    )
