"""What a job may state about the group of its pods."""

from __future__ import annotations

from typing import Any

import pytest

from cathedra.api.core import batch_v1
from cathedra.api.struct import from_dict
from cathedra.kinds.batch.jobs.scheduling import validate_job_scheduling
from cathedra.releases import FeatureGates

GATES = FeatureGates.for_release("1.37", {"GenericWorkload": True, "WorkloadWithJob": True})
GANG: dict[str, Any] = {"schedulingPolicy": {"gang": {"minCount": 2}}}


def job(scheduling: dict[str, Any] | None, parallelism: int = 2) -> batch_v1.Job:
    spec = {"parallelism": parallelism, "template": {}}
    return from_dict(batch_v1.Job, {"spec": spec if scheduling is None else {**spec, "scheduling": scheduling}})


def errors(scheduling: dict[str, Any] | None, old: dict[str, Any] | None = None, parallelism: int = 2) -> list[str]:
    before = job(old) if old is not None else None
    return [str(error) for error in validate_job_scheduling(job(scheduling, parallelism), before, GATES)]


@pytest.mark.parametrize(
    ("scheduling", "wanted"),
    [
        ({}, []),
        (GANG, []),
        ({"schedulingPolicy": {"gang": {}}}, []),
        ({"schedulingPolicy": {}}, ["spec.scheduling.schedulingPolicy"]),
        ({"schedulingPolicy": {"gang": {"minCount": 0}}}, ["spec.scheduling.schedulingPolicy.gang.minCount"]),
        ({"schedulingPolicy": {"gang": {"minCount": 3}}}, ["spec.scheduling.schedulingPolicy.gang.minCount"]),
        ({"schedulingPolicy": {"gang": {}, "basic": {}}}, ["spec.scheduling.schedulingPolicy"]),
        ({"resourceClaims": [{"name": "c"}]}, ["spec.scheduling.resourceClaims[0]"]),
        ({"schedulingConstraints": {"topology": [{}]}}, ["spec.scheduling.schedulingConstraints.topology[0].key"]),
    ],
)
def test_a_new_job_states_one_group(scheduling: dict[str, Any], wanted: list[str]) -> None:
    assert [text.partition(": ")[0] for text in errors(scheduling)] == wanted


@pytest.mark.parametrize(
    ("scheduling", "wanted"),
    [
        ({"schedulingPolicy": {"gang": {"minCount": 1}}}, 0),
        ({"schedulingPolicy": {"gang": {}}}, 0),
        ({"schedulingPolicy": {"basic": {}}}, 2),
        (None, 1),
        ({**GANG, "disruptionMode": {"all": {}}}, 1),
    ],
)
def test_only_the_size_of_a_gang_may_change(scheduling: dict[str, Any] | None, wanted: int) -> None:
    assert len(errors(scheduling, GANG)) == wanted


def test_parallelism_may_not_fall_below_the_gang() -> None:
    assert len(errors(GANG, GANG, parallelism=1)) == 1


def test_behind_a_closed_gate_nothing_is_checked() -> None:
    closed = FeatureGates.for_release("1.37")
    assert not validate_job_scheduling(job({"schedulingPolicy": {}}), None, closed)
