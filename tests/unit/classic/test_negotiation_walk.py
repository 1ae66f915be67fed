"""Pods, schedulers and drivers of 1.26 to 1.30 together: docs/spec/scheduling.md §18, played in virtual time."""

from __future__ import annotations

import pytest

from cathedra.api.core.core_v1 import ConfigMap
from cathedra.api.core.meta_v1 import ObjectMeta
from cathedra.classic.kinds.definitions import claim_state
from cathedra.classic.resources import CLAIMS, CONTEXTS
from cathedra.client.resources import NODES, PODS
from cathedra.client.transport import PatchType
from tests.running import run_with
from tests.unit.classic.world import OTHER, World, claim, play, pod, resource_class, template

RELEASES = ("1.26", "1.27", "1.28", "1.29", "1.30")


@pytest.mark.parametrize("release", RELEASES)
def test_a_pod_with_a_template_gets_its_claim_allocated_reserved_and_prepared(release: str) -> None:
    async def story(world: World) -> None:
        await world.start_test_driver()
        await world.create(resource_class(), template(), pod(cat="t:t"))
        running = await world.running()
        (found,) = (await world.of(CLAIMS).list()).items
        assert claim_state(found) == "allocated,reserved"
        assert found.status.driver_name == "test-driver.cdi.k8s.io"
        assert [consumer.uid for consumer in found.status.reserved_for] == [running.metadata.uid]
        assert found.metadata.finalizers == ("test-driver.cdi.k8s.io/deletion-protection",)
        assert found.metadata.name.startswith("p-cat")
        assert (found.metadata.name == "p-cat") is (release in ("1.26", "1.27"))
        # The negotiation is over.
        await world.until_gone(CONTEXTS, "p")

    play(release, story)


@pytest.mark.parametrize("release", RELEASES)
def test_a_deleted_pod_takes_its_claim_with_it_and_the_driver_has_everything_back(release: str) -> None:
    async def story(world: World) -> None:
        driver = await world.start_test_driver()
        await world.create(resource_class(), template(), pod(cat="t:t"))
        await world.running()
        name = (await world.of(CLAIMS).list()).items[0].metadata.name
        await world.of(PODS).delete("p")
        await world.until_gone(CLAIMS, name)
        assert driver.statistics() == {}

    play(release, story)


@run_with(lambda test: play("1.26", test))
async def test_an_immediate_claim_is_allocated_before_any_pod_asks(world: World) -> None:
    await world.start_test_driver()
    await world.create(resource_class(), claim(allocationMode="Immediate"))
    found = await world.until(CLAIMS, "c", lambda obj: obj.status.allocation is not None)
    assert claim_state(found) == "allocated"
    await world.create(pod(cat="c"))
    await world.running()
    assert claim_state(await world.of(CLAIMS).get("c")) == "allocated,reserved"


@run_with(lambda test: play("1.27", test))
async def test_nothing_is_bound_while_the_driver_never_answers(world: World) -> None:
    await world.create(resource_class(), claim(), pod(cat="c"))
    await world.clock.sleep(600)
    waiting = await world.of(PODS).get("p")
    assert waiting.spec.node_name == ""
    context = await world.of(CONTEXTS).get("p")
    assert (context.spec.selected_node, context.spec.potential_nodes) == ("node-0", ("node-0",))
    assert "waiting for resource driver to allocate resource" in (await world.messages("FailedScheduling"))[-1]
    # The driver comes at last.
    await world.start_test_driver()
    await world.running()


@run_with(lambda test: play("1.28", test, nodes=2))
async def test_a_node_without_room_is_excluded_and_another_one_selected(world: World) -> None:
    await world.start_test_driver(node_local=True, nodes=("node-0", "node-1"), max_allocations=1)
    await world.create(resource_class(), template())
    for number in range(2):
        await world.create(pod(f"p{number}", cat="t:t"))
    nodes = {(await world.running(f"p{number}")).spec.node_name for number in range(2)}
    assert nodes == {"node-0", "node-1"}
    # A third one finds no room, until one goes.
    await world.create(pod("p2", cat="t:t"))
    await world.clock.sleep(120)
    assert (await world.of(PODS).get("p2")).spec.node_name == ""
    await world.of(PODS).delete("p0")
    await world.running("p2")


@run_with(lambda test: play("1.30", test))
async def test_both_drivers_of_a_pod_must_have_answered_before_a_node_is_selected(world: World) -> None:
    other = "other-driver.example.com"
    await world.start_test_driver()
    await world.create(resource_class(), resource_class("other", other), claim("a"), claim("b", class_name="other"))
    await world.create(pod(first="a", second="b"))
    await world.clock.sleep(120)
    assert (await world.of(CONTEXTS).get("p")).spec.selected_node == ""
    assert [claim_state(obj) for obj in (await world.of(CLAIMS).list()).items] == ["pending", "pending"]
    await world.start_test_driver(other)
    await world.running()
    assert [claim_state(obj) for obj in (await world.of(CLAIMS).list()).items] == ["allocated,reserved"] * 2


@run_with(lambda test: play("1.28", test))
async def test_a_shareable_claim_serves_many_pods_and_an_exclusive_one_at_a_time(world: World) -> None:
    await world.start_test_driver(shareable=True)
    await world.create(resource_class(), claim("shared"))
    for number in range(3):
        await world.create(pod(f"p{number}", cat="shared"))
    for number in range(3):
        await world.running(f"p{number}")
    assert len((await world.of(CLAIMS).get("shared")).status.reserved_for) == 3


@run_with(lambda test: play("1.28", test))
async def test_a_second_pod_waits_until_the_first_has_given_its_exclusive_claim_back(world: World) -> None:
    await world.start_test_driver()
    await world.create(resource_class(), claim("one"), pod("first", runs=300, cat="one"))
    await world.running("first")
    await world.create(pod("second", cat="one"))
    await world.clock.sleep(60)
    assert (await world.of(PODS).get("second")).spec.node_name == ""
    assert "resourceclaim in use" in (await world.messages("FailedScheduling"))[-1]
    await world.running("second", seconds=1200)


def test_an_allocation_in_the_wrong_place_is_given_back_and_made_anew() -> None:
    """Scheduling onto the node fails after the allocation; the claim is deallocated and the pod goes elsewhere."""

    async def story(world: World) -> None:
        await world.create(resource_class(), claim(), pod(cat="c"))
        selected = await world.until(CONTEXTS, "p", lambda obj: bool(obj.spec.selected_node))
        first = selected.spec.selected_node
        await world.stop("scheduler")
        driver = await world.start_test_driver(node_local=True, nodes=("node-0", "node-1"))
        await world.until(CLAIMS, "c", lambda obj: obj.status.allocation is not None)
        await world.of(NODES).patch(first, PatchType.MERGE, {"spec": {"unschedulable": True}})
        world.start_scheduler()
        moved = await world.running()
        assert moved.spec.node_name != first
        assert driver.statistics() == {moved.spec.node_name: 1}

    for release in ("1.26", "1.30"):
        play(release, story, nodes=2)


@run_with(lambda test: play("1.27", test))
async def test_parameters_come_from_config_maps_of_claim_and_class(world: World) -> None:
    await world.start_test_driver()
    reference = {"kind": "ConfigMap", "name": "admin", "namespace": "default"}
    await world.create(
        ConfigMap(metadata=ObjectMeta(name="user", namespace="default"), data={"a": "b"}),
        ConfigMap(metadata=ObjectMeta(name="admin", namespace="default"), data={"X": "y"}),
        resource_class(parametersRef=reference),
        claim(parametersRef={"kind": "ConfigMap", "name": "user"}),
        pod(cat="c"),
    )
    await world.running()
    (handle,) = (await world.of(CLAIMS).get("c")).status.allocation.resource_handles
    assert handle.data == '{"EnvVars":{"user_a":"b","admin_x":"y"},"NodeName":""}'


@run_with(lambda test: play("1.27", test))
async def test_missing_parameters_are_told_at_the_pod_and_tried_again(world: World) -> None:
    await world.start_test_driver()
    await world.create(resource_class(), claim(parametersRef={"kind": "ConfigMap", "name": "user"}), pod(cat="c"))
    await world.clock.sleep(60)
    assert any('get config map: configmaps "user" not found' in text for text in await world.messages("Failed"))
    await world.create(ConfigMap(metadata=ObjectMeta(name="user", namespace="default"), data={"a": "b"}))
    await world.running()


@pytest.mark.parametrize(
    ("release", "text"),
    [
        ("1.26", 'look up resource class: resourceclass.resource.k8s.io "example" not found'),
        ("1.29", 'running "DynamicResources" filter plugin: look up resource class: '),
        ("1.30", "resource class example does not exist"),
    ],
)
def test_a_missing_class_is_told_in_the_words_of_the_release(release: str, text: str) -> None:
    async def story(world: World) -> None:
        await world.create(claim(), pod(cat="c"))
        await world.clock.sleep(10)
        assert text in (await world.messages("FailedScheduling"))[-1]
        await world.start_test_driver()
        await world.create(resource_class())
        await world.running(seconds=1200)

    play(release, story)


@pytest.mark.parametrize("release", ["1.26", "1.27"])
def test_until_1_27_a_missing_claim_is_told_by_the_scheduler(release: str) -> None:
    async def story(world: World) -> None:
        await world.start_test_driver()
        await world.create(resource_class(), pod(cat="c"))
        await world.clock.sleep(5)
        assert 'resourceclaim.resource.k8s.io "c" not found' in (await world.messages("FailedScheduling"))[-1]
        await world.create(claim())
        await world.running()

    play(release, story)


def test_conflicting_selections_of_two_drivers_keep_the_pod_waiting_until_one_node_suits_both() -> None:
    """Each driver has room on one node only, and not on the same: nothing is allocated, and no node is chosen."""

    async def story(world: World) -> None:
        await world.start_test_driver(node_local=True, nodes=("node-0",))
        await world.start_test_driver(OTHER, node_local=True, nodes=("node-1",))
        await world.create(resource_class(), resource_class("others", OTHER))
        await world.create(claim("mine"), claim("yours", class_name="others"), pod(a="mine", b="yours"))
        await world.clock.sleep(600)
        assert (await world.of(PODS).get("p")).spec.node_name == ""
        held = [obj for obj in (await world.of(CLAIMS).list()).items if obj.status.allocation is not None]
        assert held == []
        answers = (await world.of(CONTEXTS).get("p")).status.resource_claims
        assert {answer.name: answer.unsuitable_nodes for answer in answers} == {"a": ("node-1",), "b": ("node-0",)}
        assert (
            "resourceclaim cannot be allocated for the node (unsuitable)"
            in (await world.messages("FailedScheduling"))[-1]
        )
        await world.stop(OTHER)
        await world.start_test_driver(OTHER, node_local=True, nodes=("node-0", "node-1"))
        assert (await world.running(seconds=3600)).spec.node_name == "node-0"

    for release in ("1.26", "1.30"):
        play(release, story, nodes=2)
