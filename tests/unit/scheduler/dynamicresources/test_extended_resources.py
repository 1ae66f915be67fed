"""Extended resources that devices provide (docs/spec/scheduling.md §12)."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cathedra.api.core.core_v1 import Pod, PodSpec
from cathedra.api.resource import DeviceClass, ResourceClaim
from cathedra.api.struct import from_dict, replace
from cathedra.client.transport import APICall
from cathedra.scheduler.configuration.reading import read_configuration
from cathedra.scheduler.dynamicresources.extended_resources import Demand, class_of, requests_for
from cathedra.scheduler.dynamicresources.plugin import DynamicResources
from cathedra.scheduler.framework.plugin import NO_BATCH_RESULT
from cathedra.scheduler.plugins.node_resources import NodeResourcesFit
from cathedra.scheduler.state.node_info import NodeInfo
from tests.requirements import with_memos
from tests.running import run_with
from tests.unit.passedon import PassedOn
from tests.unit.scheduler.objects import device_class, node, pod, slice_
from tests.unit.scheduler.world import World, play

FPGA = "acme.test/fpga"


def container(name: str, count: int, *, sidecar: bool = False, **more: str) -> dict[str, Any]:
    requests = {**({FPGA: str(count)} if count else {}), **more}
    policy = {"restartPolicy": "Always"} if sidecar else {}
    return {"name": name, "resources": {"requests": requests}, **policy}


def made(inits: list[dict[str, Any]], containers: list[dict[str, Any]]) -> tuple[dict[str, int], list[tuple[str, str]]]:
    """Request → count, and (container, request) pairs."""
    found = requests_for(pod("p", initContainers=inits, containers=containers), {FPGA: "fpga"})
    requests = found.spec.devices.requests or ()
    counts = {request.name: request.exactly.count for request in requests if request.exactly is not None}
    return counts, [(mapping.container_name, mapping.request_name) for mapping in found.mappings]


def test_every_long_lived_container_has_a_request_of_its_own() -> None:
    counts, mappings = made([container("s", 1, sidecar=True)], [container("a", 2, cpu="1"), container("b", 0)])
    assert counts == {"container-0-request-0": 1, "container-1-request-0": 2}
    assert mappings == [("s", "container-0-request-0"), ("a", "container-1-request-0")]


def test_the_number_of_a_request_is_the_place_of_its_resource_among_the_containers_resources() -> None:
    counts, _ = made([], [container("a", 1, **{"aaa.test/x": "1"})])
    assert counts == {"container-0-request-1": 1}


def test_an_init_container_uses_the_devices_of_the_containers_after_it() -> None:
    counts, mappings = made([container("init", 2)], [container("a", 2), container("b", 1)])
    assert counts == {"container-1-request-0": 2, "container-2-request-0": 1}
    assert ("init", "container-1-request-0") in mappings


def test_of_several_init_containers_that_need_more_the_largest_remainder_serves_all() -> None:
    counts, mappings = made([container("i0", 2), container("i1", 4), container("i2", 3)], [container("a", 1)])
    assert counts == {"container-1-request-0": 3, "container-3-request-0": 1}
    assert mappings == [
        ("a", "container-3-request-0"),
        ("i0", "container-3-request-0"),
        ("i0", "container-1-request-0"),
        ("i1", "container-3-request-0"),
        ("i1", "container-1-request-0"),
        ("i2", "container-3-request-0"),
        ("i2", "container-1-request-0"),
    ]


def test_a_sidecar_before_the_init_container_is_busy_and_lends_nothing() -> None:
    counts, _ = made([container("s", 1, sidecar=True), container("init", 1)], [container("a", 0)])
    assert counts == {"container-0-request-0": 1, "container-1-request-0": 1}


def test_requests_are_sorted_as_text() -> None:
    counts, _ = made([], [container(f"c{i}", 1) for i in range(11)])
    assert list(counts)[:3] == ["container-0-request-0", "container-1-request-0", "container-10-request-0"]


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 2), st.sampled_from(("x", "y"))), max_size=8))
def test_what_is_known_of_a_pods_requests_is_what_they_say(steps: list[tuple[str, int, str]]) -> None:
    templates = [pod("p", containers=[container("c", count), container("d", 1)]) for count in range(3)]
    for name, count, class_name in steps:
        first, second = templates[count].spec.containers
        known = replace(templates[0], spec=PodSpec(containers=(replace(first, name=name), second)))
        anew = pod("p", containers=[container(name, count), container("d", 1)])
        assert requests_for(known, {FPGA: class_name}) == requests_for(anew, {FPGA: class_name})


@with_memos
def test_pods_of_one_template_have_the_very_same_requests() -> None:
    template = fpga_pod()
    other = replace(template, metadata=replace(template.metadata, name="other"))
    found = requests_for(template, {FPGA: "fpga"})
    assert requests_for(other, {FPGA: "fpga"}).spec is found.spec
    assert requests_for(other, {FPGA: "other"}).spec is not found.spec


def test_of_classes_with_one_resource_name_the_newest_wins_and_then_the_smaller_name() -> None:
    def class_(name: str, created: str) -> DeviceClass:
        metadata = {"name": name, "creationTimestamp": created}
        return from_dict(DeviceClass, {"metadata": metadata, "spec": {"extendedResourceName": FPGA}})

    old, new, same = (
        class_("a", "2026-01-01T00:00:00Z"),
        class_("c", "2026-01-02T00:00:00Z"),
        class_("b", "2026-01-02T00:00:00Z"),
    )
    assert class_of(FPGA, [old, new]) == "c"
    assert class_of(FPGA, [old, new, same]) == "b"
    assert class_of("deviceclass.resource.kubernetes.io/a", [old]) == "a"
    assert class_of("deviceclass.resource.kubernetes.io/z", [old]) is None


@pytest.mark.parametrize(
    ("others", "provided", "wanted"),
    [
        ((), {}, {FPGA, "acme.test/gpu"}),
        ((), {FPGA: "0"}, {FPGA, "acme.test/gpu"}),
        ((), {FPGA: "2"}, {"acme.test/gpu"}),
        ((), {FPGA: "2", "acme.test/gpu": "1"}, set()),
        (("acme.test/tpu",), {}, None),
        (("acme.test/tpu",), {"acme.test/tpu": "0"}, {FPGA, "acme.test/gpu"}),
    ],
)
def test_devices_provide_what_a_nodes_plugins_do_not(
    others: tuple[str, ...], provided: dict[str, str], wanted: set[str] | None
) -> None:
    demand = Demand(pod("p"), {FPGA: "fpga", "acme.test/gpu": "gpu"}, others, None)
    info = NodeInfo(node("n", **provided))
    assert demand.from_devices(info) == wanted
    if demand.is_left_to_devices(info.allocatable.keys()):
        assert demand.all == wanted


def fpga_pod(name: str = "p") -> Pod:
    return pod(name, requests={FPGA: "1"})


async def special_claims(world: World) -> list[ResourceClaim]:
    return list((await world.api(ResourceClaim).list()).items)


@run_with(play)
async def test_the_scheduler_makes_a_claim_and_tells_the_kubelet_who_uses_what(world: World) -> None:
    await world.create(device_class(extendedResourceName=FPGA), node("plain"), node("n1"), slice_("n1"))
    await world.create(fpga_pod())
    await world.quiet()
    bound = await world.pod("p")
    assert bound.spec.node_name == "n1"
    [claim] = await special_claims(world)
    assert claim.metadata.name.startswith("p-extended-resources-")
    assert claim.metadata.annotations == {"resource.kubernetes.io/extended-resource-claim": "true"}
    assert [r.uid for r in claim.status.reserved_for] == [bound.metadata.uid]
    told = bound.status.extended_resource_claim_status
    assert told is not None
    assert told.resource_claim_name == claim.metadata.name
    assert [(m.container_name, m.resource_name, m.request_name) for m in told.request_mappings] == [
        ("c", FPGA, "container-0-request-0")
    ]


@run_with(play)
async def test_a_resource_follows_the_changes_of_its_classes(world: World) -> None:
    """kubernetes/kubernetes#141110: the newest class of a name serves it; without that class the one before does."""
    await world.create(node("n1"), slice_("n1", 3), device_class("older", extendedResourceName=FPGA))
    await asyncio.sleep(5)
    await world.create(device_class("newer", driver="none.test", extendedResourceName=FPGA))
    await world.create(fpga_pod("first"))
    await world.quiet()
    assert await world.node_of("first") == "", "the newer class has no devices"
    await world.api(DeviceClass).delete("newer")
    await world.create(fpga_pod("again"))  # a deletion wakes no pod
    await world.quiet()
    assert await world.node_of("again") == "n1"
    kept = await world.api(DeviceClass).get("older")
    renamed = replace(kept, spec=replace(kept.spec, extended_resource_name="acme.test/other"))
    await world.api(DeviceClass).update(renamed)
    await world.quiet()
    await world.create(fpga_pod("second"), pod("third", requests={"acme.test/other": "1"}))
    await world.quiet()
    assert (await world.node_of("second"), await world.node_of("third")) == ("", "n1")


@run_with(lambda test: play(test, gates={"DRANodeAllocatableResources": True}))
async def test_devices_of_extended_resources_may_take_resources_of_their_node(world: World) -> None:
    """kubernetes/kubernetes#141556."""
    taken = {"cpu": {"mapping": {"deviceMultiplier": "2"}}}
    await world.create(device_class(extendedResourceName=FPGA), node("n1", cpu="3"))
    await world.create(slice_("n1", 2, nodeAllocatableResources=taken), fpga_pod("first"))
    await world.quiet()
    assert await world.node_of("first") == "n1"
    [status] = (await world.pod("first")).status.node_allocatable_resource_claim_statuses
    assert [(one.name, str(one.quantity)) for one in status.mapping] == [("cpu", "2")]
    await world.create(fpga_pod("second"))
    await world.quiet()
    assert (await world.condition("second"))[1].startswith("0/1 nodes are available: 1 Insufficient cpu.")


@run_with(play)
async def test_a_node_with_a_device_plugin_needs_no_claim(world: World) -> None:
    await world.create(device_class(extendedResourceName=FPGA), node("n1", **{FPGA: "1"}), fpga_pod())
    await world.quiet()
    assert await world.node_of("p") == "n1"
    assert await special_claims(world) == []


@run_with(play)
async def test_devices_of_extended_resources_are_not_given_twice(world: World) -> None:
    await world.create(device_class(extendedResourceName=FPGA), node("n1"), slice_("n1", 2))
    await world.create(*(fpga_pod(f"p{i}") for i in range(3)))
    await world.quiet()
    assert sorted([await world.node_of(f"p{i}") for i in range(3)]) == ["", "n1", "n1"]
    allocations = [c.status.allocation for c in await special_claims(world) if c.status.allocation is not None]
    assert sorted(r.device for a in allocations for r in a.devices.results) == ["gpu-0", "gpu-1"]


@pytest.mark.parametrize("together", [True, False])
@run_with(play)
async def test_nodes_that_are_asked_together_say_what_each_says_for_itself(
    world: World, *, together: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not together:
        monkeypatch.setattr(DynamicResources, "filter_batch", lambda *_: NO_BATCH_RESULT)
        monkeypatch.setattr(NodeResourcesFit, "predicate", lambda *_: None)
    await world.create(device_class(extendedResourceName=FPGA))
    await world.create(node("bare"), node("plugged", **{FPGA: "1"}))
    for name in ("one", "two"):
        await world.create(node(name), slice_(name, 1))
    await world.create(*(fpga_pod(f"p{i}") for i in range(4)))
    await world.create(pod("other", requests={FPGA: "1", "acme.test/none": "1"}))
    await world.quiet()
    places = {f"p{i}": await world.node_of(f"p{i}") for i in range(4)}
    assert sorted(places.values()) == ["", "one", "plugged", "two"]
    assert len([one for one in await special_claims(world) if one.status.allocation is not None]) == 2
    waiting = next(name for name, where in places.items() if not where)
    assert await world.condition(waiting) == (
        "Unschedulable",
        "0/4 nodes are available: 1 Insufficient acme.test/fpga, 3 cannot allocate all claims. "
        "preemption: 0/4 nodes are available: 1 No preemption victims found for incoming pod, "
        "3 Preemption is not helpful for scheduling.",
    )
    assert await world.condition("other") == (
        "Unschedulable",
        "0/4 nodes are available: 1 Insufficient acme.test/fpga, 4 Insufficient acme.test/none. "
        "preemption: 0/4 nodes are available: 4 Preemption is not helpful for scheduling.",
    )


@pytest.mark.parametrize(("strategy", "expected"), [("MostAllocated", "used"), ("LeastAllocated", "free")])
def test_nodes_are_scored_by_the_devices_that_are_in_use(strategy: str, expected: str) -> None:
    document = {"scoringStrategy": {"type": strategy, "resources": [{"name": FPGA, "weight": 1}]}}
    profile = {"pluginConfig": [{"name": "NodeResourcesFit", "args": document}]}
    head = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    text = json.dumps({**head, "profiles": [profile]})

    async def body(world: World) -> None:
        await world.create(device_class(extendedResourceName=FPGA))
        await world.create(node("used"), slice_("used", 4), node("free"), slice_("free", 4))
        await world.create(pod("first", requests={FPGA: "2"}, nodeSelector={"kubernetes.io/hostname": "used"}))
        await world.bound("first")
        await world.create(fpga_pod("second"))
        await world.bound("second")
        assert await world.node_of("second") == expected

    play(body, configuration=read_configuration(text))


def test_a_failed_binding_deletes_the_claim_again() -> None:
    class NoBinding(PassedOn):
        async def call(self, call: APICall) -> Any:
            if call.subresource == "binding":
                raise ConnectionError("no")
            return await self._inner.call(call)

    async def body(world: World) -> None:
        await world.create(device_class(extendedResourceName=FPGA), node("n1"), slice_("n1"), fpga_pod())
        await world.elapse(0.5)
        assert await special_claims(world) == []
        assert (await world.condition("p"))[0] == "SchedulerError"

    play(body, transport=NoBinding)


@run_with(play)
async def test_a_claim_left_by_an_earlier_scheduler_is_deleted_first(world: World) -> None:
    await world.create(device_class(extendedResourceName=FPGA), node("n1"), slice_("n1"))
    await world.create(pod("p", requests={FPGA: "1"}, schedulingGates=[{"name": "wait"}]))
    waiting = await world.pod("p")
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": waiting.metadata.uid, "controller": True}
    metadata = {
        "name": "left",
        "namespace": "default",
        "annotations": {"resource.kubernetes.io/extended-resource-claim": "true"},
        "ownerReferences": [owner],
    }
    await world.create(from_dict(ResourceClaim, {"metadata": metadata, "status": {"allocation": {"devices": {}}}}))
    await world.quiet()
    await world.api(Pod).update(replace(waiting, spec=replace(waiting.spec, scheduling_gates=())))
    await world.quiet()
    assert await world.node_of("p") == "n1"
    assert "left" not in [claim.metadata.name for claim in await special_claims(world)]


@run_with(play)
async def test_a_pod_wakes_when_a_class_begins_to_provide_its_resource(world: World) -> None:
    await world.create(node("n1"), slice_("n1", 1), device_class("idle"))
    await world.create(pod("p", requests={FPGA: "1"}))
    await world.quiet()
    assert f"Insufficient {FPGA}" in (await world.condition("p"))[1]
    await world.create(device_class("fpga", extendedResourceName=FPGA))
    await world.bound("p")
