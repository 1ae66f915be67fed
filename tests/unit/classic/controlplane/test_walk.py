"""Claims of 1.31 from the queue to the binding and back, with each allocator (docs/spec/scheduling.md §18)."""

from __future__ import annotations

from typing import Any

from cathedra.api import resource
from cathedra.api.core.core_v1 import Pod
from cathedra.classic.controlplane.kinds import allocated_by, controlled_claim_state
from cathedra.classic.resources import CONTEXTS
from cathedra.classic.testdriver import DRIVER_NAME
from cathedra.client.resources import NODES, PODS, RESOURCECLAIMS
from cathedra.client.transport import PatchType
from tests.running import run_with
from tests.unit.classic.controlplane.world import GPU, World, claim, device_class, play, pod, template

GPUS = device_class("gpus", selectors=[{"cel": {"expression": f'device.driver == "{GPU}"'}}])


def states(page: Any) -> list[str]:
    return [controlled_claim_state(found) for found in page.items]


@run_with(play)
async def test_the_scheduler_allocates_what_names_no_controller(world: World) -> None:
    await world.create(GPUS, template(class_name="gpus", controller=""), pod(gpu="t:t"))
    running = await world.running()
    (found,) = (await world.of(RESOURCECLAIMS).list()).items
    (result,) = found.status.allocation.devices.results
    assert (result.driver, result.pool, allocated_by(found.status.allocation)) == (GPU, running.spec.node_name, "")
    assert found.metadata.finalizers == ("resource.kubernetes.io/delete-protection",)
    assert (await world.of(CONTEXTS).list()).items == ()
    await world.of(PODS).delete("p")
    await world.until_gone(RESOURCECLAIMS, found.metadata.name)


@run_with(play)
async def test_a_named_controller_allocates_and_gets_everything_back(world: World) -> None:
    driver = await world.start_test_driver()
    await world.create(device_class(), template(), pod(dev="t:t"))
    await world.running()
    (found,) = (await world.of(RESOURCECLAIMS).list()).items
    assert allocated_by(found.status.allocation) == DRIVER_NAME
    assert found.metadata.finalizers == (f"{DRIVER_NAME}/deletion-protection",)
    assert states(await world.of(RESOURCECLAIMS).list()) == ["allocated,reserved"]
    await world.until_gone(CONTEXTS, "p")
    await world.of(PODS).delete("p")
    await world.until_gone(RESOURCECLAIMS, found.metadata.name)
    assert driver.statistics() == {}


@run_with(play)
async def test_a_claim_of_its_own_life_is_asked_back_after_its_last_pod(world: World) -> None:
    driver = await world.start_test_driver()
    await world.create(device_class(), claim(), pod(runs=30, dev="c"))
    await world.running()
    await world.until(RESOURCECLAIMS, "c", lambda found: found.status.allocation is None)
    assert driver.statistics() == {}
    found = await world.of(RESOURCECLAIMS).get("c")
    assert (found.metadata.finalizers, found.status.deallocation_requested) == ((), False)


@run_with(play)
async def test_many_pods_share_one_claim(world: World) -> None:
    await world.start_test_driver()
    await world.create(device_class(), claim())
    for number in range(3):
        await world.create(pod(f"p{number}", dev="c"))
    for number in range(3):
        await world.running(f"p{number}")
    assert len((await world.of(RESOURCECLAIMS).get("c")).status.reserved_for) == 3


@run_with(play)
async def test_nothing_is_bound_while_the_driver_never_answers(world: World) -> None:
    await world.create(device_class(), claim(), pod(dev="c"))
    await world.clock.sleep(300)
    assert (await world.of(PODS).get("p")).spec.node_name == ""
    context = await world.of(CONTEXTS).get("p")
    assert (context.spec.selected_node, context.spec.potential_nodes) == ("node-0", ("node-0",))
    said = (await world.messages("FailedScheduling"))[-1]
    assert "waiting for resource driver to provide information" in said
    await world.start_test_driver()
    await world.running()


@run_with(lambda test: play(test, nodes=2))
async def test_the_class_keeps_controllers_to_its_suitable_nodes(world: World) -> None:
    await world.start_test_driver(node_local=True, nodes=("node-0", "node-1"))
    term = {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": ["node-1"]}]}
    await world.create(device_class(suitableNodes={"nodeSelectorTerms": [term]}), claim(), pod(dev="c"))
    assert (await world.running()).spec.node_name == "node-1"
    nowhere = {"matchExpressions": [{"key": "nobody", "operator": "Exists"}]}
    await world.create(
        device_class("none", suitableNodes={"nodeSelectorTerms": [nowhere]}),
        claim("d", class_name="none"),
        pod("q", dev="d"),
    )
    await world.clock.sleep(30)
    assert "excluded by device class node filter" in (await world.messages("FailedScheduling"))[-1]


@run_with(lambda test: play(test, nodes=2))
async def test_a_node_without_room_is_excluded_and_another_one_selected(world: World) -> None:
    await world.start_test_driver(node_local=True, nodes=("node-0", "node-1"), max_allocations=1)
    await world.create(device_class(), template())
    for number in range(2):
        await world.create(pod(f"p{number}", dev="t:t"))
    assert {(await world.running(f"p{number}")).spec.node_name for number in range(2)} == {"node-0", "node-1"}
    await world.create(pod("p2", dev="t:t"))
    await world.clock.sleep(120)
    assert (await world.of(PODS).get("p2")).spec.node_name == ""
    await world.of(PODS).delete("p0")
    await world.running("p2")


@run_with(lambda test: play(test, nodes=2))
async def test_an_allocation_in_the_wrong_place_is_given_back_and_made_anew(world: World) -> None:
    driver = await world.start_test_driver(node_local=True, nodes=("node-0", "node-1"))
    await world.create(device_class(), claim(), pod("first", runs=60, dev="c"))
    first = (await world.running("first")).spec.node_name
    await world.of(NODES).patch(first, PatchType.MERGE, {"spec": {"unschedulable": True}})
    await world.create(pod("second", dev="c"))
    moved = await world.running("second")
    assert moved.spec.node_name != first
    assert driver.statistics() == {moved.spec.node_name: 1}


@run_with(play)
async def test_claims_of_both_kinds_in_one_pod_wait_for_ever_as_in_kubernetes(world: World) -> None:
    """kube-scheduler 1.31 compares answers and claims of its own with those that drivers have to allocate."""
    await world.start_test_driver()
    await world.create(GPUS, device_class(), claim("own", class_name="gpus", controller=""), claim())
    await world.create(pod("both", gpu="own", dev="c"))
    await world.clock.sleep(600)
    assert (await world.of(PODS).get("both")).spec.node_name == ""
    assert states(await world.of(RESOURCECLAIMS).list()) == ["pending", "pending"]
    # What waits holds nothing that others could use.
    await world.create(pod("one", gpu="own"))
    await world.running("one")


@run_with(play)
async def test_a_missing_class_is_named_with_its_request(world: World) -> None:
    await world.start_test_driver()
    await world.create(claim(), pod(dev="c"))
    await world.clock.sleep(30)
    assert "request r: device class ctl does not exist" in (await world.messages("FailedScheduling"))[-1]
    await world.create(device_class())
    await world.running()


@run_with(lambda test: play(test, DRAControlPlaneController=False))
async def test_without_the_gate_controllers_are_dropped_and_the_scheduler_allocates(world: World) -> None:
    await world.create(GPUS, claim(class_name="gpus"), pod(dev="c"))
    await world.running()
    found = await world.of(RESOURCECLAIMS).get("c")
    assert (found.spec.controller, allocated_by(found.status.allocation)) == ("", "")


@run_with(lambda test: play(test, DRAControlPlaneController=False))
async def test_a_template_keeps_its_controller_without_the_gate_but_its_claims_do_not(world: World) -> None:
    await world.create(GPUS, template(class_name="gpus"), pod(dev="t:t"))
    await world.running()
    (found,) = (await world.of(RESOURCECLAIMS).list()).items
    assert found.spec.controller == ""


@run_with(lambda test: play(test, nodes=2))
async def test_a_pod_on_a_node_by_hand_has_its_claim_allocated_there(world: World) -> None:
    await world.start_test_driver(node_local=True, nodes=("node-0", "node-1"))
    await world.create(device_class(), claim(), template("u"), pod(node="node-1", dev="c", more="t:u"))
    await world.running()
    for found in (await world.of(RESOURCECLAIMS).list()).items:
        assert [consumer.name for consumer in found.status.reserved_for] == ["p"]
        (term,) = found.status.allocation.node_selector.node_selector_terms
        assert term.match_expressions[0].values == ("node-1",)


@run_with(play)
async def test_the_driver_says_at_the_pod_what_it_cannot_allocate(world: World) -> None:
    await world.start_test_driver()
    selecting = device_class("some", selectors=[{"cel": {"expression": "true"}}])
    await world.create(selecting, claim(class_name="some"), pod(dev="c"))
    await world.clock.sleep(60)
    assert any("claim c: device selectors are not supported" in text for text in await world.messages("Failed"))


@run_with(play)
async def test_administrators_reach_devices_in_use_without_any_gate(world: World) -> None:
    everything = {"name": "r", "deviceClassName": "gpus", "allocationMode": "All"}
    await world.create(GPUS, claim("all", controller="", requests=[everything]), pod(gpu="all"))
    await world.running()
    admin = claim("admin", controller="", requests=[{**everything, "adminAccess": True}])
    await world.create(admin, pod("watcher", gpu="admin"))
    await world.running("watcher")
    found = await world.of(RESOURCECLAIMS).get("admin")
    assert found.spec.devices.requests[0].exactly.admin_access is True
    assert [result.admin_access for result in found.status.allocation.devices.results] == [None, None]


@run_with(play)
async def test_configuration_of_claim_and_class_reaches_the_container(world: World) -> None:
    def opaque(**parameters: str) -> dict[str, Any]:
        return {"opaque": {"driver": DRIVER_NAME, "parameters": parameters}}

    await world.start_test_driver()
    await world.create(device_class(config=[opaque(X="y")]), claim(config=[opaque(a="b"), opaque(a="c")]), pod(dev="c"))
    await world.running()
    allocation: resource.AllocationResult = (await world.of(RESOURCECLAIMS).get("c")).status.allocation
    assert [entry.source for entry in allocation.devices.config] == ["FromClaim", "FromClaim", "FromClass"]
    running: Pod = await world.of(PODS).get("p")
    assert running.status.phase == "Running"
