"""Invariants: each is broken by the smallest history that contradicts it, and by no other."""

from __future__ import annotations

import pytest

from cathedra.api.scheme import GroupResource
from cathedra.api.status import conflict
from cathedra.client.resources import RESOURCECLAIMS
from cathedra.client.transport import APICall
from cathedra.faultsim.invariant import BrokenInvariant
from cathedra.faultsim.invariants import (
    DevicesAreHeldOnce,
    FinishedClaimsAreFreed,
    GangsStartWhole,
    JobsCountRight,
    ReservationsNamePods,
    WritesPause,
)
from tests.unit.faultsim.builders import Story, claim, job, pod

MINUTE = 60.0


def test_a_device_of_two_claims_is_found_at_the_second_write() -> None:
    story = Story()
    check = DevicesAreHeldOnce(story.chronicle)
    story.write("resourceclaims", "a", claim(device="gpu-0"), check)
    story.write("resourceclaims", "a", claim(), check)
    story.write("resourceclaims", "b", claim(device="gpu-0"), check)
    with pytest.raises(BrokenInvariant, match="d/p/gpu-0 is held by"):
        story.write("resourceclaims", "a", claim(device="gpu-0"), check)


def test_a_claim_without_users_is_found_after_ten_minutes_without_a_fault() -> None:
    story = Story()
    check = FinishedClaimsAreFreed(story.chronicle)
    story.write("pods", "p", pod(node="n"), check)
    story.write("resourceclaims", "a", claim(device="gpu-0", users=("p",)), check)
    story.now += 20 * MINUTE
    story.write("pods", "p", pod(node="n", phase="Succeeded"), check)
    story.now += 9 * MINUTE
    story.write("pods", "q", pod(), check)
    with story.chronicle.disturbed():
        story.now += 9 * MINUTE
        story.write("pods", "r", pod(), check)
    story.now += 11 * MINUTE
    with pytest.raises(BrokenInvariant, match="has no users and is still allocated"):
        story.write("pods", "s", pod(), check)


def test_a_claim_that_is_freed_in_time_is_right() -> None:
    story = Story()
    check = FinishedClaimsAreFreed(story.chronicle)
    story.write("resourceclaims", "a", claim(device="gpu-0"), check)
    story.now += 9 * MINUTE
    story.write("resourceclaims", "a", claim(), check)
    story.now += 20 * MINUTE
    story.write("pods", "q", pod(), check)


@pytest.mark.parametrize("fault", [False, True])
def test_a_gang_is_below_its_minimum_for_a_minute_at_most_unless_it_met_a_fault(fault: bool) -> None:
    story = Story()
    check = GangsStartWhole(story.chronicle)
    story.write("podgroups", "g", {"spec": {"schedulingPolicy": {"gang": {"minCount": 2}}}}, check)
    for name in ("one", "two"):
        story.write("pods", name, pod(group="g"), check)
    story.write("pods", "one", pod(node="n", group="g"), check)
    if fault:
        with story.chronicle.disturbed():
            story.now += 1
    story.now += 2 * MINUTE
    if fault:
        story.write("pods", "other", pod(), check)
        return
    with pytest.raises(BrokenInvariant, match="1 of 2 members of gang"):
        story.write("pods", "other", pod(), check)


def test_a_gang_whose_devices_a_rival_took_may_stay_below_its_minimum() -> None:
    story = Story()
    check = GangsStartWhole(story.chronicle)
    story.write("podgroups", "g", {"spec": {"schedulingPolicy": {"gang": {"minCount": 2}}}}, check)
    for name in ("one", "two"):
        story.write("pods", name, pod(group="g"), check)
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "two", "uid": "uid-two", "controller": True}
    story.write("resourceclaims", "c", {**claim(), "metadata": {"ownerReferences": [owner]}}, check)
    story.write("pods", "one", pod(node="n", group="g"), check)
    call = APICall("update", RESOURCECLAIMS, "default", "c", "status")
    check.refused(call, conflict(GroupResource("resource.k8s.io", "resourceclaims"), "c", "it is taken"))
    story.now += 2 * MINUTE
    story.write("pods", "other", pod(), check)
    check.settled()


def test_a_gang_that_is_complete_in_time_is_right() -> None:
    story = Story()
    check = GangsStartWhole(story.chronicle)
    story.write("podgroups", "g", {"spec": {"schedulingPolicy": {"gang": {"minCount": 2}}}}, check)
    for node in ("", "n"):
        for name in ("one", "two"):
            story.write("pods", name, pod(node=node, group="g"), check)
    story.now += 5 * MINUTE
    story.write("pods", "other", pod(), check)
    check.settled()


def test_a_reservation_for_a_pod_that_never_was_is_found() -> None:
    story = Story()
    with pytest.raises(BrokenInvariant, match="which never was"):
        story.write("resourceclaims", "a", claim(users=("p",)), ReservationsNamePods(story.chronicle))


def test_an_object_that_is_written_again_and_again_is_found() -> None:
    story = Story()
    check = WritesPause(story.chronicle)
    for seconds in (*[1.0] * 400, *[0.01] * 140):
        story.now += seconds
        story.write("pods", "p", pod(), check)
    with pytest.raises(BrokenInvariant, match="has been written 200 times"):
        _write_often(story, check)


def _write_often(story: Story, check: WritesPause) -> None:
    for _ in range(201):
        story.write("pods", "p", pod(), check)


def test_the_claim_of_a_pod_that_waits_for_its_gang_may_stay_allocated() -> None:
    story = Story()
    check = FinishedClaimsAreFreed(story.chronicle)
    member = pod(group="g")
    member["status"] = {"resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": "a"}]}
    member["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimTemplateName": "t"}]
    story.write("pods", "p", member, check)
    story.write("resourceclaims", "a", claim(device="gpu-0"), check)
    story.now += 20 * MINUTE
    story.write("pods", "q", pod(), check)
    check.settled()
    story.write("pods", "p", None, check)
    story.now += 20 * MINUTE
    with pytest.raises(BrokenInvariant, match="has no users and is still allocated"):
        story.write("pods", "q", pod(), check)


@pytest.mark.parametrize(("succeeded", "complete"), [(3, False), (1, True)])
def test_a_job_that_counts_wrong_is_found(succeeded: int, complete: bool) -> None:
    story = Story()
    check = JobsCountRight(story.chronicle)
    story.write("jobs", "j", job(succeeded=1), check)
    story.write("jobs", "j", job(succeeded=2, complete=True), check)
    with pytest.raises(BrokenInvariant, match=f"wants 2 successes and has {succeeded}"):
        story.write("jobs", "j", job(succeeded=succeeded, complete=complete), check)
