"""Defaults of jobs."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cathedra.api.core.batch_v1 import Job, JobSpec
from cathedra.api.struct import from_dict
from cathedra.kinds.batch.jobs.defaults import default_job, default_job_spec

TEMPLATE = {"metadata": {"labels": {"a": "b"}}, "spec": {"restartPolicy": "Never"}}


def filled(**spec: Any) -> JobSpec:
    return default_job_spec(from_dict(JobSpec, {"template": TEMPLATE, **spec}))


@pytest.mark.parametrize(
    ("written", "completions", "parallelism"),
    [
        ({}, 1, 1),
        ({"completions": 4}, 4, 1),
        ({"parallelism": 3}, None, 3),
        ({"parallelism": 0}, None, 0),
        ({"completions": 2, "parallelism": 2}, 2, 2),
    ],
)
def test_a_job_ends_after_one_pod_unless_it_says_how_many_at_once(
    written: dict[str, int], completions: int | None, parallelism: int
) -> None:
    """A parallelism without completions makes a work queue: any pod that succeeds ends the job."""
    spec = filled(**written)
    assert (spec.completions, spec.parallelism) == (completions, parallelism)


@pytest.mark.parametrize(
    ("written", "limit"), [({}, 6), ({"backoffLimitPerIndex": 1}, 2**31 - 1), ({"backoffLimit": 0}, 0)]
)
def test_a_job_fails_after_six_retries_unless_each_index_has_a_limit_of_its_own(
    written: dict[str, int], limit: int
) -> None:
    assert filled(**written).backoff_limit == limit


@pytest.mark.parametrize(
    ("written", "policy"),
    [
        ({}, "TerminatingOrFailed"),
        ({"podFailurePolicy": {"rules": []}}, "Failed"),
        ({"podReplacementPolicy": "Failed"}, "Failed"),
    ],
)
def test_pods_are_replaced_once_they_end_unless_a_policy_must_see_how_they_failed(
    written: dict[str, Any], policy: str
) -> None:
    assert filled(**written).pod_replacement_policy == policy


def test_a_job_runs_at_once_counts_pods_and_chooses_its_own_selector() -> None:
    spec = filled()
    assert (spec.suspend, spec.completion_mode, spec.manual_selector) == (False, "NonIndexed", False)


def test_a_job_without_labels_takes_those_of_its_template() -> None:
    assert default_job(from_dict(Job, {"spec": {"template": TEMPLATE}})).metadata.labels == {"a": "b"}


maybe = st.none() | st.integers(0, 3)


@given(maybe, maybe, maybe, st.booleans())
def test_defaults_are_filled_in_once(
    completions: int | None, parallelism: int | None, backoff: int | None, suspend: bool
) -> None:
    written = {"completions": completions, "parallelism": parallelism, "backoffLimit": backoff, "suspend": suspend}
    once = filled(**{name: value for name, value in written.items() if value is not None})
    assert default_job_spec(once) == once
    assert once.suspend is suspend
