"""Rules of questions about pools and of their answers."""

from __future__ import annotations

from typing import Any

import pytest

from cathedra.api.core.resource_v1alpha3 import ResourcePoolStatusRequest, ResourcePoolStatusRequestStatus
from cathedra.api.struct import from_dict, replace
from cathedra.kinds.resource.poolstatusrequests.validation import (
    validate_pool_status,
    validate_pool_status_request,
    validate_pool_status_request_update,
)
from tests.unit.kinds.objects import texts

POOL = {"driver": "d", "poolName": "p", "generation": 1}


def question(**spec: Any) -> ResourcePoolStatusRequest:
    return from_dict(ResourcePoolStatusRequest, {"spec": {"driver": "d", "limit": 1, **spec}})


def begin(found: list[str], wanted: list[str]) -> None:
    assert len(found) == len(wanted), found
    assert all(text.startswith(beginning) for text, beginning in zip(found, wanted, strict=True)), found


@pytest.mark.parametrize(
    ("spec", "wanted"),
    [
        ({"driver": "GPU.example.com"}, []),
        ({"driver": ""}, ["spec.driver: Required value"]),
        ({"driver": "a_b"}, ['spec.driver: Invalid value: "a_b"']),
        ({"poolName": "a/b.c"}, []),
        ({"poolName": "a//b"}, ['spec.poolName: Invalid value: "a//b": segment 1: must not be empty']),
        ({"poolName": "a/B"}, ['spec.poolName: Invalid value: "B": segment 1: ']),
        ({"poolName": "/".join(["a" * 120] * 3)}, ["spec.poolName: Too long: may not be more than 253 bytes"]),
        ({"limit": 1000}, []),
        ({"limit": 0}, ["spec.limit: Invalid value: 0: must be greater than or equal to 1"]),
        ({"limit": 1001}, ["spec.limit: Invalid value: 1001: must be less than or equal to 1000"]),
    ],
)
def test_a_question_is_checked(spec: dict[str, Any], wanted: list[str]) -> None:
    begin(texts(validate_pool_status_request(question(**spec))), wanted)


def test_a_question_says_how_many_pools_it_wants() -> None:
    unlimited = from_dict(ResourcePoolStatusRequest, {"spec": {"driver": "d"}})
    assert texts(validate_pool_status_request(unlimited)) == ["spec.limit: Required value"]


def test_a_question_never_changes() -> None:
    assert validate_pool_status_request_update(question(), question()) == []
    assert texts(validate_pool_status_request_update(question(limit=2), question())) == [
        "spec: Invalid value: null: field is immutable"
    ]


def answered(**status: Any) -> ResourcePoolStatusRequest:
    return replace(question(), status=from_dict(ResourcePoolStatusRequestStatus, {"poolCount": 1, **status}))


@pytest.mark.parametrize(
    ("status", "wanted"),
    [
        ({"pools": [POOL]}, []),
        ({"poolCount": -1}, ["poolCount: Invalid value: -1: must be greater than or equal to 0"]),
        ({"pools": [POOL] * 1001}, ["pools: Too many: 1001: must have at most 1000 items"]),
        ({"pools": [{**POOL, "driver": ""}]}, ["pools[0].driver: Required value"]),
        ({"pools": [{**POOL, "poolName": ""}]}, ["pools[0].poolName: Required value"]),
        ({"pools": [{**POOL, "generation": 0}]}, ["pools[0].generation: Required value"]),
        ({"pools": [{**POOL, "generation": -1}]}, ["pools[0].generation: Invalid value: -1"]),
        ({"pools": [{**POOL, "resourceSliceCount": 0}]}, ["pools[0].resourceSliceCount: Invalid value: 0"]),
        ({"pools": [{**POOL, "totalDevices": -1}]}, ["pools[0].totalDevices: Invalid value: -1"]),
        ({"pools": [{**POOL, "allocatedDevices": -1}]}, ["pools[0].allocatedDevices: Invalid value: -1"]),
        ({"pools": [{**POOL, "availableDevices": -1}]}, ["pools[0].availableDevices: Invalid value: -1"]),
        ({"pools": [{**POOL, "unavailableDevices": -1}]}, ["pools[0].unavailableDevices: Invalid value: -1"]),
        ({"pools": [{**POOL, "nodeName": "A"}]}, ['pools[0].nodeName: Invalid value: "A"']),
        ({"pools": [{**POOL, "validationError": "x" * 257}]}, ["pools[0].validationError: Too long: may not be"]),
        (
            {"pools": [{**POOL, "partitionSummary": [{"attribute": "a/b", "type": str(n)} for n in range(33)]}]},
            ["pools[0].partitionSummary: Too many: 33: must have at most 32 items"],
        ),
    ],
)
def test_an_answer_is_checked(status: dict[str, Any], wanted: list[str]) -> None:
    begin(texts(validate_pool_status(answered(**status), question())), [f"status.{text}" for text in wanted])


def test_an_answer_counts_the_pools_found() -> None:
    uncounted = replace(question(), status=ResourcePoolStatusRequestStatus())
    assert texts(validate_pool_status(uncounted, question())) == ["status.poolCount: Required value"]


def test_an_answer_has_ten_conditions_at_most_each_type_once() -> None:
    def condition(type_: str) -> dict[str, str]:
        return {"type": type_, "status": "True", "reason": "R", "lastTransitionTime": "2026-01-01T00:00:00Z"}

    many = answered(conditions=[condition(f"C{n}") for n in range(11)])
    begin(texts(validate_pool_status(many, question())), ["status.conditions: Too many: 11: must have at most 10"])
    twice = answered(conditions=[condition("C"), condition("C")])
    begin(
        texts(validate_pool_status(twice, question())),
        ["status.conditions[1].type: Duplicate", "status.conditions[1]: Dup"],
    )


def test_an_answer_that_was_given_stays() -> None:
    given = answered()
    assert validate_pool_status(given, given) == []
    begin(texts(validate_pool_status(answered(poolCount=2), given)), ["status: Invalid value: "])
    begin(texts(validate_pool_status(question(), given)), ["status: Invalid value: null: field is immutable"])
