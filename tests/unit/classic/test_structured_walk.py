"""Structured parameters of 1.30: the scheduler allocates named instances (docs/spec/scheduling.md §18.4)."""

from __future__ import annotations

from typing import Any

from cathedra.api.core import resource_v1alpha2 as v1alpha2
from cathedra.api.struct import from_dict
from cathedra.classic.kinds.definitions import claim_state
from cathedra.classic.resources import CLAIM_PARAMETERS, CLAIMS, CLASS_PARAMETERS, CONTEXTS, SLICES
from cathedra.classic.testdriver import DRIVER_NAME
from cathedra.client.resources import PODS
from tests.running import run_with
from tests.unit.classic.world import World, claim, play, pod, resource_class, template


def slice_of(node: str, **instances: str) -> v1alpha2.ResourceSlice:
    """A slice of the test driver with instances of some memory each."""
    listed = [
        {"name": name, "attributes": [{"name": "memory", "quantity": memory}]} for name, memory in instances.items()
    ]
    return from_dict(
        v1alpha2.ResourceSlice,
        {
            "metadata": {"name": f"{node}-slice"},
            "nodeName": node,
            "driverName": DRIVER_NAME,
            "namedResources": {"instances": listed},
        },
    )


def parameters(name: str, *selectors: str, shareable: bool = False, **more: Any) -> v1alpha2.ResourceClaimParameters:
    """Parameters of a claim: one request for each selector."""
    requests = [{"namedResources": {"selector": one}, "vendorParameters": {"a": "b"}} for one in selectors]
    return from_dict(
        v1alpha2.ResourceClaimParameters,
        {
            "metadata": {"name": name, "namespace": "default"},
            "shareable": shareable,
            "driverRequests": [{"driverName": DRIVER_NAME, "requests": requests}],
            **more,
        },
    )


BIG = 'attributes.quantity["memory"].isGreaterThan(quantity("16Gi"))'
REFERENCE = {"apiGroup": "resource.k8s.io", "kind": "ResourceClaimParameters", "name": "big"}


async def offer(world: World, **more: Any) -> None:
    """A class whose claims the scheduler allocates, and two instances on each of two nodes."""
    await world.create(resource_class(structuredParameters=True, **more))
    for node in ("node-0", "node-1"):
        await world.of(SLICES).create(slice_of(node, small="8Gi", big="40Gi"))


def names(found: v1alpha2.ResourceClaim) -> list[str]:
    """The instances that a claim got."""
    (handle,) = found.status.allocation.resource_handles  # type: ignore[union-attr]  # allocated, or the test fails
    return [result.named_resources.name for result in handle.structured_data.results]  # type: ignore[union-attr]


@run_with(lambda test: play("1.30", test, nodes=2))
async def test_the_first_free_selected_instance_is_allocated_without_any_controller(world: World) -> None:
    await offer(world)
    await world.of(CLAIM_PARAMETERS).create(parameters("big", BIG))
    await world.create(claim(parametersRef=REFERENCE), pod(cat="c"))
    running = await world.running()
    found = await world.of(CLAIMS).get("c")
    assert claim_state(found) == "allocated,reserved"
    assert names(found) == ["big"]
    assert found.status.driver_name == DRIVER_NAME
    assert found.metadata.finalizers == ("resource.kubernetes.io/delete-protection",)
    handle = found.status.allocation.resource_handles[0].structured_data
    assert (handle.node_name, handle.results[0].vendor_request_parameters.data) == (
        running.spec.node_name,
        b'{"a":"b"}',
    )
    await world.until_gone(CONTEXTS, "p", seconds=5)


@run_with(lambda test: play("1.30", test, nodes=2))
async def test_each_instance_is_given_once_and_comes_back_with_its_pod(world: World) -> None:
    await offer(world)
    await world.of(CLAIM_PARAMETERS).create(parameters("big", BIG))
    await world.create(template(parametersRef=REFERENCE))
    for number in range(3):
        await world.create(pod(f"p{number}", cat="t:t"))
    await world.running("p0")
    await world.running("p1")
    await world.clock.sleep(60)
    assert (await world.of(PODS).get("p2")).spec.node_name == ""
    assert (
        "resourceclaim cannot be allocated for the node (unsuitable)" in (await world.messages("FailedScheduling"))[-1]
    )
    await world.of(PODS).delete("p0")
    await world.running("p2")


@run_with(lambda test: play("1.30", test, nodes=2))
async def test_a_pod_with_two_claims_gets_different_instances_of_one_node(world: World) -> None:
    await offer(world)
    await world.create(claim("a"), claim("b"), pod(first="a", second="b"))
    await world.running()
    assert [names(found) for found in (await world.of(CLAIMS).list()).items] == [["small"], ["big"]]


@run_with(lambda test: play("1.30", test))
async def test_a_filter_of_the_class_excludes_instances(world: World) -> None:
    reference = {"apiGroup": "resource.k8s.io", "kind": "ResourceClassParameters", "name": "f"}
    reference["namespace"] = "default"
    await offer(world, parametersRef=reference)
    await world.create(claim(), pod(cat="c"))
    await world.clock.sleep(30)
    assert "class parameters default/f not found" in (await world.messages("FailedScheduling"))[-1]
    made = {
        "metadata": {"name": "f", "namespace": "default"},
        "filters": [{"driverName": DRIVER_NAME, "namedResources": {"selector": BIG}}],
        "vendorParameters": [{"driverName": DRIVER_NAME, "parameters": {"x": "y"}}],
    }
    await world.of(CLASS_PARAMETERS).create(from_dict(v1alpha2.ResourceClassParameters, made))
    await world.running()
    found = await world.of(CLAIMS).get("c")
    assert names(found) == ["big"]
    handle = found.status.allocation.resource_handles[0].structured_data
    assert handle.vendor_class_parameters.data == b'{"x":"y"}'


@run_with(lambda test: play("1.30", test))
async def test_parameters_of_a_drivers_own_kind_are_found_by_what_they_were_generated_from(world: World) -> None:
    own = {"apiGroup": "cats.example.com", "kind": "CatParameters", "name": "black"}
    await offer(world)
    await world.create(claim(parametersRef=own), pod(cat="c"))
    await world.clock.sleep(30)
    assert (
        "generated claim parameters for CatParameters.cats.example.com default/black not found"
        in (await world.messages("FailedScheduling"))[-1]
    )
    await world.of(CLAIM_PARAMETERS).create(parameters("made-from-it", BIG, generatedFrom=own))
    await world.running()


@run_with(lambda test: play("1.30", test))
async def test_a_selector_that_fails_on_an_instance_makes_its_node_unsuitable(world: World) -> None:
    await offer(world)
    await world.of(CLAIM_PARAMETERS).create(parameters("big", 'attributes.bool["missing"]'))
    await world.create(claim(parametersRef=REFERENCE), pod(cat="c"))
    await world.clock.sleep(30)
    assert (
        "checking structured parameters failed: no such key: missing" in (await world.messages("FailedScheduling"))[-1]
    )


@run_with(lambda test: play("1.30", test, nodes=2))
async def test_one_structured_and_one_negotiated_claim_wait_for_ever_as_in_kubernetes(world: World) -> None:
    """kube-scheduler 1.30 compares the number of answers and structured claims with that of pending claims."""
    other = "other-driver.example.com"
    await offer(world)
    await world.start_test_driver(other)
    await world.create(resource_class("other", other), claim("s"), claim("d", class_name="other"))
    await world.create(pod(first="s", second="d"))
    await world.clock.sleep(600)
    assert (await world.of(CONTEXTS).get("p")).spec.selected_node == ""
    assert "waiting for resource driver to provide information" in (await world.messages("FailedScheduling"))[-1]
