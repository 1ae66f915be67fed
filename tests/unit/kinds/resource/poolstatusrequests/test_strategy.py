"""Questions about pools as they are written: once, and answered once."""

from __future__ import annotations

from typing import Any

import pytest

from cathedra.api.core.resource_v1alpha3 import ResourcePoolStatusRequest
from cathedra.api.struct import from_dict
from tests.unit.kinds.objects import context, created, definition_of, updated

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
