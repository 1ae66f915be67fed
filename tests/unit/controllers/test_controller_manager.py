"""All controllers together, on one API server."""

from __future__ import annotations

import asyncio
import contextlib
import random

import pytest
from prometheus_client import CollectorRegistry

from cathedra.api.core.batch_v1 import Job, JobSpec
from cathedra.api.core.core_v1 import Container, Namespace, PodResourceClaim, PodSpec, PodTemplateSpec
from cathedra.api.core.meta_v1 import ObjectMeta
from cathedra.api.status import StatusError
from cathedra.client.client import Client
from cathedra.client.leaderelection import LeaderElector
from cathedra.client.queuemetrics import InformerMetrics
from cathedra.client.resources import (
    CONFIGMAPS,
    JOBS,
    LEASES,
    NAMESPACES,
    PODS,
    RESOURCECLAIMS,
    RESOURCECLAIMTEMPLATES,
    SERVICEACCOUNTS,
)
from cathedra.controllers.controller_manager import (
    CONTROLLERS,
    ControllerManager,
    ControllerOptions,
    UnknownController,
    selected,
    served_resources,
)
from cathedra.releases import FeatureGates
from tests.running import on_virtual_clock
from tests.unit.controllers.resourceclaim.objects import template
from tests.unit.controllers.world import GATES, World, open_server
from tests.unit.spoiled import SPOILED, SpoiledTransport


def job_with_claims(completions: int) -> Job:
    entry = PodResourceClaim(name="gpu", resource_claim_template_name="tpl")
    spec = PodSpec(
        containers=(Container(name="c", image="i"),),
        restart_policy="Never",
        resource_claims=(entry,),
        termination_grace_period_seconds=0,
    )
    return Job(
        metadata=ObjectMeta(name="j", namespace="default"),
        spec=JobSpec(completions=completions, parallelism=2, template=PodTemplateSpec(spec=spec)),
    )


async def started(world: World, client: Client) -> asyncio.Task[None]:
    manager = ControllerManager(
        client, clock=world.clock, random=random.Random(3), gates=GATES, options=ControllerOptions(root_ca="PEM")
    )
    return asyncio.create_task(manager.run())


async def stop(task: asyncio.Task[None]) -> None:
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


@on_virtual_clock
async def test_a_job_with_claims_runs_and_leaves_nothing_behind() -> None:
    server = await open_server(GATES)
    world = World(server)
    task = await started(world, Client(server.transport("system:kube-controller-manager"), clock=world.clock))
    await world.quiet()
    await world.create(RESOURCECLAIMTEMPLATES, template())
    await world.create(JOBS, job_with_claims(4))
    for _ in range(4):
        await world.quiet()
        pods = [pod for pod in await world.list(PODS) if pod.status.phase not in ("Succeeded", "Failed")]
        assert len(await world.list(RESOURCECLAIMS)) == len(pods) <= 2
        assert all(pod.status.resource_claim_statuses for pod in pods)
        await world.finish(pods[0].metadata.name)
    await world.quiet()
    done = (await world.of(JOBS).get("j")).status
    assert (done.succeeded, done.active) == (4, 0)
    assert {c.type for c in done.conditions if c.status == "True"} == {"SuccessCriteriaMet", "Complete"}
    assert await world.list(RESOURCECLAIMS) == ()
    await world.of(JOBS).delete("j", propagation_policy="Foreground")
    await world.quiet()
    assert await world.names(JOBS) == []
    assert await world.names(PODS) == []
    await stop(task)
    await server.close()


@on_virtual_clock
async def test_a_namespace_comes_and_goes_with_everything_in_it() -> None:
    server = await open_server(GATES)
    world = World(server)
    task = await started(world, Client(server.transport("system:kube-controller-manager"), clock=world.clock))
    await world.create(NAMESPACES, Namespace(metadata=ObjectMeta(name="team")))
    await world.quiet()
    assert await world.names(SERVICEACCOUNTS, "team") == ["default"]
    assert await world.names(CONFIGMAPS, "team") == ["kube-root-ca.crt"]
    await world.of(NAMESPACES).delete("team")
    await world.clock.sleep(6)
    assert "team" not in await world.names(NAMESPACES)
    await stop(task)
    await server.close()


@on_virtual_clock
async def test_of_two_managers_one_works_and_the_other_takes_over() -> None:
    server = await open_server(GATES)
    world = World(server)
    tasks = []
    for identity in ("a", "b"):
        client = Client(server.transport("system:kube-controller-manager"), clock=world.clock)
        elector = LeaderElector(client, "kube-controller-manager", identity, clock=world.clock)
        manager = ControllerManager(client, clock=world.clock, random=random.Random(3), gates=GATES, elector=elector)
        tasks.append(asyncio.create_task(manager.run()))
        await world.quiet()
    lease = await world.of(LEASES, "kube-system").get("kube-controller-manager")
    assert lease.spec.holder_identity == "a"
    await stop(tasks[0])
    await world.clock.sleep(5)
    lease = await world.of(LEASES, "kube-system").get("kube-controller-manager")
    assert lease.spec.holder_identity == "b"
    await world.of(SERVICEACCOUNTS).delete("default")
    await world.quiet()
    assert await world.names(SERVICEACCOUNTS) == ["default"]
    await stop(tasks[1])
    await server.close()


@on_virtual_clock
async def test_only_known_controllers_can_be_chosen() -> None:
    server = await open_server(GATES)
    world = World(server)

    def made(*names: str) -> ControllerManager:
        return ControllerManager(
            world.client,
            clock=world.clock,
            random=random.Random(3),
            gates=GATES,
            options=ControllerOptions(controllers=names),
        )

    with pytest.raises(UnknownController, match="known controllers"):
        made("no-such-controller")
    assert [controller.name for controller in made("job-controller").controllers] == ["job-controller"]
    await server.close()


def test_controllers_are_listed_under_their_own_names() -> None:
    assert all(getattr(make, "name", None) == name for name, make in CONTROLLERS.items())


@pytest.mark.parametrize(
    ("text", "there", "missing"),
    [
        ("*", "job-controller", ""),
        ("*,-job", "cronjob-controller", "job-controller"),
        ("job,podgc", "pod-garbage-collector-controller", "cronjob-controller"),
        ("*,-resource-claim-controller", "job-controller", "resourceclaim-controller"),
        ("", "", "job-controller"),
    ],
)
def test_the_list_of_controllers_is_read_as_kubernetes_reads_it(text: str, there: str, missing: str) -> None:
    names = selected(text)
    assert not there or there in names
    assert missing not in names


def test_an_unknown_controller_is_refused() -> None:
    with pytest.raises(UnknownController, match="'nodes' is not in the list of known controllers"):
        selected("*,-nodes")


def test_kinds_behind_a_gate_that_is_on_are_looked_after() -> None:
    """No server has them by default; one that is configured to serve them has a version of its own."""
    release = FeatureGates.for_release("1.36", {"GenericWorkload": True, "DRADeviceTaintRules": True})
    kinds = {ref.kind for ref in served_resources(release)}
    assert {"PodGroup", "Workload", "DeviceTaintRule"} <= kinds
    assert not {"PodGroup", "Workload"} & {ref.kind for ref in served_resources(FeatureGates.for_release("1.36"))}


def test_kinds_of_devices_are_collected_where_they_are_switched_on() -> None:
    on = FeatureGates.for_release("1.32", {"DynamicResourceAllocation": True})
    devices = {"DeviceClass", "ResourceClaim", "ResourceClaimTemplate", "ResourceSlice"}
    assert devices <= {ref.kind for ref in served_resources(on)}
    assert not devices & {ref.kind for ref in served_resources(FeatureGates.for_release("1.32"))}
    current = [ref for ref in served_resources(FeatureGates.for_release()) if ref.kind in devices]
    assert len(current) == len(devices)


@on_virtual_clock
async def test_one_object_of_each_kind_that_cannot_be_decoded_ends_no_controller() -> None:
    """In the first lists and in watches; the others are worked on as ever."""
    server = await open_server(GATES)
    world = World(server)
    refs = [ref for ref in served_resources(GATES) if ref not in (NAMESPACES, SERVICEACCOUNTS)]

    async def spoil(name: str) -> int:
        """Create what may be created with nothing but a name."""
        made = 0
        for ref in (*refs, NAMESPACES, SERVICEACCOUNTS):
            metadata = ObjectMeta(name=name, namespace="default" * ref.namespaced, annotations={SPOILED: "spec.x"})
            with contextlib.suppress(StatusError):
                await world.of(ref).create(ref.type(metadata=metadata))
                made += 1
        return made

    assert await spoil("before") > 10
    registry = CollectorRegistry()
    manager = ControllerManager(
        Client(SpoiledTransport(server.transport()), clock=world.clock),
        clock=world.clock,
        random=random.Random(3),
        gates=GATES,
        options=ControllerOptions(root_ca="PEM", observer=InformerMetrics(registry)),
    )
    running = asyncio.create_task(manager.run())
    await world.clock.sleep(5)
    await spoil("after")
    await world.create(RESOURCECLAIMTEMPLATES, template())
    await world.create(JOBS, job_with_claims(2))
    await world.clock.sleep(120)
    assert not running.done()
    assert len(await world.names(RESOURCECLAIMS)) - 2 == 2, "the job's pods have their claims"
    labels = {"resource": "configmaps", "kind": "ConfigMap"}
    assert registry.get_sample_value("cathedra_undecodable_objects_total", labels) == 2
    await stop(running)
    await server.close()
