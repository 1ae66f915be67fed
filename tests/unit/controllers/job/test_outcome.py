"""The end of a job, and its outcome."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cathedra.api.core.batch_v1 import Job, JobCondition, SuccessPolicy
from cathedra.api.core.core_v1 import Pod
from cathedra.api.struct import Time, from_dict, replace
from cathedra.controllers.job.outcome import (
    deadline_in,
    decide,
    entered,
    format_indexes,
    has_finished,
    parse_indexes,
    reached_completions,
    settled,
    tally,
    uncounted,
    with_condition,
)
from cathedra.controllers.job.pods import TRACKING
from tests.unit.controllers.job.objects import job


def pods(*phases: str) -> list[Pod]:
    return [
        from_dict(
            Pod,
            {"metadata": {"name": f"p{n}", "uid": f"p{n}", "finalizers": [TRACKING]}, "status": {"phase": phase}},
        )
        for n, phase in enumerate(phases)
    ]


def reason(made: Job, *phases: str, now: float = 0.0) -> str:
    there = pods(*phases)
    outcome = decide(made, tally(made, there, now), there, now)
    return outcome.reason if outcome is not None else ""


@pytest.mark.parametrize(("failed", "expected"), [(2, ""), (3, "BackoffLimitExceeded")])
def test_one_failure_more_than_the_limit_ends_the_job(failed: int, expected: str) -> None:
    assert reason(job(backoff_limit=2), *["Failed"] * failed) == expected


def test_the_deadline_is_counted_from_the_start_and_not_while_suspended() -> None:
    def started(**spec: Any) -> Job:
        made = job(active_deadline_seconds=60, **spec)
        return replace(made, status=replace(made.status, start_time=Time(100)))

    assert deadline_in(started(), 130.0) == 30.0
    assert deadline_in(started(), 160.0) == 0.0
    assert deadline_in(started(suspend=True), 500.0) is None
    assert deadline_in(job(), 500.0) is None
    assert reason(started(), "Running", now=160.0) == "DeadlineExceeded"


@pytest.mark.parametrize(
    ("completions", "phases", "expected"),
    [
        (2, ("Succeeded", "Succeeded"), True),
        (2, ("Succeeded", "Running"), False),
        (2, ("Succeeded", "Succeeded", "Running"), False),
        (None, ("Succeeded",), True),
        (None, ("Failed",), False),
        (0, (), True),
    ],
)
def test_a_job_is_complete_when_enough_have_succeeded_and_none_is_active(
    completions: int | None, phases: tuple[str, ...], expected: bool
) -> None:
    made = job(completions=completions)
    assert (reached_completions(made, tally(made, pods(*phases), 0.0)) is not None) is expected


def test_what_was_decided_stays_decided() -> None:
    made = job()
    status = with_condition(made.status, "FailureTarget", "True", "DeadlineExceeded", "late", 5.0)
    made = replace(made, status=status)
    assert reason(made, "Succeeded") == "DeadlineExceeded"
    assert not has_finished(made)


def test_a_condition_that_says_the_same_keeps_its_times() -> None:
    first = with_condition(job().status, "Complete", "True", "CompletionsReached", "", 5.0)
    again = with_condition(first, "Complete", "True", "CompletionsReached", "", 9.0)
    assert again == first
    assert isinstance(first.conditions[0], JobCondition)
    assert has_finished(replace(job(), status=first))


def test_what_fails_a_job_goes_before_what_lets_it_succeed_early() -> None:
    rules = {"rules": [{"succeededCount": 1}]}
    made = job(completion_mode="Indexed", completions=3, parallelism=3, backoff_limit=0)
    made = replace(made, spec=replace(made.spec, success_policy=from_dict(SuccessPolicy, rules)))
    there = indexed(Succeeded=0, Failed=1)
    assert outcome_of(made, there) == "BackoffLimitExceeded"
    lenient = replace(made, spec=replace(made.spec, backoff_limit=1))
    assert outcome_of(lenient, there) == "SuccessPolicy"


def test_failed_indexes_end_the_job_when_no_other_is_left() -> None:
    made = job(completion_mode="Indexed", completions=2, parallelism=2)
    made = replace(made, spec=replace(made.spec, backoff_limit_per_index=0, backoff_limit=9))
    assert outcome_of(made, indexed(Succeeded=0, Failed=1)) == "FailedIndexes"
    assert outcome_of(made, indexed(Running=0, Failed=1)) == ""


def indexed(**phases: int) -> list[Pod]:
    """A pod in each of the phases, with that index."""
    key = "batch.kubernetes.io/job-completion-index"
    return [
        from_dict(
            Pod,
            {
                "metadata": {"name": phase, "uid": phase, "finalizers": [TRACKING], "annotations": {key: str(index)}},
                "status": {"phase": phase},
            },
        )
        for phase, index in phases.items()
    ]


def outcome_of(made: Job, there: list[Pod]) -> str:
    outcome = decide(made, tally(made, there, 0.0), there, 0.0)
    return outcome.reason if outcome is not None else ""


# A job's pods are counted, each finished one exactly once.


def pod(name: str, phase: str, *, tracked: bool = True, **annotations: str) -> Pod:
    metadata: dict[str, Any] = {"name": name, "uid": name, "annotations": annotations}
    if tracked:
        metadata["finalizers"] = [TRACKING]
    return from_dict(Pod, {"metadata": metadata, "status": {"phase": phase}})


def test_active_ended_and_released_pods_are_told_apart() -> None:
    pods = [
        pod("a", "Running"),
        pod("b", "Pending"),
        pod("c", "Succeeded"),
        pod("d", "Failed"),
        pod("e", "Succeeded", tracked=False),
    ]
    counted = tally(job(completions=9), pods, 0.0)
    assert {one.metadata.name for one in counted.active} == {"a", "b"}
    assert (counted.succeeded, counted.failed) == (1, 1)
    assert [one.metadata.name for one in counted.newly_succeeded] == ["c"]
    assert [one.metadata.name for one in counted.newly_failed] == ["d"]


def test_a_pod_that_is_written_down_is_not_new_but_counts() -> None:
    made = job(completions=9)
    waiting = replace(uncounted(made), succeeded=("c",))
    made = replace(made, status=replace(made.status, succeeded=3, uncounted_terminated_pods=waiting))
    counted = tally(made, [pod("c", "Succeeded")], 0.0)
    assert counted.newly_succeeded == ()
    assert counted.succeeded == 4


@given(st.sets(st.sampled_from("abcdef")), st.sets(st.sampled_from("uvwxyz")), st.sets(st.sampled_from("abcuvw")))
def test_a_counter_rises_by_exactly_the_pods_whose_finalizer_is_gone(
    succeeded: set[str], failed: set[str], tracked: set[str]
) -> None:
    made = job()
    waiting = replace(uncounted(made), succeeded=tuple(sorted(succeeded)), failed=tuple(sorted(failed)))
    before = replace(made.status, uncounted_terminated_pods=waiting)
    after = settled(before, frozenset(tracked))
    assert after.succeeded == len(succeeded - tracked)
    assert after.failed == len(failed - tracked)
    left = after.uncounted_terminated_pods
    assert left is not None
    assert set(left.succeeded) == succeeded & tracked
    assert set(left.failed) == failed & tracked
    assert settled(after, frozenset(tracked)) == after, "a second time counts nothing"


def test_pods_beyond_the_completions_are_neither_counted_nor_kept_for_their_replacement() -> None:
    made = job(completion_mode="Indexed", completions=2, parallelism=2)
    made = replace(made, spec=replace(made.spec, backoff_limit_per_index=3))
    index = "batch.kubernetes.io/job-completion-index"
    pods = [
        pod("in", "Failed", **{index: "1"}),
        pod("out", "Failed", **{index: "2"}),
        pod("done", "Succeeded", **{index: "7"}),
        pod("none", "Failed"),
    ]
    counted = tally(made, pods, 0.0)
    assert (counted.succeeded, counted.failed) == (0, 1)
    assert [one.metadata.name for one in counted.newly_failed] == ["in"]
    assert counted.newly_succeeded == ()
    assert {number: one.metadata.name for number, one in counted.awaiting_replacement.items()} == {1: "in"}
    entry = entered(made, pods, counted, is_over=False, rest_fails=False)
    assert {one.metadata.name for one in entry.released} == {"out", "done", "none"}
    assert uncounted(replace(made, status=entry.status)).failed == ()


@given(st.frozensets(st.integers(0, 200)))
def test_the_short_form_of_indexes_is_lossless(indexes: frozenset[int]) -> None:
    assert parse_indexes(format_indexes(indexes), 201) == indexes


def test_the_short_form_of_indexes() -> None:
    assert format_indexes([0, 2, 3, 4, 7, 8]) == "0,2-4,7,8"
    assert format_indexes([]) == ""
