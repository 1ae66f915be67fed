"""What is remembered of allocations is what the rules find."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cathedra.api import resource
from cathedra.api.struct import from_dict, replace
from cathedra.kinds.resource.claims.allocations import allocation_form
from tests.unit.kinds.objects import claim, context, created, definition_of, texts

DEFINITION = definition_of("resourceclaims", "1.37")
CLAIM, _ = created(DEFINITION.strategy, claim(), context("1.37"))
RESULT = {"request": "r", "driver": "gpu.example.com", "pool": "p", "device": "d"}
POD = {"resource": "pods", "name": "p", "uid": "1"}
FIELD = {"key": "metadata.name", "operator": "In", "values": ["n"]}
NODE = {"nodeSelectorTerms": [{"matchFields": [FIELD]}]}
GONE = "2026-01-02T00:00:00Z"


def status(*results: dict[str, Any], config: Any = (), selector: Any = NODE, **more: Any) -> dict[str, Any]:
    allocation = {"devices": {"results": list(results), "config": list(config)}, "nodeSelector": selector}
    return {"allocation": allocation, "reservedFor": [POD], **more}


def with_status(values: dict[str, Any], ends: str | None = None) -> resource.ResourceClaim:
    metadata = from_dict(type(CLAIM.metadata), {"name": "a", "deletionTimestamp": ends})
    return replace(CLAIM, metadata=metadata, status=from_dict(resource.ResourceClaimStatus, values))


WARM = context("1.37")


def found(new: resource.ResourceClaim, old: resource.ResourceClaim, *, is_warm: bool) -> list[str]:
    return texts(DEFINITION.subresources["status"].validate_update(new, old, WARM if is_warm else context("1.37")))


def one_of(*values: Any) -> st.SearchStrategy[Any]:
    return st.sampled_from(values)


TOLERATION = {"key": "a", "operator": "Exists"}
results = st.fixed_dictionaries(
    {
        "request": one_of("r", "z"),
        "driver": st.just("gpu.example.com"),
        "pool": one_of("p", "p/q", "p//q"),
        "device": one_of("d", "e", "D"),
    },
    optional={
        "adminAccess": one_of(True, False),
        "tolerations": one_of([TOLERATION], [{**TOLERATION, "operator": "Is"}]),
        "bindingConditions": one_of(["a"], ["a", "a"]),
        "shareID": one_of("5b9b9b0e-8f4c-4c55-9f5d-1b7f5a9b0c11", "x"),
        "skipNodeOperations": one_of(["*"], ["NodePrepareResources"]),
    },
)
statuses = st.builds(
    lambda given, more: status(*given, **more),
    st.lists(results, min_size=1, max_size=2),
    st.fixed_dictionaries(
        {},
        optional={
            "reservedFor": one_of([], [POD], [POD, POD], [{**POD, "uid": ""}]),
            "devices": one_of([], [{"driver": "gpu.example.com", "pool": "p", "device": "d"}]),
            "selector": one_of(None, NODE, {"nodeSelectorTerms": []}),
            "config": one_of([], [{"source": "FromNowhere"}]),
        },
    ),
)


@given(st.lists(statuses, min_size=1, max_size=4), one_of(None, GONE), one_of({}, status(RESULT)))
def test_the_rules_find_the_same_whatever_was_found_before(
    given_: list[dict[str, Any]], ends: str | None, before: dict[str, Any]
) -> None:
    old = with_status(before, ends)
    for values in given_:
        new = with_status(values, ends)
        assert found(new, old, is_warm=True) == found(new, old, is_warm=False)


def test_allocations_of_one_request_have_one_form() -> None:
    def form(pool: str, device: str, uid: str, **more: Any) -> Any:
        new = with_status(status({**RESULT, "pool": pool, "device": device}, reservedFor=[{**POD, "uid": uid}], **more))
        return allocation_form(new, CLAIM, "resource.k8s.io/v1")

    assert form("p", "d", "1") == form("q", "e", "2", selector=None) is not None


@pytest.mark.parametrize(
    "values",
    [
        {},
        status({**RESULT, "adminAccess": True}),
        status({**RESULT, "device": "D"}),
        status({**RESULT, "pool": "p/q"}),
        status(RESULT, selector={"nodeSelectorTerms": []}),
        status(RESULT, config=[{"source": "FromClaim"}]),
        status(RESULT, reservedFor=[POD, {**POD, "uid": "2"}]),
        status(RESULT, reservedFor=[{**POD, "name": ""}]),
        status(RESULT, devices=[{"driver": "gpu.example.com", "pool": "p", "device": "d"}]),
        status(*[{**RESULT, "device": f"d{number}"} for number in range(9)]),
    ],
)
def test_what_says_more_than_that_has_no_form(values: dict[str, Any]) -> None:
    assert allocation_form(with_status(values), CLAIM, "resource.k8s.io/v1") is None


def test_a_claim_that_has_an_allocation_or_ends_has_no_form() -> None:
    new = with_status(status(RESULT))
    assert allocation_form(new, with_status(status(RESULT)), "resource.k8s.io/v1") is None
    assert allocation_form(with_status(status(RESULT), GONE), CLAIM, "resource.k8s.io/v1") is None


def test_a_large_selector_is_looked_at_each_time() -> None:
    large = {"nodeSelectorTerms": [{"matchFields": [{**FIELD, "values": [f"n{number}"]}]} for number in range(9)]}
    forms = [allocation_form(with_status(status(RESULT, selector=one)), CLAIM, "v") for one in (NODE, large, large)]
    assert forms[0] == forms[1] == forms[2] is not None
