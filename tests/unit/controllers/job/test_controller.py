"""Jobs run to completion, and every pod is counted once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from cathedra.api.core.batch_v1 import (
    PodFailurePolicy,
    PodFailurePolicyOnExitCodesRequirement,
    PodFailurePolicyRule,
    SuccessPolicy,
    SuccessPolicyRule,
    UncountedTerminatedPods,
)
from cathedra.api.core.core_v1 import (
    Binding,
    Container,
    Namespace,
    ObjectReference,
    Pod,
    PodCondition,
    PodSpec,
)
from cathedra.api.core.meta_v1 import LabelSelector, ObjectMeta
from cathedra.api.struct import replace
from cathedra.client.objects import with_metadata
from cathedra.client.resources import JOBS, NAMESPACES, PODS
from cathedra.controllers.job.controller import JobController
from cathedra.releases import FeatureGates
from tests.running import run_with
from tests.unit.controllers.job.objects import active, end, job
from tests.unit.controllers.world import World, play
from tests.unit.spoiled import SPOILED, SpoiledTransport


async def status(world: World, name: str = "j") -> Any:
    return (await world.of(JOBS).get(name)).status


async def first_active(world: World) -> str:
    """The next pod that is active, as soon as there is one."""
    for _ in range(1000):
        if running := await active(world):
            return running[0]
        await asyncio.sleep(0.5)
    raise AssertionError("no pod became active")


def conditions(status: Any) -> dict[str, tuple[str, str, str]]:
    return {c.type: (c.status, c.reason, c.message) for c in status.conditions}


@run_with(lambda test: play(JobController, test))
async def test_ten_completions_two_at_a_time(world: World) -> None:
    await world.create(JOBS, job(completions=10, parallelism=2))
    most = 0
    for _ in range(10):
        await world.quiet()
        running = await active(world)
        most = max(most, len(running))
        await end(world, running[0])
    await world.quiet()
    after = await status(world)
    assert most == 2
    assert (after.succeeded, after.failed, after.active, after.ready, after.terminating) == (10, 0, 0, 0, 0)
    assert after.uncounted_terminated_pods == UncountedTerminatedPods()
    assert after.completion_time is not None
    assert conditions(after) == {
        "SuccessCriteriaMet": ("True", "CompletionsReached", "Reached expected number of succeeded pods"),
        "Complete": ("True", "CompletionsReached", "Reached expected number of succeeded pods"),
    }
    pods = await world.list(PODS)
    assert len(pods) == 10
    assert all(pod.metadata.finalizers == () for pod in pods)
    told = await world.events()
    assert sum(reason == "SuccessfulCreate" for _, reason, _ in told) == 10
    assert ("Normal", "Completed", "Job completed") in told


@run_with(lambda test: play(JobController, test))
async def test_a_running_job_shows_its_pods(world: World) -> None:
    made = await world.create(JOBS, job())
    await world.quiet()
    now = await status(world)
    assert (now.active, now.ready, now.terminating) == (1, 0, 0)
    assert now.start_time is not None
    (pod,) = await world.list(PODS)
    assert pod.metadata.generate_name == "j-"
    assert pod.metadata.finalizers == ("batch.kubernetes.io/job-tracking",)
    (owner,) = pod.metadata.owner_references
    assert (owner.kind, owner.uid, owner.controller, owner.block_owner_deletion) == (
        "Job",
        made.metadata.uid,
        True,
        True,
    )


@run_with(lambda test: play(JobController, test))
async def test_failures_are_retried_with_growing_pauses_until_the_limit(world: World) -> None:
    await world.create(JOBS, job(backoff_limit=2))
    pauses = []
    for _ in range(3):
        started = world.clock.now()
        running = await first_active(world)
        pauses.append(world.clock.now() - started)
        await end(world, running, code=1)
    await world.clock.sleep(60)
    after = await status(world)
    assert pauses[1] == pytest.approx(10, abs=1)
    assert pauses[2] == pytest.approx(20, abs=1)
    assert after.failed == 3
    assert conditions(after) == {
        "FailureTarget": ("True", "BackoffLimitExceeded", "Job has reached the specified backoff limit"),
        "Failed": ("True", "BackoffLimitExceeded", "Job has reached the specified backoff limit"),
    }
    assert (
        "Warning",
        "BackoffLimitExceeded",
        "Job has reached the specified backoff limit",
    ) in await world.events()
    assert after.completion_time is None


@run_with(lambda test: play(JobController, test))
async def test_a_deleted_pod_is_replaced_after_a_pause_although_it_is_gone(world: World) -> None:
    await world.create(JOBS, job())
    gone = await first_active(world)
    await world.of(PODS).delete(gone, grace_period_seconds=0)
    await world.quiet()
    assert (await active(world), (await status(world)).failed) == ([], 1)
    await world.clock.sleep(10)
    assert len(await active(world)) == 1


async def bound(world: World) -> list[str]:
    """All pods of the world, with a node and ready; so they end gracefully when they are deleted."""
    for pod in await world.list(PODS):
        name = pod.metadata.name
        binding = Binding(metadata=ObjectMeta(name=name), target=ObjectReference(kind="Node", name="n"))
        await world.of(PODS).create_subresource(name, "binding", binding)
        await world.change(PODS, name, ready, status=True)
    return await world.names(PODS)


def ready(pod: Pod) -> Pod:
    condition = PodCondition(type="Ready", status="True")
    return replace(pod, status=replace(pod.status, phase="Running", conditions=(condition,)))


@run_with(lambda test: play(JobController, test))
async def test_running_pods_of_a_failed_job_count_as_failed_but_their_indexes_do_not(world: World) -> None:
    await world.create(
        JOBS,
        job(
            completions=3,
            parallelism=3,
            completion_mode="Indexed",
            backoff_limit_per_index=0,
            max_failed_indexes=0,
            backoff_limit=None,
        ),
    )
    await world.quiet()
    names = await bound(world)
    await end(world, names[0], code=1)
    await world.quiet()
    told = await status(world)
    assert conditions(told)["FailureTarget"][1] == "MaxFailedIndexesExceeded"
    assert (told.failed, told.failed_indexes, told.terminating) == (3, "0", 2)
    assert all("batch.kubernetes.io/job-tracking" not in p.metadata.finalizers for p in await world.list(PODS))


@run_with(lambda test: play(JobController, test))
async def test_running_pods_of_a_job_that_is_deleted_are_not_counted(world: World) -> None:
    await world.create(JOBS, job(parallelism=2, completions=2))
    await world.quiet()
    await bound(world)
    await world.of(JOBS).delete("j", propagation_policy="Foreground")
    await world.quiet()
    assert (await status(world)).failed == 0
    assert all("batch.kubernetes.io/job-tracking" not in p.metadata.finalizers for p in await world.list(PODS))


@run_with(lambda test: play(JobController, test))
async def test_while_other_pods_are_ready_nothing_is_counted_before_the_pause_is_over(world: World) -> None:
    await world.create(JOBS, job(parallelism=2, completions=2))
    await world.quiet()
    names = await bound(world)
    await world.quiet()
    await end(world, names[0], code=1)
    await world.clock.sleep(5)
    assert ((await status(world)).failed, (await status(world)).active) == (0, 2)
    await world.clock.sleep(7)
    assert ((await status(world)).failed, (await status(world)).active) == (1, 2)


@run_with(lambda test: play(JobController, test))
async def test_a_replacement_takes_over_the_failures_of_its_index(world: World) -> None:
    limits = {"backoff_limit_per_index": 3, "completion_mode": "Indexed", "backoff_limit": None}
    await world.create(JOBS, job(**limits))
    failed = await first_active(world)
    await end(world, failed, code=1)
    await world.quiet()
    assert "batch.kubernetes.io/job-tracking" in (await world.of(PODS).get(failed)).metadata.finalizers
    await world.quiet()
    replacement = await world.of(PODS).get(await first_active(world))
    assert replacement.metadata.annotations["batch.kubernetes.io/job-index-failure-count"] == "1"
    assert "batch.kubernetes.io/job-tracking" not in (await world.of(PODS).get(failed)).metadata.finalizers
    assert (await status(world)).failed == 1


@run_with(lambda test: play(JobController, test))
async def test_a_job_adopts_and_releases_pods_by_its_selector(world: World) -> None:
    selector = LabelSelector(match_labels={"job-name": "j"})
    orphan = ObjectMeta(name="orphan", namespace="default", labels={"job-name": "j"})
    spec = PodSpec(containers=(Container(name="c", image="i"),), restart_policy="Never")
    await world.create(PODS, Pod(metadata=orphan, spec=spec))
    await world.create(JOBS, job(manual_selector=True, selector=selector))
    await world.quiet()
    assert await active(world) == ["orphan"]
    adopted = await world.of(PODS).get("orphan")
    assert [owner.kind for owner in adopted.metadata.owner_references] == ["Job"]
    assert adopted.metadata.finalizers == ("batch.kubernetes.io/job-tracking",)
    await world.of(PODS).update(with_metadata(adopted, labels={}))
    await world.quiet()
    released = await world.of(PODS).get("orphan")
    assert (released.metadata.owner_references, released.metadata.finalizers) == ((), ())
    assert len(await active(world)) == 2


@run_with(lambda test: play((JobController, Reaper), test))
async def test_active_pods_of_a_failed_job_are_deleted_before_it_is_failed(world: World) -> None:
    await world.create(JOBS, job(backoff_limit=0, completions=3, parallelism=3))
    await world.quiet()
    await end(world, (await active(world))[0], code=1)
    await world.clock.sleep(90)
    after = await status(world)
    assert conditions(after)["Failed"][1] == "BackoffLimitExceeded"
    assert (after.active, after.terminating, after.failed) == (0, 0, 3)


@run_with(lambda test: play((JobController, Reaper), test))
async def test_suspending_takes_the_pods_away_uncounted_and_resuming_brings_new_ones(world: World) -> None:
    await world.create(JOBS, job(completions=2, parallelism=2))
    await world.quiet()
    await world.change(JOBS, "j", lambda j: replace(j, spec=replace(j.spec, suspend=True)))
    await world.clock.sleep(60)
    now = await status(world)
    assert (now.active, now.failed, now.start_time) == (0, 0, None)
    assert conditions(now)["Suspended"] == ("True", "JobSuspended", "Job suspended")
    await world.change(JOBS, "j", lambda j: replace(j, spec=replace(j.spec, suspend=False)))
    await world.quiet()
    now = await status(world)
    assert (now.active, now.start_time is not None) == (2, True)
    assert conditions(now)["Suspended"] == ("False", "JobResumed", "Job resumed")
    assert {"Suspended", "Resumed"} <= {reason for _, reason, _ in await world.events()}


@run_with(lambda test: play(JobController, test))
async def test_an_indexed_job_has_one_pod_per_index(world: World) -> None:
    await world.create(JOBS, job(completions=4, parallelism=4, completion_mode="Indexed"))
    await world.quiet()
    pods = {p.metadata.annotations["batch.kubernetes.io/job-completion-index"]: p for p in await world.list(PODS)}
    assert sorted(pods) == ["0", "1", "2", "3"]
    assert pods["2"].spec.hostname == "j-2"
    assert pods["2"].metadata.name.startswith("j-2-")
    assert pods["2"].metadata.labels["batch.kubernetes.io/job-completion-index"] == "2"
    variable = (pods["2"].spec.containers or ())[0].env[0]
    assert variable.name == "JOB_COMPLETION_INDEX"
    for index in ("0", "2", "3"):
        await end(world, pods[index].metadata.name)
    await end(world, pods["1"].metadata.name, code=1)
    await world.quiet()
    assert (await status(world)).completed_indexes == "0,2,3"
    await world.clock.sleep(20)
    (again,) = await active(world)
    await end(world, again)
    await world.quiet()
    after = await status(world)
    assert (after.completed_indexes, after.succeeded, after.failed) == ("0-3", 4, 1)
    assert conditions(after)["Complete"][0] == "True"


@run_with(lambda test: play(JobController, test))
async def test_limits_per_index_let_the_others_finish(world: World) -> None:
    spec = {"completions": 2, "parallelism": 2, "backoff_limit_per_index": 0, "backoff_limit": 2**31 - 1}
    await world.create(JOBS, job(completion_mode="Indexed", **spec))
    await world.quiet()
    for pod in await world.list(PODS):
        bad = pod.metadata.name.startswith("j-0-")
        await end(world, pod.metadata.name, code=1 if bad else 0)
    await world.clock.sleep(30)
    after = await status(world)
    assert (after.completed_indexes, after.failed_indexes) == ("1", "0")
    assert conditions(after)["Failed"] == ("True", "FailedIndexes", "Job has failed indexes")


@run_with(lambda test: play(JobController, test))
async def test_the_failure_policy_can_end_the_job_at_once_and_ignore_failures(world: World) -> None:
    def rule(action: str, code: int) -> PodFailurePolicyRule:
        wanted = PodFailurePolicyOnExitCodesRequirement(operator="In", values=(code,))
        return PodFailurePolicyRule(action=action, on_exit_codes=wanted)

    policy = PodFailurePolicy(rules=(rule("FailJob", 42), rule("Ignore", 7)))
    await world.create(JOBS, job(pod_failure_policy=policy, pod_replacement_policy="Failed"))
    await world.quiet()
    (ignored,) = await active(world)
    await end(world, ignored, code=7)
    await world.clock.sleep(30)
    assert (await status(world)).failed == 0
    (fatal,) = await active(world)
    await end(world, fatal, code=42)
    await world.quiet()
    reason = f"Container c for pod default/{fatal} failed with exit code 42 matching FailJob rule at index 0"
    assert conditions(await status(world))["Failed"] == ("True", "PodFailurePolicy", reason)


@pytest.mark.parametrize(("action", "tally"), [("FailJob", (2, 0)), ("Count", (1, 2)), ("Ignore", (0, 2))])
@run_with(lambda test: play(JobController, test))
async def test_a_rule_decides_what_a_failed_pod_and_those_beside_it_count(
    world: World, *, action: str, tally: tuple[int, int]
) -> None:
    """Failed and active pods of two, of which one fails by the rule while the other one runs."""
    codes = PodFailurePolicyOnExitCodesRequirement(operator="In", values=(42,))
    policy = PodFailurePolicy(rules=(PodFailurePolicyRule(action=action, on_exit_codes=codes),))
    await world.create(JOBS, job(parallelism=2, completions=2, pod_failure_policy=policy, backoff_limit=1))
    await world.quiet()
    first, _ = await bound(world)
    await world.quiet()
    await end(world, first, code=42)
    await world.clock.sleep(15)
    after = await status(world)
    assert (after.failed, after.active) == tally


@run_with(lambda test: play((JobController, Reaper), test))
async def test_the_success_policy_ends_an_indexed_job_early(world: World) -> None:
    policy = SuccessPolicy(rules=(SuccessPolicyRule(succeeded_indexes="0"),))
    await world.create(JOBS, job(completions=3, parallelism=3, completion_mode="Indexed", success_policy=policy))
    await world.quiet()
    (leader,) = (name for name in await active(world) if name.startswith("j-0-"))
    await end(world, leader)
    await world.clock.sleep(90)
    after = await status(world)
    assert conditions(after)["Complete"] == ("True", "SuccessPolicy", "Matched rules at index 0")
    assert (after.succeeded, after.failed) == (1, 0)


@run_with(lambda test: play((JobController, Reaper), test))
async def test_the_deadline_ends_the_job(world: World) -> None:
    await world.create(JOBS, job(active_deadline_seconds=30))
    await world.clock.sleep(25)
    assert conditions(await status(world)) == {}
    await world.clock.sleep(6)
    assert conditions(await status(world))["FailureTarget"][1] == "DeadlineExceeded"
    await world.clock.sleep(84)
    wanted = ("True", "DeadlineExceeded", "Job was active longer than specified deadline")
    assert conditions(await status(world))["Failed"] == wanted


@run_with(lambda test: play((JobController,), test))
async def test_a_job_past_its_deadline_waits_for_its_pods_without_going_round(world: World) -> None:
    await world.create(JOBS, job(active_deadline_seconds=30))
    await world.quiet()
    (pod,) = await world.list(PODS)
    binding = Binding(metadata=ObjectMeta(name=pod.metadata.name), target=ObjectReference(kind="Node", name="n"))
    await world.of(PODS).create_subresource(pod.metadata.name, "binding", binding)
    # No node ends the pod, so the job stays on its way to the end; virtual time must pass meanwhile.
    await world.clock.sleep(90)
    told = conditions(await status(world))
    assert told["FailureTarget"][1] == "DeadlineExceeded"
    assert "Failed" not in told


@run_with(lambda test: play(JobController, test))
async def test_pods_of_a_deleted_job_lose_their_finalizer(world: World) -> None:
    await world.create(JOBS, job())
    await world.quiet()
    await world.of(JOBS).delete("j", propagation_policy="Background")
    await world.quiet()
    (pod,) = await world.list(PODS)
    assert pod.metadata.finalizers == ()


@run_with(lambda test: play((JobController, Reaper), test))
async def test_a_parallelism_that_shrinks_gives_up_pods_uncounted(world: World) -> None:
    await world.create(JOBS, job(completions=5, parallelism=5))
    await world.quiet()
    await world.change(JOBS, "j", lambda j: replace(j, spec=replace(j.spec, parallelism=2)))
    await world.clock.sleep(60)
    now = await status(world)
    assert (now.active, now.failed) == (2, 0)


class Reaper:
    """Fake of the node agent for pods that are being deleted: it ends them after their grace period."""

    name = "reaper"

    def __init__(self, context: Any) -> None:
        self._pods = context.informers.of(PODS)
        self._client = context.client
        self._doomed: asyncio.Queue[Pod] = asyncio.Queue()
        put: Callable[[Any, Pod], None] = lambda _, pod: self._doomed.put_nowait(pod)  # noqa: E731
        self._pods.add_handler(on_update=put)

    async def run(self) -> None:
        while True:
            pod = await self._doomed.get()
            if pod.metadata.deletion_timestamp is not None and pod.metadata.deletion_grace_period_seconds:
                await asyncio.sleep(1)
                resource = self._client.resource(PODS, pod.metadata.namespace)
                await resource.delete(pod.metadata.name, grace_period_seconds=0, uid=pod.metadata.uid)


@pytest.mark.parametrize(("release", "reset"), [("1.34", False), ("1.35", False), ("1.36", True), ("1.37", True)])
def test_a_suspended_job_forgets_its_start_from_1_36_on(release: str, reset: bool) -> None:
    async def story(world: World) -> None:
        await world.create(JOBS, job())
        await world.quiet()
        assert (await status(world)).start_time is not None
        await world.change(JOBS, "j", lambda j: replace(j, spec=replace(j.spec, suspend=True)))
        await world.quiet()
        assert await active(world) == []
        assert ((await status(world)).start_time is None) == reset

    play(JobController, story, gates=FeatureGates.for_release(release))


@run_with(lambda test: play(JobController, test))
async def test_nothing_is_told_of_pods_that_a_namespace_that_goes_away_refuses(world: World) -> None:
    await world.create(NAMESPACES, Namespace(metadata=ObjectMeta(name="leaving", finalizers=("a.b/c",))))
    made = with_metadata(job(parallelism=2, completions=4), namespace="leaving")
    await world.create(JOBS, made)
    await world.quiet()
    await world.of(NAMESPACES).delete("leaving")
    for name in await world.names(PODS, "leaving"):
        await world.of(PODS, "leaving").delete(name, grace_period_seconds=0)
    await world.clock.sleep(60)
    assert "FailedCreate" not in {reason for _, reason, _ in await world.events()}


@run_with(lambda test: play(JobController, test, through=SpoiledTransport))
async def test_pods_that_cannot_be_decoded_are_not_replaced_again_and_again(world: World) -> None:
    made = job(completions=2, parallelism=2)
    template = made.spec.template
    metadata = replace(template.metadata, annotations={SPOILED: "spec.new"})
    odd = replace(made, spec=replace(made.spec, template=replace(template, metadata=metadata)))
    await world.create(JOBS, odd)
    await world.clock.sleep(3000)
    assert len(await world.names(PODS)) == 2


@run_with(lambda test: play(JobController, test, through=SpoiledTransport))
async def test_pods_of_a_job_that_cannot_be_decoded_stay_tracked(world: World) -> None:
    await world.create(JOBS, job(completions=2, parallelism=2))
    await world.quiet()
    await world.change(JOBS, "j", lambda one: with_metadata(one, annotations={SPOILED: "spec.new"}))
    await end(world, await first_active(world))
    await world.clock.sleep(60)
    assert all(pod.metadata.finalizers for pod in await world.list(PODS))
    await world.change(JOBS, "j", lambda one: with_metadata(one, annotations={}))
    await world.quiet()
    assert (await status(world)).succeeded == 1
