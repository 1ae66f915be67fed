"""Preferred constraints: the annotation, and whether an allocation satisfies them."""

from __future__ import annotations

import pytest

from cathedra.api.resource import AllocationResult, Device, DeviceRequestAllocationResult, ResourceClaim
from cathedra.api.struct import from_dict
from cathedra.semantics.preferredconstraints import (
    PREFERRED,
    constraint_text,
    holds,
    preferences_of,
    with_constraints,
)

NUMA = '[{"requests": ["gpu", "nic"], "matchAttribute": "example.com/numa"}]'


def claim(annotation: str = NUMA) -> ResourceClaim:
    requests = [{"name": name, "exactly": {"deviceClassName": name}} for name in ("gpu", "nic")]
    requests.append({"name": "any", "firstAvailable": [{"name": "big", "deviceClassName": "gpu"}]})
    return from_dict(
        ResourceClaim,
        {
            "metadata": {"name": "c", "annotations": {PREFERRED: annotation} if annotation else {}},
            "spec": {"devices": {"requests": requests}},
        },
    )


def test_the_annotation_has_the_form_of_the_api() -> None:
    (found,) = preferences_of(claim()).constraints
    assert found.requests == ("gpu", "nic")
    assert found.match_attribute == "example.com/numa"
    assert constraint_text(found) == "the same example.com/numa for gpu and nic"
    assert with_constraints(claim(), (found,)).spec.devices.constraints == (found,)


def test_a_claim_without_the_annotation_prefers_nothing() -> None:
    found = preferences_of(claim(""))
    assert (found.constraints, found.problem) == ((), "")


@pytest.mark.parametrize(
    ("annotation", "problem"),
    [
        ("{", "is not a JSON list of constraints"),
        ("[" * 100_000, "is not a JSON list of constraints"),
        ('[{"match": "a/b"}]', "unknown field `match`"),
        ("[{}]", "[0] must have one of matchAttribute and distinctAttribute"),
        ('[{"matchAttribute": "a/b", "distinctAttribute": "a/b"}]', "must have one of"),
        ('[{"matchAttribute": "numa"}]', "'numa' must be a qualified name"),
        ('[{"matchAttribute": "a/b", "requests": ["x"]}]', "the claim has no request 'x'"),
        ("[" + ",".join(['{"matchAttribute": "a/b"}'] * 9) + "]", "has 9 constraints, and may have 8"),
    ],
)
def test_an_annotation_that_cannot_be_used_counts_as_none_and_says_why(annotation: str, problem: str) -> None:
    found = preferences_of(claim(annotation))
    assert found.constraints == ()
    assert problem in found.problem


def test_requests_and_alternatives_can_be_named() -> None:
    text = '[{"distinctAttribute": "a/b", "requests": ["any", "any/big"]}]'
    (found,) = preferences_of(claim(text)).constraints
    assert constraint_text(found) == "different a/b for any and any/big"


@pytest.mark.parametrize(
    ("kind", "values", "expected"),
    [
        ("matchAttribute", ({"string": "x"}, {"string": "x"}), True),
        ("matchAttribute", ({"string": "x"}, {"string": "y"}), False),
        ("matchAttribute", ({"string": "1"}, {"int": 1}), False),
        ("matchAttribute", ({"int": 1}, {"bool": True}), False),
        ("matchAttribute", ({"string": "x"}, {}), False),
        ("matchAttribute", ({"strings": ["x", "y"]}, {"strings": ["y", "z"]}), True),
        ("matchAttribute", ({"strings": ["x", "y"]}, {"string": "y"}), True),
        ("distinctAttribute", ({"string": "x"}, {"string": "y"}), True),
        ("distinctAttribute", ({"string": "x"}, {"string": "x"}), False),
        ("distinctAttribute", ({"strings": ["x", "y"]}, {"strings": ["y", "z"]}), False),
    ],
)
def test_whether_a_constraint_holds(kind: str, values: tuple[dict[str, object], ...], expected: bool) -> None:
    (constraint,) = preferences_of(claim(f'[{{"{kind}": "example.com/numa", "requests": ["gpu"]}}]')).constraints
    devices = {
        f"d{number}": from_dict(Device, {"name": f"d{number}", "attributes": {"numa": value} if value else {}})
        for number, value in enumerate(values)
    }
    results = [{"request": "gpu", "driver": "example.com", "pool": "p", "device": name} for name in devices]
    results.append({"request": "other", "driver": "example.com", "pool": "p", "device": "gone"})
    allocation = from_dict(AllocationResult, {"devices": {"results": results}})

    def device_of(result: DeviceRequestAllocationResult) -> Device | None:
        return devices.get(result.device)

    assert holds(constraint, allocation, device_of) is expected


def test_a_device_that_nobody_publishes_any_more_satisfies_nothing() -> None:
    (constraint,) = preferences_of(claim()).constraints
    results = [{"request": "gpu", "driver": "example.com", "pool": "p", "device": "gone"}]
    allocation = from_dict(AllocationResult, {"devices": {"results": results}})
    assert not holds(constraint, allocation, lambda result: None)
