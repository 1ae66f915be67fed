"""Reviews judged by the models with which the driver prepares."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cathedra.driver.webhook.review import BadReview, judge

DRIVER = "lamp.example.com"


@dataclass
class LampConfig:
    """How a lamp shines."""

    colour: str = "white"
    level: int = 100

    def __post_init__(self) -> None:
        if not 0 <= self.level <= 100:
            raise ValueError("level must be between 0 and 100")


MODELS = {("lamp.example.com/v1", "LampConfig"): LampConfig}


def parameters(**fields: Any) -> dict[str, Any]:
    return {"apiVersion": "lamp.example.com/v1", "kind": "LampConfig", **fields}


def judged(*given_parameters: Any, resource: str = "resourceclaims", driver: str = DRIVER) -> dict[str, Any]:
    """The response about an object with these parameters."""
    config = [{"opaque": {"driver": driver, "parameters": one}} for one in given_parameters]
    spec: dict[str, Any] = {"devices": {"config": config}}
    if resource == "resourceclaimtemplates":
        spec = {"metadata": {}, "spec": spec}
    request = {"uid": "u1", "resource": {"group": "resource.k8s.io", "resource": resource}, "object": {"spec": spec}}
    answer = judge(review(request), DRIVER, MODELS)
    assert answer["response"].pop("uid") == "u1"
    response: dict[str, Any] = answer["response"]
    return response


def review(request: Any) -> bytes:
    return json.dumps({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}).encode()


@pytest.mark.parametrize("resource", ["resourceclaims", "resourceclaimtemplates"])
def test_parameters_that_can_be_prepared_are_let_through(resource: str) -> None:
    assert judged(parameters(colour="red"), parameters(level=3), resource=resource) == {"allowed": True}


@pytest.mark.parametrize(("resource", "place"), [("resourceclaims", "spec"), ("resourceclaimtemplates", "spec.spec")])
def test_each_fault_is_told_with_its_place(resource: str, place: str) -> None:
    response = judged(parameters(), parameters(color="red"), parameters(level=101), "text", resource=resource)
    where = [f"{place}.devices.config[{i}].opaque.parameters" for i in range(4)]
    assert response == {
        "allowed": False,
        "status": {
            "message": "3 configs failed to validate: "
            f'{where[1]}: unknown field "color"; LampConfig has colour, level; '
            f"{where[2]}: level must be between 0 and 100; {where[3]}: a JSON object is expected, found 'text'",
            "reason": "Invalid",
            "code": 422,
        },
    }


def test_parameters_for_other_drivers_are_not_looked_at() -> None:
    assert judged("anything", driver="other.example.com") == {"allowed": True}


def test_a_deleted_object_is_none_of_its_business() -> None:
    request = {"uid": "u1", "resource": {"resource": "resourceclaims"}, "object": None}
    assert judge(review(request), DRIVER, MODELS)["response"]["allowed"]


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"{", "the body is no AdmissionReview"),
        (b"[" * 100_000, "the body is no AdmissionReview"),
        (b'{"apiVersion": "v1", "kind": "Pod", "request": {"uid": "", "resource": {}}}', "found v1 Pod"),
        (review({"uid": "", "resource": {"resource": "pods"}}), "pods have no parameters"),
    ],
    ids=["no JSON", "deep", "another kind", "another resource"],
)
def test_what_is_no_review_of_claims_is_refused(body: bytes, said: str) -> None:
    with pytest.raises(BadReview, match=said):
        judge(body, DRIVER, MODELS)


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.dictionaries(st.text(), inner) | st.lists(inner),
)


@given(ANYTHING)
def test_whatever_the_parameters_are_there_is_an_answer(value: Any) -> None:
    assert judged(value)["allowed"] is False


@pytest.mark.parametrize(
    "spec", [None, {"devices": None}, {"devices": {"config": None}}, {"devices": {"config": [None, {"opaque": None}]}}]
)
def test_a_claim_that_go_writes_with_nulls_has_no_parameters(spec: Any) -> None:
    resource = {"group": "resource.k8s.io", "resource": "resourceclaims"}
    request = {"uid": "u1", "resource": resource, "object": {"spec": spec}, "oldObject": None, "options": None}
    assert judge(review(request), DRIVER, MODELS)["response"] == {"uid": "u1", "allowed": True}
