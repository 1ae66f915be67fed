"""Jobs create the Workload and the PodGroup of their pods."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from cathedra.api.core.batch_v1 import Job, JobSchedulingConfiguration
from cathedra.api.core.core_v1 import PodSchedulingGroup
from cathedra.api.core.meta_v1 import ObjectMeta, OwnerReference
from cathedra.api.core.scheduling_v1beta1 import PodGroup, Workload
from cathedra.api.struct import from_dict, replace, to_dict
from cathedra.client.resources import JOBS, PODGROUPS, PODS, WORKLOADS
from cathedra.controllers.administration.podgroups import PodGroupProtectionController
from cathedra.controllers.controller import ControllerContext
from cathedra.controllers.garbagecollector import GarbageCollector
from cathedra.controllers.job.controller import JobController
from cathedra.controllers.job.groups import pod_group_name, workload_name
from cathedra.releases import FeatureGates
from tests.running import run_with
from tests.unit.controllers.job.objects import active, end, job
from tests.unit.controllers.world import World, play

OPEN = {"GenericWorkload": True, "WorkloadWithJob": True, "CompositePodGroup": True}
GATES = FeatureGates.for_release("1.37", OPEN)
GANG: dict[str, Any] = {"schedulingPolicy": {"gang": {}}}


def scheduled(scheduling: dict[str, Any], name: str = "j", **spec: Any) -> Job:
    return job(name, scheduling=from_dict(JobSchedulingConfiguration, scheduling), **spec)


async def objects(world: World) -> tuple[Workload, PodGroup]:
    (workload,), (group,) = await world.list(WORKLOADS), await world.list(PODGROUPS)
    return workload, group


async def resize(world: World, **changes: Any) -> None:
    await world.change(JOBS, "j", lambda it: replace(it, spec=replace(it.spec, **changes)))
    await world.quiet()


@run_with(lambda test: play(JobController, test, gates=GATES))
async def test_a_job_without_scheduling_gets_a_basic_group(world: World) -> None:
    made = await world.create(JOBS, job(completions=2, parallelism=2))
    await world.quiet()
    workload, group = await objects(world)
    assert workload.metadata.name == workload_name(made)
    assert to_dict(workload.spec) == {
        "controllerRef": {"apiGroup": "batch", "kind": "Job", "name": "j"},
        "podGroupTemplates": [{"name": "j-pgt-0", "schedulingPolicy": {"basic": {}}, "schedulingConstraints": None}],
    }
    assert group.metadata.name == pod_group_name(workload.metadata.name, "j-pgt-0")
    assert to_dict(group.spec.scheduling_policy) == {"basic": {}}
    reference = {"workloadName": workload.metadata.name, "templateName": "j-pgt-0"}
    assert to_dict(group.spec.workload_ref) == reference
    assert [(one.kind, one.controller) for one in workload.metadata.owner_references] == [("Job", True)]
    owners = [(one.kind, one.controller) for one in group.metadata.owner_references]
    assert owners == [("Job", True), ("Workload", None)]
    for pod in await world.list(PODS):
        assert pod.spec.scheduling_group == PodSchedulingGroup(pod_group_name=group.metadata.name)
        assert [(one.kind, one.uid) for one in pod.metadata.owner_references] == [("Job", made.metadata.uid)]
    told = await world.events()
    assert ("Normal", "WorkloadCreated", f"Created Workload {workload.metadata.name} for Job j") in told
    assert ("Normal", "PodGroupCreated", f"Created PodGroup {group.metadata.name} for Job j") in told


@run_with(lambda test: play(JobController, test, gates=FeatureGates.for_release("1.37", {"GenericWorkload": True})))
async def test_without_the_gate_there_are_no_groups(world: World) -> None:
    await world.create(JOBS, job())
    await world.quiet()
    assert [pod.spec.scheduling_group for pod in await world.list(PODS)] == [None]
    assert await world.list(WORKLOADS) == () == await world.list(PODGROUPS)


@run_with(lambda test: play(JobController, test, gates=GATES))
async def test_a_gang_has_the_size_of_the_parallelism_and_follows_it(world: World) -> None:
    await world.create(JOBS, scheduled(GANG, completions=3, parallelism=3))
    await world.quiet()
    workload, group = await objects(world)
    assert to_dict(group.spec.scheduling_policy) == {"gang": {"minCount": 3}}
    await resize(world, parallelism=2)
    workload, group = await objects(world)
    assert to_dict(workload.spec.pod_group_templates[0].scheduling_policy) == {"gang": {"minCount": 2}}
    assert to_dict(group.spec.scheduling_policy) == {"gang": {"minCount": 2}}


def test_what_the_job_states_reaches_the_group() -> None:
    scheduling = {
        "schedulingPolicy": {"gang": {"minCount": 1}},
        "disruptionMode": {"all": {}},
        "schedulingConstraints": {"topology": [{"key": "rack"}]},
        "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "t"}],
    }

    async def story(world: World) -> None:
        await world.create(JOBS, scheduled(scheduling, completions=2, parallelism=2))
        await world.quiet()
        workload, group = await objects(world)
        (template,) = workload.spec.pod_group_templates
        for one in (template, group.spec):
            found = to_dict(one)
            assert {name: found[name] for name in scheduling} == scheduling

    more = ("DRAWorkloadResourceClaims", "TopologyAwareWorkloadScheduling")
    play(JobController, story, gates=FeatureGates.for_release("1.37", {**OPEN, **dict.fromkeys(more, True)}))


@run_with(lambda test: play(JobController, test, gates=GATES))
async def test_a_job_that_ran_before_the_gate_was_on_stays_as_it_is(world: World) -> None:
    await world.create(JOBS, job(suspend=True))
    await world.quiet()
    (workload,) = await world.list(WORKLOADS)
    await world.of(WORKLOADS).delete(workload.metadata.name)
    await resize(world, suspend=False)
    assert await world.list(WORKLOADS) == ()
    assert [pod.spec.scheduling_group for pod in await world.list(PODS)] == [None]


@run_with(lambda test: play(JobController, test, gates=GATES))
async def test_groups_stay_while_a_job_is_suspended(world: World) -> None:
    await world.create(JOBS, job())
    await world.quiet()
    before = await objects(world)
    await resize(world, suspend=True)
    await resize(world, suspend=False)
    assert [one.metadata.uid for one in await objects(world)] == [one.metadata.uid for one in before]
    (name,) = await active(world)
    pod = await world.of(PODS).get(name)
    assert pod.spec.scheduling_group == PodSchedulingGroup(pod_group_name=before[1].metadata.name)


@run_with(lambda test: play(JobController, test, gates=GATES))
async def test_a_template_that_names_a_group_keeps_it(world: World) -> None:
    plain = job()
    spec = replace(plain.spec.template.spec, scheduling_group=PodSchedulingGroup(pod_group_name="mine"))
    template = replace(plain.spec.template, spec=spec)
    await world.create(JOBS, replace(plain, spec=replace(plain.spec, template=template)))
    await world.quiet()
    assert await world.list(WORKLOADS) == ()
    (pod,) = await world.list(PODS)
    assert pod.spec.scheduling_group == PodSchedulingGroup(pod_group_name="mine")


def owned(kind: str, api_version: str, **annotations: str) -> Job:
    owner = OwnerReference(api_version=api_version, kind=kind, name="parent", uid="u", controller=True)
    notes = {f"scheduling.k8s.io/{name.replace('_', '-')}": value for name, value in annotations.items()}
    plain = job(completions=2, parallelism=2)
    return replace(plain, metadata=replace(plain.metadata, owner_references=(owner,), annotations=notes))


@pytest.mark.parametrize(("kind", "version"), [("JobSet", "jobset.x-k8s.io/v1"), ("CronJob", "batch/v1")])
@run_with(lambda test: play(JobController, test, gates=GATES))
async def test_a_job_of_another_controller_has_no_group_of_its_own(world: World, *, kind: str, version: str) -> None:
    await world.create(JOBS, owned(kind, version))
    await world.quiet()
    assert len(await world.list(PODS)) == 2
    assert await world.list(WORKLOADS) == () == await world.list(PODGROUPS)


def parent_workload(count: int) -> Workload:
    template = {"name": "workers", "schedulingPolicy": {"gang": {"minCount": count}}}
    reference = {"apiGroup": "jobset.x-k8s.io", "kind": "JobSet", "name": "parent"}
    spec = {"controllerRef": reference, "podGroupTemplates": [template]}
    return from_dict(Workload, {"metadata": {"name": "w", "namespace": "default"}, "spec": spec})


@run_with(lambda test: play(JobController, test, gates=GATES))
async def test_a_controller_may_leave_the_group_to_its_job(world: World) -> None:
    await world.create(WORKLOADS, parent_workload(2))
    annotations = {"group_template_name": "workers", "parent_compositepodgroup": "root"}
    await world.create(JOBS, owned("JobSet", "jobset.x-k8s.io/v1", **annotations))
    await world.quiet()
    workload, group = await objects(world)
    assert workload.metadata.name == "w"
    assert to_dict(group.spec.scheduling_policy) == {"gang": {"minCount": 2}}
    assert group.spec.parent_composite_pod_group_name == "root"
    assert [one.kind for one in group.metadata.owner_references] == ["Job"]
    await world.of(WORKLOADS).update(replace(workload, spec=parent_workload(1).spec))
    await end(world, (await active(world))[0])
    await world.quiet()
    _, group = await objects(world)
    assert to_dict(group.spec.scheduling_policy) == {"gang": {"minCount": 1}}


def test_the_groups_are_deleted_with_their_job() -> None:
    async def story(world: World) -> None:
        await world.create(JOBS, job())
        await world.quiet()
        await world.of(JOBS).delete("j", propagation_policy="Background")
        await world.quiet()
        for ref in (PODS, WORKLOADS, PODGROUPS):
            assert await world.names(ref) == []

    def collector(context: ControllerContext) -> GarbageCollector:
        return GarbageCollector(msgspec.structs.replace(context, served=(JOBS, PODGROUPS, PODS, WORKLOADS)))

    play((JobController, collector, PodGroupProtectionController), story, gates=GATES)


def test_1_36_infers_a_gang_for_indexed_jobs_whose_pods_all_run_at_once() -> None:
    gates = FeatureGates.for_release("1.36", {"GenericWorkload": True, "WorkloadWithJob": True})

    async def story(world: World) -> None:
        await world.create(JOBS, job("plain", completions=2, parallelism=2))
        await world.create(JOBS, job("gang", completions=2, parallelism=2, completion_mode="Indexed"))
        await world.quiet()
        workload, group = await objects(world)
        assert workload.spec.pod_group_templates[0].name == "gang-pgt-0"
        assert to_dict(group.spec.scheduling_policy) == {"gang": {"minCount": 2}}
        assert {one.api_version for one in group.metadata.owner_references} == {
            "batch/v1",
            "scheduling.k8s.io/v1alpha2",
        }

    play(JobController, story, gates=gates)


def test_long_names_are_cut_and_stay_different() -> None:
    long = Job(metadata=ObjectMeta(name="n" * 253, uid="u"))
    assert len(workload_name(long)) == 253
    one, other = pod_group_name("w" * 200, "a" * 100), pod_group_name("w" * 200, "a" * 101)
    assert len(one) == len(other) == 253
    assert one != other
    assert pod_group_name("w", "t").startswith("w-t-")
