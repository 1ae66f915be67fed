"""Rules of questions about pools and of their answers."""

from __future__ import annotations

from typing import Any

import pytest

from cathedra.api.core.resource_v1alpha3 import ResourcePoolStatusRequest, ResourcePoolStatusRequestStatus
from cathedra.api.struct import from_dict, replace
from cathedra.kinds.resource.poolstatusrequests.validation import (
    validate_pool_status,
    validate_pool_status_request,
)
from tests.unit.kinds.objects import gates, texts

POOL = {"driver": "d", "poolName": "p", "generation": 1}


def question(**spec: Any) -> ResourcePoolStatusRequest:
    return from_dict(ResourcePoolStatusRequest, {"spec": {"driver": "d", "limit": 1, **spec}})


def questioned(new: ResourcePoolStatusRequest, old: ResourcePoolStatusRequest | None = None) -> list[str]:
    return texts(validate_pool_status_request(new, old, gates()))


def answer(new: ResourcePoolStatusRequest, old: ResourcePoolStatusRequest, release: str = "1.37") -> list[str]:
    return texts(validate_pool_status(new, old, gates(release)))


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
    begin(questioned(question(**spec)), wanted)


def test_the_type_of_partitions_has_a_domain_and_a_gate() -> None:
    named = question(defaultPartitionTypeAttribute="b")
    assert questioned(named) == ["spec.defaultPartitionTypeAttribute: Forbidden"]
    opened = gates(DRAPartitionableDevicesType=True, DRAResourcePoolStatus=True)
    begin(
        texts(validate_pool_status_request(named, None, opened)),
        ['spec.defaultPartitionTypeAttribute: Invalid value: "b": a fully qualified name'],
    )


def test_a_question_never_changes() -> None:
    assert questioned(question(), question()) == []
    assert questioned(question(limit=2), question()) == ["spec: Invalid value: null: field is immutable"]


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
        (
            {"pools": [{**POOL, "partitionSummary": [{"attribute": "a/b", "total": -1}]}, {**POOL, "driver": ""}]},
            [
                "pools[0].partitionSummary[0].type: Required value",
                "pools[0].partitionSummary[0].total: Invalid value: -1",
                "pools[0].partitionSummary[0].allocatable: Required value",
                "pools[1].driver: Required value",
            ],
        ),
        (
            {"pools": [{**POOL, "shareableSummary": {"fullyAvailableDevices": 0, "capacity": [{"name": "m"}]}}]},
            [
                "pools[0].shareableSummary.partiallyAvailableDevices: Required value",
                "pools[0].shareableSummary.capacity[0].total: Required value",
                "pools[0].shareableSummary.capacity[0].consumed: Required value",
                "pools[0].shareableSummary.capacity[0].available: Required value",
            ],
        ),
    ],
)
def test_an_answer_is_checked(status: dict[str, Any], wanted: list[str]) -> None:
    begin(answer(answered(**status), question()), [f"status.{text}" for text in wanted])


def test_an_answer_counts_the_pools_found() -> None:
    uncounted = replace(question(), status=ResourcePoolStatusRequestStatus())
    assert answer(uncounted, question()) == ["status.poolCount: Required value"]


def test_an_answer_has_ten_conditions_at_most_each_type_once() -> None:
    def condition(type_: str) -> dict[str, str]:
        return {"type": type_, "status": "True", "reason": "R", "lastTransitionTime": "2026-01-01T00:00:00Z"}

    many = answered(conditions=[condition(f"C{n}") for n in range(11)])
    begin(answer(many, question()), ["status.conditions: Too many: 11: must have at most 10"])
    twice = answered(conditions=[condition("C"), condition("C")])
    begin(
        answer(twice, question(), "1.36"),
        ["status.conditions[1].type: Duplicate", "status.conditions[1]: Dup"],
    )
    begin(answer(twice, question()), ["status.conditions[1].type: Duplicate"])


def test_an_answer_that_was_given_stays() -> None:
    given = answered()
    assert answer(given, given) == []
    begin(answer(answered(poolCount=2), given), ["status: Invalid value: "])
    begin(answer(question(), given), ["status: Invalid value: null: field is immutable"])
