"""A job's pods are counted, each finished one exactly once."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from cathedra.api.core.core_v1 import Pod
from cathedra.api.struct import from_dict, replace
from cathedra.controllers.job.pods import TRACKING
from cathedra.controllers.job.tally import entered, format_indexes, parse_indexes, settled, tally, uncounted
from tests.unit.controllers.job.objects import job


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
