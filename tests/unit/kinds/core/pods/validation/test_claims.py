"""Rules of a pod's claims and of what containers use of them."""

from __future__ import annotations

import pytest

from cathedra.api.core import core_v1
from cathedra.kinds.core.pods.validation.claims import claim_names
from tests.unit.kinds.objects import context, created, definition_of, pod, texts


def problems(made: core_v1.Pod) -> list[str]:
    return texts(created(definition_of("pods").strategy, made, context())[1])


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
