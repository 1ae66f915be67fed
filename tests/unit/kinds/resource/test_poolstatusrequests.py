"""Questions about pools as they are written: once, and answered once."""

from __future__ import annotations

from typing import Any

import pytest

from cathedra.api.core.resource_v1alpha3 import ResourcePoolStatusRequest, ResourcePoolStatusRequestStatus
from cathedra.api.struct import from_dict, replace
from cathedra.kinds.resource.poolstatusrequests import (
    validate_pool_status,
    validate_pool_status_request,
)
from tests.unit.kinds.objects import context, created, definition_of, gates, row, texts, updated

DEFINITION = definition_of("resourcepoolstatusrequests")
ANSWER = {"poolCount": 0}


def question(status: dict[str, Any] | None = None, **spec: Any) -> ResourcePoolStatusRequest:
    values: dict[str, Any] = {"metadata": {"name": "q"}, "spec": {"driver": "d", **spec}}
    if status is not None:
        values["status"] = status
    return from_dict(ResourcePoolStatusRequest, values)


def test_a_question_wants_a_hundred_pools_unless_it_says_how_many() -> None:
    assert created(DEFINITION.strategy, question(), context())[0].spec.limit == 100
    assert created(DEFINITION.strategy, question(limit=1), context())[0].spec.limit == 1


def test_a_question_is_asked_without_an_answer() -> None:
    assert created(DEFINITION.strategy, question(ANSWER), context())[0].status is None


def test_the_question_keeps_its_answer_and_the_answer_its_question() -> None:
    old, _ = created(DEFINITION.strategy, question(), context())
    answered, errors = updated(DEFINITION.subresources["status"], question(ANSWER, driver="other"), old, context())
    assert (errors, answered.spec, answered.status.pool_count) == ([], old.spec, 0)
    kept, errors = updated(DEFINITION.strategy, question(), answered, context())
    assert (errors, kept.status) == ([], answered.status)


@pytest.mark.parametrize(("opened", "kept"), [(True, "a/b"), (False, None)])
def test_the_attribute_of_partition_types_has_a_gate(opened: bool, kept: str | None) -> None:
    request = context(DRAPartitionableDevicesType=opened, DRAResourcePoolStatus=True)
    made = question(defaultPartitionTypeAttribute="a/b")
    assert created(DEFINITION.strategy, made, request)[0].spec.default_partition_type_attribute == kept
    assert updated(DEFINITION.strategy, made, made, request)[0].spec.default_partition_type_attribute == "a/b"


def test_no_write_of_a_question_is_unconditional() -> None:
    assert not DEFINITION.strategy.allow_unconditional_update
    assert not DEFINITION.subresources["status"].allow_unconditional_update


COUNTS = ("Total", "Available", "Allocated", "Unavailable", "Errors")


def shown(status: dict[str, Any] | None) -> dict[str, Any]:
    values: dict[str, Any] = {"metadata": {"name": "x"}, "spec": {"driver": "d"}}
    if status is not None:
        values["status"] = status
    return row("resourcepoolstatusrequests", from_dict(ResourcePoolStatusRequest, values))


def condition(type_: str, status: str = "True") -> dict[str, str]:
    return {"type": type_, "status": status, "lastTransitionTime": "2023-11-14T22:12:20Z"}


def test_until_there_is_an_answer_there_are_dashes() -> None:
    found = shown(None)
    assert [found[name] for name in COUNTS] == ["-"] * 5
    assert (found["Pools"], found["Status"], found["Completed"]) == (0, "Pending", "<none>")


def test_the_devices_of_all_pools_are_added_up() -> None:
    pool = {"totalDevices": 6, "availableDevices": 3, "allocatedDevices": 2, "unavailableDevices": 1}
    found = shown({"poolCount": 3, "pools": [pool, pool, {"validationError": "bad"}]})
    assert [found[name] for name in COUNTS] == ["12", "6", "4", "2", "1"]


@pytest.mark.parametrize(
    ("conditions", "count", "status"),
    [
        ([], 1, "Pending"),
        ([condition("Complete", "False")], 1, "Pending"),
        ([condition("Complete")], 1, "Complete"),
        ([condition("Complete")], 7, "Complete (1/7 pools)"),
        ([condition("Failed")], 7, "Failed"),
        ([condition("Other")], 1, "Pending"),
    ],
)
def test_an_answer_is_complete_or_failed_and_may_leave_pools_out(
    conditions: list[dict[str, str]], count: int, status: str
) -> None:
    found = shown({"poolCount": count, "pools": [{}], "conditions": conditions})
    assert (found["Status"], found["Pools"]) == (status, count)
    assert found["Completed"] == ("<none>" if status == "Pending" else "60s")


POOL = {"driver": "d", "poolName": "p", "generation": 1}


def question_of_validation(**spec: Any) -> ResourcePoolStatusRequest:
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
    begin(questioned(question_of_validation(**spec)), wanted)


def test_the_type_of_partitions_has_a_domain_and_a_gate() -> None:
    named = question_of_validation(defaultPartitionTypeAttribute="b")
    assert questioned(named) == ["spec.defaultPartitionTypeAttribute: Forbidden"]
    opened = gates(DRAPartitionableDevicesType=True, DRAResourcePoolStatus=True)
    begin(
        texts(validate_pool_status_request(named, None, opened)),
        ['spec.defaultPartitionTypeAttribute: Invalid value: "b": a fully qualified name'],
    )


def test_a_question_never_changes() -> None:
    assert questioned(question_of_validation(), question_of_validation()) == []
    assert questioned(question_of_validation(limit=2), question_of_validation()) == [
        "spec: Invalid value: null: field is immutable"
    ]


def answered(**status: Any) -> ResourcePoolStatusRequest:
    return replace(
        question_of_validation(), status=from_dict(ResourcePoolStatusRequestStatus, {"poolCount": 1, **status})
    )


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
    begin(answer(answered(**status), question_of_validation()), [f"status.{text}" for text in wanted])


def test_an_answer_counts_the_pools_found() -> None:
    uncounted = replace(question_of_validation(), status=ResourcePoolStatusRequestStatus())
    assert answer(uncounted, question_of_validation()) == ["status.poolCount: Required value"]


def test_an_answer_has_ten_conditions_at_most_each_type_once() -> None:
    def condition(type_: str) -> dict[str, str]:
        return {"type": type_, "status": "True", "reason": "R", "lastTransitionTime": "2026-01-01T00:00:00Z"}

    many = answered(conditions=[condition(f"C{n}") for n in range(11)])
    begin(answer(many, question_of_validation()), ["status.conditions: Too many: 11: must have at most 10"])
    twice = answered(conditions=[condition("C"), condition("C")])
    begin(
        answer(twice, question_of_validation(), "1.36"),
        ["status.conditions[1].type: Duplicate", "status.conditions[1]: Dup"],
    )
    begin(answer(twice, question_of_validation()), ["status.conditions[1]: Duplicate"])


def test_an_answer_that_was_given_stays() -> None:
    given = answered()
    assert answer(given, given) == []
    begin(answer(answered(poolCount=2), given), ["status: Invalid value: "])
    begin(answer(question_of_validation(), given), ["status: Invalid value: null: field is immutable"])
